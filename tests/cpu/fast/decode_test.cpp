// Decoding tiles: every code of every format, in every level, layout and alignment.
#include "cpu/fast/decode.h"
#include "cpu/fast/cases.h"
#include "cpu/fast/micro_kernels.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

namespace tilewright {
namespace {

const cpu::FastKernels& kernels_of(cpu::Isa isa) {
#if defined(__x86_64__)
    if (isa == cpu::Isa::avx512) return cpu::avx512::fast_kernels();
    if (isa == cpu::Isa::avx2) return cpu::avx2::fast_kernels();
#endif
    static_cast<void>(isa);
    return cpu::baseline::fast_kernels();
}

bool same(float x, float y) {
    return (std::isnan(x) && std::isnan(y)) ||
           __builtin_bit_cast(std::uint32_t, x) == __builtin_bit_cast(std::uint32_t, y);
}

TEST(FastDecode, EveryCode) {
    for (Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::bf16, Format::f16}) {
        const int codes = 1 << bits(format);
        std::vector<std::byte> memory(static_cast<std::size_t>(codes) * static_cast<std::size_t>(bits(format)) / 8);
        for (int code = 0; code < codes; ++code) {
            if (format == Format::e2m1) {
                memory[static_cast<std::size_t>(code / 2)] |= static_cast<std::byte>(code << (code % 2 * 4));
            } else {
                std::memcpy(memory.data() + code * bits(format) / 8, &code, static_cast<std::size_t>(bits(format)) / 8);
            }
        }
        for (cpu::Isa isa : test::levels()) {
            const float gain = kernels_of(isa).decode_gain(format);
            for (int first = 0; first < codes; first += 256) {
                std::vector<float> out(static_cast<std::size_t>(std::min(codes, 256)));
                kernels_of(isa).decode({.values = memory.data(),
                                        .format = format,
                                        .row_count = 1,
                                        .base = first,
                                        .row_stride = codes,
                                        .k_stride = 1,
                                        .k_count = static_cast<int>(out.size()),
                                        .scales = &gain,
                                        .out = out.data(),
                                        .out_row_stride = 256,
                                        .out_k_stride = 1});
                for (std::size_t i = 0; i < out.size(); ++i) {
                    const auto expected =
                        static_cast<float>(formats::load(memory.data(), format, first + static_cast<std::int64_t>(i)));
                    ASSERT_TRUE(same(out[i], expected)) << name(format) << " code " << first + static_cast<int>(i);
                }
            }
        }
    }
}

struct Strides2 {
    std::int64_t row_stride;
    std::int64_t k_stride;
    std::int64_t base;
};

/// One tile against single elements, for source strides, tile sizes and both directions of the output.
void expect_tile(Format format, cpu::Isa isa, const Strides2& layout, int rows, int k_count) {
    std::vector<std::byte> memory(1 << 16);
    check::Random random(7);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random.bits() & (format == Format::e2m1 ? 255 : 0x33));
    constexpr int scale_stride = 64;
    std::vector<float> scales(scale_stride * 32);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = std::ldexp(1.0F, static_cast<int>(i % 13) - 6);
    std::vector<std::int64_t> list(static_cast<std::size_t>(rows));
    std::iota(list.begin(), list.end(), 2);
    if (rows > 3) list.back() += 1;
    const cpu::FastKernels& kernels = kernels_of(isa);
    for (const bool along_rows : {false, true}) {
        for (const bool listed : {false, true}) {
            std::vector<float> out(64 * 300, -1.0F);
            std::vector<std::byte> scratch(cpu::decode_scratch_bytes);
            const cpu::DecodeJob job{.values = memory.data(),
                                     .format = format,
                                     .rows = listed ? list.data() : nullptr,
                                     .first_row = 2,
                                     .row_count = rows,
                                     .base = layout.base,
                                     .row_stride = layout.row_stride,
                                     .k_stride = layout.k_stride,
                                     .k_count = k_count,
                                     .scales = scales.data(),
                                     .scale_stride = scale_stride,
                                     .k_block = 32,
                                     .out = out.data(),
                                     .out_row_stride = along_rows ? 1 : 300,
                                     .out_k_stride = along_rows ? 64 : 1,
                                     .scratch = scratch.data()};
            kernels.decode(job);
            for (int r = 0; r < rows; ++r) {
                for (int k = 0; k < k_count; ++k) {
                    const std::int64_t row = listed ? list[static_cast<std::size_t>(r)] : 2 + r;
                    const std::int64_t index = layout.base + row * layout.row_stride + k * layout.k_stride;
                    const double expected =
                        formats::load(memory.data(), format, index) *
                        double{scales[static_cast<std::size_t>(r) +
                                      static_cast<std::size_t>(k / 32) * static_cast<std::size_t>(scale_stride)]} /
                        double{kernels.decode_gain(format)};
                    const float given = out[static_cast<std::size_t>(r * job.out_row_stride + k * job.out_k_stride)];
                    ASSERT_TRUE(same(given, static_cast<float>(expected)))
                        << name(format) << " row " << r << " k " << k << " strides " << layout.row_stride << ", "
                        << layout.k_stride << (along_rows ? " along rows" : " along k") << (listed ? ", listed" : "");
                }
            }
        }
    }
}

TEST(FastDecode, EveryLayout) {
    for (Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::bf16, Format::f16, Format::f32}) {
        std::vector<Strides2> layouts{{200, 1, 0}, {200, 1, 6}, {1, 40, 0}, {1, 42, 8}};
        if (format == Format::e2m1) {
            layouts.push_back({200, 1, 5});  // a group that begins within a byte
        } else {
            layouts.insert(layouts.end(), {{3, 100, 1}, {201, 2, 3}, {1, 41, 7}});
        }
        for (cpu::Isa isa : test::levels()) {
            for (const Strides2& layout : layouts) {
                for (int rows : {1, 7, 16, 17, 32}) {
                    for (int k_count : {1, 15, 16, 33, 64, 70}) expect_tile(format, isa, layout, rows, k_count);
                }
            }
        }
    }
}

}  // namespace
}  // namespace tilewright
