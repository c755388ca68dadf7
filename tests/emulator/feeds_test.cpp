// Kernels that read one operand along its rows, through registers, on the emulator: B in layout nn, A in layout tt.
// Each bit as the CPU's arithmetic `bit_exact` has it, with NaN in all that is outside of the operands.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "tile_layout.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using hopper::Family;
using hopper::Major;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;
using hopper::Variant;

/// Layout nn: weights [k, n], on the tensor core's rows.
constexpr Tile nn(Tile tile, Scaling a, Scaling b, Variant variant) {
    tile.swap_ab = true;
    tile.a.scaling = a;
    tile.b = {.scaling = b, .major = Major::mn};
    tile.variant = variant;
    return tile;
}

/// Layout tt: A [k, m].
constexpr Tile tt(Tile tile, Scaling a, Scaling b, Variant variant) {
    tile.a = {.scaling = a, .major = Major::mn};
    tile.b.scaling = b;
    tile.variant = variant;
    return tile;
}

constexpr Tile grouped(Tile tile) {
    tile.family = Family::m_grouped;
    return tile;
}

constexpr auto tiles = [] {
    constexpr Scaling rows = Scaling::epilogue, block_row = Scaling::block_1x128, block = Scaling::block_128x128;
    constexpr Variant fast = Variant::fast, general = Variant::general;
    constexpr Tile narrow{.shape = {.m = 128, .n = 24}, .stages = 3};
    constexpr Tile wide{.shape = {.m = 128, .n = 128}, .stages = 3};
    constexpr Tile tall{.shape = {.m = 256, .n = 32}, .stages = 3};
    constexpr Tile halves{.shape = {.m = 256, .n = 128}, .stages = 3};  // two wgmmas along n of the same rows
    constexpr Tile single{.shape = {.m = 128, .n = 160}, .stages = 3};  // as wide as two feeds allow
    constexpr Tile two_along_n{.shape = {.m = 128, .n = 192}, .stages = 3};
    constexpr Tile split{.shape = {.m = 128, .n = 16}, .stages = 3, .cluster = hopper::split_k(2)};
    constexpr Tile unpromoted{.shape = {.m = 128, .n = 32}, .stages = 3, .mma = {.promoted = false}};
    constexpr Tile unpromoted_tall{.shape = {.m = 256, .n = 64}, .stages = 3, .mma = {.promoted = false}};
    return std::array{
        nn(narrow, rows, rows, fast),
        nn(narrow, block_row, block, fast),
        nn(narrow, block_row, block_row, general),
        nn(wide, block_row, block, Variant::fast_k_major_scales),
        nn(tall, rows, rows, general),
        nn(halves, rows, rows, fast),
        grouped(nn(single, rows, rows, fast)),
        nn(two_along_n, rows, rows, fast),
        grouped(nn(halves, block_row, block, fast)),
        nn(halves, block_row, block, Variant::fast_k_major_scales),
        nn(split, block_row, block, fast),
        nn(unpromoted, rows, rows, fast),
        nn(unpromoted_tall, rows, rows, general),
        grouped(nn(narrow, block_row, block, general)),
        grouped(nn(tall, rows, rows, fast)),
        tt(narrow, block_row, block, general),
        tt(wide, block_row, block, Variant::fast_k_major_scales),
        tt(halves, rows, rows, fast),
        tt(wide, rows, rows, fast),
        tt(tall, block_row, block_row, fast),
        tt(split, rows, rows, fast),
        tt(unpromoted_tall, rows, rows, fast),
    };
}();

/// Fragments are made ahead of a warpgroup's 64 rows and of its 128, with one wgmma along n and two.
constexpr int filling(int wgmmas, int rows) {
    int count = 0;
    for (const Tile& tile : tiles) {
        count += fills_next(tile) && wgmmas_along_n(tile) == wgmmas && rows_per_warpgroup(tile) == rows ? 1 : 0;
    }
    return count;
}
static_assert(filling(1, 64) > 1 && filling(1, 128) > 1 && filling(2, 64) > 0 && filling(2, 128) > 3);

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

constexpr int kernel_count = 22;

std::string name_of(Scaling scaling, bool promoted) {
    switch (scaling) {
        case Scaling::block_1x128: return "1x128";
        case Scaling::block_128x128: return "128x128";
        default: return promoted ? "row" : "tensor";
    }
}

/// Rows, columns and k that fill no tile, and rows of memory with gaps of NaN behind them.
CaseSpec call(const Tile& tile, int turn) {
    const bool fast = is_fast(tile), promoted = tile.mma.promoted;
    const bool k_major = has_k_major_scales(tile);
    const Grouping separate = is_grouped(tile) ? Grouping::m_grouped_masked : Grouping::batched;
    const Grouping together = is_grouped(tile) ? Grouping::m_grouped_offsets : Grouping::dense;
    const std::int64_t m = d_rows(tile) * (1 + turn % 2) + (turn % 2 == 0 ? 17 : -5);
    const std::int64_t n = d_columns(tile) * (1 + turn / 2 % 2) + (fast ? 8 : 9);
    const std::int64_t k = turn % 3 == 0 ? 100 : (1 + turn) * 128 + 37;  // 1 to 4 k-blocks
    const bool has_groups = turn % 4 == 1 || is_grouped(tile);
    return {.grouping = turn % 4 == 1 ? separate : together,
            .recipe = parse_recipe(name_of(tile.a.scaling, promoted) + ":" + name_of(tile.b.scaling, promoted)).value(),
            .m = m,
            .n = n,
            .k = k,
            .groups = has_groups ? 3 : 1,
            .seed = static_cast<std::uint64_t>(turn),
            .accumulation = promoted ? Accumulation::promoted : Accumulation::unpromoted,
            .a_gaps = {.row = 16 - k % 16},
            .b_gaps = {.row = 16 - k % 16},
            .a_scale_gaps = {.row = k_major ? 0 : (4 - m % 4) % 4},
            .d_gaps = {.row = fast ? 0 : 7},
            .a_scales_transposed = !k_major,
            .b_scales_transposed = true};
}

class Feeds : public testing::TestWithParam<int> {};

TEST_P(Feeds, TransposeInRegisters) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (int turn = 0; turn < 4; ++turn) {
        const CaseSpec spec = in_layout_of(kernel.tile, call(kernel.tile, turn));
        ASSERT_EQ(wrong(kernel, spec, mixed_conditions(turn + GetParam(), 2)), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Feeds, testing::Range(0, kernel_count, TILEWRIGHT_LIST_STEP));

TEST(FeedKernels, AreAllRun) { EXPECT_EQ(kernels().size(), static_cast<std::size_t>(kernel_count)); }

}  // namespace
}  // namespace tilewright::tests
