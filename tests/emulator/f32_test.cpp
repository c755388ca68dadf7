// Kernels for D of f32 on the emulator: NaN, infinities, zeros of both signs and subnormal numbers in C, elsewhere and
// in place, each bit as the CPU's arithmetic `bit_exact` has it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/exact/exact.h"
#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"
#include "plan/variant.h"

namespace tilewright::tests {
namespace {

using hopper::Scaling;
using hopper::Tile;

constexpr Tile f32_tile(Scaling scaling, hopper::Family family) {
    Tile tile{.shape = {.m = 128, .n = 64}, .stages = 3, .family = family, .variant = hopper::Variant::fast_f32};
    tile.a.scaling = tile.b.scaling = scaling;
    return tile;
}

std::vector<Kernel> f32_kernels() {
    std::vector<Kernel> list;
    add<f32_tile(Scaling::block_1x128, hopper::Family::dense)>(list);
    add<f32_tile(Scaling::epilogue, hopper::Family::dense)>(list);
    add<f32_tile(Scaling::epilogue, hopper::Family::k_grouped)>(list);
    return list;
}

constexpr std::array special_bits{0x7FC12345U, 0xFF800001U, 0x7F800000U, 0xFF800000U, 0x80000000U, 0x00000000U,
                                  0x00000001U, 0x807FFFFFU, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x3F800000U, 0x00800000U};

void fill_with_special(void* matrix, std::int64_t elements) {
    auto* const values = static_cast<float*>(matrix);
    for (std::int64_t i = 0; i < elements; ++i) {
        values[i] = std::bit_cast<float>(special_bits[static_cast<std::size_t>(i) % special_bits.size()]);
    }
}

void expect_bits(const Kernel& kernel, bool in_place, float alpha) {
    const bool of_k = is_k_grouped(kernel.tile);
    const bool at_end = kernel.tile.a.scaling == Scaling::epilogue;
    check::Case test({.grouping = of_k ? Grouping::k_grouped_aligned_offsets : Grouping::dense,
                      .recipe = parse_recipe(at_end ? "row:row" : "1x128:1x128").value(),
                      .output = Format::f32,
                      .m = 164,
                      .n = 100,
                      .k = of_k ? 384 : 272,
                      .groups = of_k ? 3 : 1,
                      .group_sizes = of_k ? std::vector<std::int64_t>{130, 0, 128} : std::vector<std::int64_t>{},
                      .with_c = true,
                      .in_place = in_place,
                      .a_scales_transposed = true,
                      .b_scales_transposed = true});
    Problem& p = test.problem();
    p.alpha = alpha;
    const std::int64_t elements = (of_k ? 3 : 1) * 164 * 100;
    // Rows of zeros, whose sums are zeros, and a NaN.
    std::memset(p.a.values.data, 0, static_cast<std::size_t>(80 * p.a.values.strides[0]));
    static_cast<std::uint8_t*>(p.a.values.data)[81 * p.a.values.strides[0]] = 0x7F;
    const auto result = [&](const auto& run) {
        fill_with_special(p.c.data, elements);
        run(test.geometry());
        std::vector<std::uint32_t> bits(static_cast<std::size_t>(elements));
        std::memcpy(bits.data(), p.d.data, bits.size() * sizeof(bits[0]));
        return bits;
    };
    const auto expected = result([](const Geometry& g) { cpu::run_exact(g, {.threads = 1}); });
    const auto given = result([&](const Geometry& g) {
        ASSERT_EQ(planner::serves(g, kernel.tile), true);
        const hopper::KernelReport report = run_on_emulator(kernel, g, {.sms = 2});
        EXPECT_EQ(report.producer.word | report.consumer.word, 0U);
    });
    for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(given[i], expected[i]) << launch::describe(kernel.tile) << ", alpha " << alpha
                                         << (in_place ? ", in place" : "") << ": element " << i << ", C "
                                         << special_bits[i % special_bits.size()];
    }
}

TEST(F32Output, KeepsEachBitOfSpecialNumbers) {
    for (const Kernel& kernel : f32_kernels()) {
        for (const bool in_place : {false, true}) {
            for (const float alpha : {1.0F, -1.0F, 0x1p-145F, std::numeric_limits<float>::quiet_NaN()}) {
                expect_bits(kernel, in_place, alpha);
                if (HasFatalFailure()) return;
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
