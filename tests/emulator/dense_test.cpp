// Dense kernels on the emulator where D ends within a tile of rows: each bit as the CPU's arithmetic `bit_exact` has
// it, TMA loads the rows of A that exist and no others, and warpgroups without rows do not multiply.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/launch.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using hopper::Scaling;
using hopper::share_a;
using hopper::share_b;
using hopper::split_k;
using hopper::Tile;
using hopper::Variant;

constexpr Tile with(Tile tile, Scaling a, Scaling b, Variant variant) {
    tile.a.scaling = a;
    tile.b.scaling = b;
    tile.variant = variant;
    return tile;
}

constexpr Tile block_scaled(const Tile& tile, Variant variant) {
    return with(tile, Scaling::block_1x128, Scaling::block_128x128, variant);
}

constexpr auto tiles = [] {
    constexpr Tile one{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3};
    constexpr Tile two{.shape = {.m = 128, .n = 48}, .stages = 3};
    constexpr Tile tall{.shape = {.m = 256, .n = 32}, .stages = 3};
    constexpr Tile three{.shape = {.m = 192, .n = 32, .warpgroups = 3}, .stages = 3};
    constexpr Tile swapped{.shape = {.m = 128, .n = 24}, .stages = 3, .swap_ab = true};
    constexpr Tile split{.shape = {.m = 128, .n = 16}, .stages = 3, .cluster = split_k(2)};
    constexpr Tile same_a{.shape = {.m = 256, .n = 32}, .stages = 3, .cluster = share_a(2)};
    constexpr Tile same_b{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = share_b(2)};
    constexpr Tile unpromoted{.shape = {.m = 128, .n = 32}, .stages = 3, .mma = {.promoted = false}};
    constexpr Variant fast = Variant::fast;
    constexpr Tile pair{.shape = {.m = 128, .n = 64}, .stages = 3};
    constexpr Tile large{.shape = {.m = 256, .n = 96}, .stages = 2};
    constexpr Tile one_slot{.shape = {.m = 64, .n = 160, .warpgroups = 1}, .stages = 3};
    return std::array{
        block_scaled(one, fast),
        block_scaled(two, fast),
        with(two, Scaling::block_1x128, Scaling::block_1x128, fast),
        with(tall, Scaling::epilogue, Scaling::epilogue, fast),
        block_scaled(three, fast),
        block_scaled(swapped, fast),
        block_scaled(split, fast),
        block_scaled(same_a, fast),
        block_scaled(same_b, fast),
        with(unpromoted, Scaling::epilogue, Scaling::epilogue, fast),
        block_scaled(tall, Variant::fast_k_major_scales),
        block_scaled(three, Variant::fast_k_major_scales),
        block_scaled(same_a, Variant::fast_k_major_scales),
        block_scaled(same_b, Variant::fast_k_major_scales),
        block_scaled(two, Variant::general),
        with(three, Scaling::epilogue, Scaling::epilogue, Variant::general),
        block_scaled(swapped, Variant::general),
        with(pair, Scaling::block_1x128, Scaling::block_1x128, Variant::fast_f32),
        with(large, Scaling::epilogue, Scaling::epilogue, Variant::fast_f32),
        block_scaled(one_slot, Variant::fast_f32),
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

constexpr int kernel_count = 20;

Recipe recipe(const Tile& tile) {
    if (tile.a.scaling == Scaling::epilogue)
        return parse_recipe(tile.mma.promoted ? "row:row" : "tensor:tensor").value();
    return parse_recipe(tile.b.scaling == Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128").value();
}

/// A call that every variant serves, with two tiles along n.
CaseSpec call(const Tile& tile, std::int64_t m, bool batched) {
    return {.grouping = batched ? Grouping::batched : Grouping::dense,
            .recipe = recipe(tile),
            .output = stores_f32(tile) ? Format::f32 : Format::bf16,
            .m = m,
            .n = 2 * cluster_columns(tile),
            .k = has_k_major_scales(tile) ? 400 : 272,
            .groups = batched ? 2 : 1,
            .seed = static_cast<std::uint64_t>(m),
            .with_c = stores_f32(tile) && m % 3 != 0,
            .in_place = stores_f32(tile) && m % 3 == 1,
            .alpha = stores_f32(tile) && m % 2 == 0 ? 1.7F : 1.0F,
            .accumulation = tile.mma.promoted ? Accumulation::promoted : Accumulation::unpromoted,
            .a_scale_gaps = {.row = has_k_major_scales(tile) ? 0 : (4 - m % 4) % 4},  // a pitch that TMA can take
            .a_scales_transposed = !has_k_major_scales(tile) && !(stores_f32(tile) && m % 2 == 0),
            .b_scales_transposed = true};
}

/// wgmmas of the warpgroups that have rows.
std::int64_t expected_products(const Tile& tile, const CaseSpec& spec) {
    constexpr int of_a_k_block = 4;
    const int k_blocks = static_cast<int>((spec.k + 127) / 128);
    std::int64_t shares = 0;
    const int tiles_m =
        hopper::tiles_along(static_cast<int>(spec.m), cluster_rows(tile)) * (cluster_rows(tile) / d_rows(tile));
    for (int row = 0; row < tiles_m * d_rows(tile); row += d_rows(tile)) {
        for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
            if (!skips_rows(tile) || row + warpgroup * rows_per_warpgroup(tile) < spec.m) ++shares;
        }
    }
    const std::int64_t columns = spec.n / d_columns(tile) * spec.groups;
    return shares * columns * k_blocks * subtiles_per_warpgroup(tile) * of_a_k_block;
}

class Dense : public testing::TestWithParam<int> {};

TEST_P(Dense, EndsWithinATileOfRows) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    const Tile& tile = kernel.tile;
    const std::int64_t rows = d_rows(tile);
    std::uint64_t i = static_cast<std::uint64_t>(GetParam());
    for (const std::int64_t m : {std::int64_t{1}, rows - 1, rows, rows + 1, rows + 8, 2 * rows + 65, 3 * rows + 17}) {
        ++i;
        const CaseSpec spec = call(tile, m, i % 3 == 0);
        emulator::Counts counts;
        const Conditions run{.sms = 2 + static_cast<int>(i % 4),
                             .tma = i % 2 == 0 ? Timing::early : Timing::late,
                             .wgmma = i % 4 < 2 ? Timing::early : Timing::late,
                             .seed = i % 3,
                             .counts = &counts};
        ASSERT_EQ(wrong(kernel, spec, run), "");
        EXPECT_EQ(counts.products, expected_products(tile, spec)) << describe(kernel, spec, run);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Dense, testing::Range(0, kernel_count, TILEWRIGHT_LIST_STEP));

/// What the tests of this folder ask sees a load that is lost, a call that the kernel does not serve, and one that
/// cannot be.
TEST(DenseKernels, WhatIsWrongIsSaidWithTheCall) {
    const Kernel kernel = kernels()[0];
    const CaseSpec right = call(kernel.tile, 64, false);
    CaseSpec unserved = right, impossible = right;
    unserved.alpha = 0.5F;
    impossible.grouping = Grouping::m_grouped_offsets;
    impossible.group_sizes = {1, 2, 3};  // of one group
    EXPECT_EQ(wrong(kernel, right, {}), "");
    for (const auto& [spec, run, what] : {std::tuple(right, Conditions{.lost_load = 0}, ""),
                                          std::tuple(unserved, Conditions{}, "the kernel does not serve this call"),
                                          std::tuple(impossible, Conditions{}, "")}) {
        const std::string said = wrong(kernel, spec, run);
        EXPECT_GT(said.size(), describe(kernel, spec, run).size() + 1) << said;
        EXPECT_EQ(said.find(describe(kernel, spec, run)), 0U) << said;
        EXPECT_NE(said.find(what), std::string::npos) << said;
    }
}

TEST(DenseKernels, AreAllRun) { EXPECT_EQ(kernels().size(), static_cast<std::size_t>(kernel_count)); }

}  // namespace
}  // namespace tilewright::tests
