#include "emulator/ring_kernel.h"

#include "cpu/exact/tensor_core.h"
#include "formats/codec.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace tilewright::tests {
namespace {

// Three tiles for two blocks; more k-blocks than stages, the last one cut; a tile that hangs over the end of D.
constexpr int m = 2 * ring_m + 40, n = ring_n, k = 7 * ring_k + 48;

struct Data {
    alignas(16) std::array<std::uint8_t, std::size_t{m} * k> a{};
    alignas(16) std::array<std::uint8_t, std::size_t{n} * k> b{};
    std::vector<std::uint16_t> expected;
};

std::uint16_t expected_at(const Data& data, int row, int column) {
    const cpu::TensorCore core;
    float sum = 0;
    for (int begin = 0; begin < k; begin += 128) {
        std::array<std::uint8_t, 128> a{};
        std::array<std::uint8_t, 128> b{};
        for (int i = 0; i < 128 && begin + i < k; ++i) {
            a[i] = data.a[std::size_t{1} * row * k + begin + i];
            b[i] = data.b[std::size_t{1} * column * k + begin + i];
        }
        sum += core.chain(a.data(), b.data(), 4, 0);
    }
    return static_cast<std::uint16_t>(formats::encode(formats::bf16_fields, sum, formats::Overflow::propagate));
}

const Data& data() {
    static const Data made = [] {
        Data d;
        std::mt19937 random(1);    // NOLINT: the same numbers every time
        const auto number = [&] {  // below 2 in size
            return static_cast<std::uint8_t>((random() & 0x80U) | (random() % 0x40U));
        };
        for (auto& code : d.a) code = number();
        for (auto& code : d.b) code = number();
        for (int row = 0; row < m; ++row) {
            for (int column = 0; column < n; ++column) d.expected.push_back(expected_at(d, row, column));
        }
        return d;
    }();
    return made;
}

std::string difference(const std::vector<std::uint16_t>& d) {
    for (int i = 0; i < m * n; ++i) {
        if (d[i] == data().expected[i]) continue;
        return fmt::format("wrong result: row {} column {} is {:#x}, must be {:#x}", i / n, i % n, d[i],
                           data().expected[i]);
    }
    return {};
}

}  // namespace

std::string outcome(void (*kernel)(RingArguments), const Timings& timings) {
    std::vector<std::uint16_t> d(std::size_t{m} * n, 0xFFFF);
    const auto map = [](const void* base, int bytes, hopper::u64 columns, hopper::u64 rows, hopper::u32 box_columns,
                        hopper::u32 box_rows, bool swizzled) {
        return emulator::encode({.base = base,
                                 .element_bytes = bytes,
                                 .sizes = {columns, rows, 1},
                                 .strides = {columns * bytes, columns * bytes * rows},
                                 .box = {box_columns, box_rows, 1},
                                 .swizzled = swizzled});
    };
    const RingArguments arguments{.a = map(data().a.data(), 1, k, m, ring_k, ring_m, true),
                                  .b = map(data().b.data(), 1, k, n, ring_k, ring_n, true),
                                  .d = map(d.data(), 2, n, m, ring_n, 16, false),
                                  .m_tiles = (m + ring_m - 1) / ring_m,
                                  .k_blocks = (k + ring_k - 1) / ring_k};
    const auto role = [](int warp) { return warp == 0 ? "load" : warp < 4 ? "spare" : "multiply"; };
    try {
        emulator::launch({.blocks = 2,
                          .threads = ring_threads,
                          .shared_bytes = sizeof(RingShared),
                          .tma = timings.tma,
                          .wgmma = timings.wgmma,
                          .seed = timings.seed,
                          .registers = 128,
                          .role = role},
                         [&] { kernel(arguments); });
    } catch (const emulator::Error& error) {
        return error.what();
    }
    return difference(d);
}

}  // namespace tilewright::tests
