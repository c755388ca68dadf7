// Pairs of scales that have only general kernels, on the emulator, for every family of kernels. Each bit is compared
// with the CPU's arithmetic `bit_exact`. The pairs:
// - 1x128 and 128x128 of A with no scales of B;
// - 1x128 of A with epilogue scales of B;
// - 128x128 of both;
// - epilogue scales with no scales of B, which the kernels of row : row multiply.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "plan/legality.h"
#include "plan/workload.h"
#include "tile_layout.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::Distribution;
using hopper::Family;
using hopper::Major;
using hopper::Scaling;
using hopper::Tile;

constexpr Scaling none = Scaling::none, end = Scaling::epilogue;
constexpr Scaling rows = Scaling::block_1x128, blocks = Scaling::block_128x128;

constexpr Tile with(Tile tile, Scaling a, Scaling b, Family family = Family::dense) {
    tile.a.scaling = a;
    tile.b.scaling = b;
    tile.family = family;
    return tile;
}

constexpr Tile of_f32(Tile tile) {
    tile.variant = hopper::Variant::fast_f32;
    return tile;
}

constexpr auto tiles = [] {
    constexpr Tile one{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3};
    constexpr Tile two{.shape = {.m = 128, .n = 48}, .stages = 3};
    constexpr Tile tall{.shape = {.m = 256, .n = 32}, .stages = 3};
    constexpr Tile three{.shape = {.m = 192, .n = 32, .warpgroups = 3}, .stages = 3};
    constexpr Tile swapped{.shape = {.m = 64, .n = 40, .warpgroups = 1}, .stages = 3, .swap_ab = true};
    constexpr Tile swapped_pair{.shape = {.m = 128, .n = 136}, .stages = 3, .swap_ab = true};
    constexpr Tile weights{
        .shape = {.m = 128, .n = 24}, .stages = 3, .swap_ab = true, .a = {}, .b = {.major = Major::mn}};
    constexpr Tile along_m{.shape = {.m = 128, .n = 24}, .stages = 3, .a = {.major = Major::mn}};
    constexpr Tile e5m2{.shape = {.m = 128, .n = 32}, .stages = 4, .a = {.storage = hopper::Storage::e5m2}};
    constexpr Tile pair{.shape = {.m = 128, .n = 64}, .stages = 3};
    constexpr Tile slices{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = hopper::split_k(2)};
    constexpr Family groups = Family::m_grouped, of_k = Family::k_grouped, mapped = Family::k_mapped;
    return std::array{
        with(two, rows, none),
        with(swapped, rows, none),
        with(weights, rows, none),
        with(one, rows, none, groups),
        with(two, rows, none, of_k),
        with(two, rows, none, mapped),
        with(tall, rows, end),
        with(two, rows, end),
        with(swapped, rows, end),
        with(along_m, rows, end),
        with(slices, rows, end),
        with(two, rows, end, groups),
        with(two, rows, end, of_k),
        with(one, rows, end, mapped),
        with(two, blocks, none),
        with(three, blocks, none),
        with(swapped_pair, blocks, none),
        with(weights, blocks, none),
        with(e5m2, blocks, none),
        with(two, blocks, none, groups),
        with(swapped, blocks, none, groups),
        with(two, blocks, none, of_k),
        with(swapped, blocks, none, of_k),
        with(two, blocks, none, mapped),
        with(two, blocks, blocks),
        with(tall, blocks, blocks),
        with(swapped_pair, blocks, blocks),
        with(along_m, blocks, blocks),
        with(two, blocks, blocks, groups),
        with(swapped, blocks, blocks, groups),
        with(two, blocks, blocks, of_k),
        with(one, blocks, blocks, mapped),
        with(two, end, end),
        with(weights, end, end),
        with(two, end, end, of_k),
        of_f32(with(pair, rows, none, of_k)),
        of_f32(with(pair, rows, end, of_k)),
        of_f32(with(pair, blocks, none, of_k)),
        of_f32(with(pair, blocks, none, mapped)),
        of_f32(with(pair, blocks, blocks, mapped)),
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_PAIRS_STEP, tiles>(); }

std::string side(const hopper::OperandSpec& spec, const char* of_the_end, int turn) {
    const std::string values = spec.storage == hopper::Storage::e5m2 ? "e5m2." : "";
    const std::string scales = turn % 3 == 2 ? ".ue8m0" : "";
    switch (spec.scaling) {
        case Scaling::none: return values.empty() ? "e4m3" : "e5m2";
        case Scaling::epilogue: return values + of_the_end;
        case Scaling::block_1x128: return values + "1x128" + scales;
        case Scaling::block_128x128: return values + "128x128" + scales;
        default: break;
    }
    return "";
}

/// A tile with epilogue scales on both sides multiplies A's scales with none of B.
Recipe recipe(const Tile& tile, int turn) {
    const char* const of_the_end = turn % 2 == 0 ? "row" : "tensor";
    const bool folded = tile.a.scaling == end;
    return recipe_named(side(tile.a, of_the_end, turn) + ":" + (folded ? "e4m3" : side(tile.b, of_the_end, turn)));
}

Grouping grouping(Family family, int turn) {
    constexpr std::array of_rows{Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::m_grouped_indices,
                                 Grouping::m_grouped_aligned_offsets};
    switch (family) {
        case Family::dense: return turn % 2 == 0 ? Grouping::dense : Grouping::batched;
        case Family::m_grouped: return of_rows[static_cast<std::size_t>(turn) % of_rows.size()];
        case Family::k_grouped: return Grouping::k_grouped_aligned_offsets;
        case Family::k_mapped: return turn % 2 == 0 ? Grouping::k_grouped_flat : Grouping::k_grouped;
    }
    return Grouping::dense;
}

/// Sizes that fill no tile and no block of 128, groups of which several rows share a block, NaN after each row.
CaseSpec call(const Tile& tile, int turn) {
    const std::int64_t m = d_rows(tile) * (1 + turn % 2) + (turn % 3 == 0 ? 150 : 17);
    const std::int64_t n = d_columns(tile) + (turn % 2 == 0 ? 8 : 137);
    const std::int64_t k = hopper::is_k_grouped(tile) ? 16 * (30 + turn) + turn : turn % 3 == 0 ? 100 : 3 * 128 + 37;
    constexpr std::array distributions{Distribution::normal, Distribution::distinct_scales, Distribution::log_normal,
                                       Distribution::normal_cubed};
    const Grouping groups = grouping(tile.family, turn);
    CaseSpec spec{.grouping = groups,
                  .recipe = recipe(tile, turn),
                  .output = turn % 3 == 1 ? Format::f32 : Format::bf16,
                  .m = m,
                  .n = n,
                  .k = k,
                  .groups = groups == Grouping::dense ? 1 : 4,
                  .alignment = hopper::is_k_grouped(tile) ? 128 : 16,
                  .distribution = distributions[static_cast<std::size_t>(turn) % distributions.size()],
                  .seed = static_cast<std::uint64_t>(turn) + 1,
                  .with_c = turn % 3 == 1,
                  .in_place = turn % 6 == 1,
                  .alpha = turn % 4 == 3 ? 0.5F : 1.0F,
                  .a_gaps = {.row = 16 + (16 - k % 16) % 16},
                  .b_gaps = {.row = 16 + (16 - k % 16) % 16},
                  .a_scale_gaps = {.row = turn % 2},
                  .d_gaps = {.row = turn % 2 * 7},
                  .a_scales_transposed = turn % 2 == 0,
                  .b_scales_transposed = turn % 4 < 2};
    if (groups == Grouping::k_grouped_flat) spec.a_gaps = spec.b_gaps = {};
    if (stores_f32(tile)) {  // D and C by TMA, and 1x128 scales of f32
        spec.output = Format::f32;
        spec.n += (8 - spec.n % 8) % 8;
        spec.d_gaps = {};
        if (tile.a.scaling == rows) spec.recipe.a.scales = Format::f32;
    }
    return in_layout_of(tile, spec);
}

class ScalePairs : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return kernels()[static_cast<std::size_t>(GetParam())]; }

    void expect_right(const CaseSpec& spec, int mix) const {
        ASSERT_EQ(wrong(kernel(), spec, mixed_conditions(mix, 2)), "");
    }
};

TEST_P(ScalePairs, HaveTheCpusBits) {
    constexpr int turns = 3;
    for (int turn = 0; turn < turns; ++turn) {
        expect_right(call(kernel().tile, turn + GetParam() % 2 * turns), turn + GetParam());
        if (HasFatalFailure()) return;
    }
}

/// Groups of none, of one, and of k that end just before and after a block.
TEST_P(ScalePairs, TakeGroupsOfEachLength) {
    const Tile tile = kernel().tile;
    if (!has_scheduler(tile)) GTEST_SKIP() << "one product";
    const std::vector<std::int64_t> sizes{0, 1, 127, 128, 129, 0, 16, 31, 0};
    for (int turn = 0; turn < 4; ++turn) {
        CaseSpec spec = call(tile, turn);
        spec.groups = static_cast<std::int64_t>(sizes.size());
        spec.group_sizes = sizes;
        if (spec.grouping == Grouping::m_grouped_indices) continue;
        const std::int64_t all = 1 + 127 + 128 + 129 + 16 + 31, with_gaps = 128 * 7;
        if (!is_k_grouped(tile)) {
            spec.m = spec.grouping == Grouping::m_grouped_offsets ? all : with_gaps;
        } else {
            spec.k = spec.grouping == Grouping::k_grouped_aligned_offsets ? with_gaps : all;
            if (spec.grouping != Grouping::k_grouped_flat)
                spec.a_gaps.row = spec.b_gaps.row = 16 + (16 - spec.k % 16) % 16;
        }
        expect_right(in_layout_of(tile, spec), turn + GetParam());
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ScalePairs, testing::Range(0, static_cast<int>(tiles.size()), TILEWRIGHT_PAIRS_STEP));

/// The planner asks for no kernel that is not run here: its pairs of scales are these.
TEST(ScalePairKernels, AreThoseOfEveryServedRecipe) {
    for (const Recipe& recipe : all_recipes()) {
        if (!is_fp8(recipe.a.values) || !is_fp8(recipe.b.values)) continue;
        constexpr Granularity steps = Granularity::block_1x32;  // stepwise_test.cpp
        if (recipe.a.granularity == steps || recipe.b.granularity == steps) continue;
        CaseSpec spec{.recipe = recipe, .m = 128, .n = 128, .k = 128, .distribution = Distribution::ones};
        const check::Case test(spec);
        const planner::Workload work = planner::describe(test.problem());
        if (!planner::obstacles(work).empty()) continue;
        const Tile family = planner::family_tile(work);
        const bool in_pack = family.a.scaling == rows && (family.b.scaling == rows || family.b.scaling == blocks);
        const bool here = std::any_of(tiles.begin(), tiles.end(), [&](const Tile& tile) {
            return tile.a.scaling == family.a.scaling && tile.b.scaling == family.b.scaling;
        });
        EXPECT_TRUE(here || in_pack) << name(recipe);
    }
}

}  // namespace
}  // namespace tilewright::tests
