// 1x128 scales that TMA cannot load, in the kernels of K-major scales: any strides, any number of k-blocks, slices of
// k, tokens on the tensor core's columns, groups that begin at any row. Each bit as the CPU's arithmetic `bit_exact`
// has it; what no row needs is NaN or unreadable.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "plan/tma.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::Gaps;
using emulator::Timing;
using hopper::Cluster;
using hopper::Family;
using hopper::Scaling;
using hopper::Shape;
using hopper::Tile;

constexpr Tile k_major(Shape shape, int stages, Scaling b, Family family = Family::dense, Cluster cluster = {}) {
    return {.shape = shape,
            .stages = stages,
            .cluster = cluster,
            .a = {.scaling = Scaling::block_1x128},
            .b = {.scaling = b},
            .family = family,
            .variant = hopper::Variant::fast_k_major_scales};
}

constexpr Tile swapped(Tile tile) {
    tile.swap_ab = true;
    return tile;
}

/// One warpgroup and three, two subtiles of rows, rings whose stages are no multiple of four, pairs, slices, tokens on
/// columns that are no multiple of a warp's lanes.
constexpr auto tiles = [] {
    constexpr Scaling blocks = Scaling::block_128x128, rows = Scaling::block_1x128;
    constexpr Shape one{.m = 64, .n = 32, .warpgroups = 1}, two{.m = 128, .n = 48},
        three{.m = 192, .n = 32, .warpgroups = 3};
    return std::array{
        k_major(one, 3, blocks),
        k_major(one, 5, rows),
        k_major(two, 5, blocks),
        k_major(two, 3, rows),
        k_major(three, 4, blocks),
        k_major({.m = 256, .n = 16}, 3, blocks),
        k_major({.m = 128, .n = 32}, 3, blocks, Family::dense, hopper::share_b(2)),
        k_major({.m = 128, .n = 32}, 3, rows, Family::dense, hopper::share_a(2)),
        k_major(two, 4, blocks, Family::m_grouped),
        k_major(one, 6, rows, Family::m_grouped),
        k_major(three, 3, blocks, Family::m_grouped),
        k_major({.m = 128, .n = 32}, 3, blocks, Family::m_grouped, hopper::share_a(2)),
        k_major({.m = 64, .n = 48, .warpgroups = 1}, 3, blocks, Family::dense, hopper::split_k(4)),
        k_major({.m = 128, .n = 128}, 3, blocks, Family::dense, hopper::split_k(2)),
        swapped(k_major(one, 5, rows, Family::dense, hopper::split_k(2))),
        swapped(k_major({.m = 64, .n = 8, .warpgroups = 1}, 4, blocks)),
        swapped(k_major({.m = 128, .n = 40}, 3, blocks, Family::dense, hopper::split_k(2))),
        swapped(k_major({.m = 64, .n = 72, .warpgroups = 1}, 4, blocks, Family::m_grouped)),
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_COPIES_STEP, tiles>(); }

struct Order {
    const char* name;
    bool transposed;
    Gaps gaps;
};

constexpr Order orders[] = {{"along k", false, {}},
                            {"along k, rows apart", false, {.row = 1}},
                            {"along k, k-blocks apart", false, {.element = 1, .row = 5, .group = 3}},
                            {"along m", true, {}},
                            {"along m, rows and k-blocks apart", true, {.element = 2, .row = 1, .group = 1}}};

Recipe recipe(const Tile& tile) {
    return parse_recipe(tile.b.scaling == Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128").value();
}

/// A bit more than one tile of each block of a cluster; the last k-block is not full.
CaseSpec base(const Tile& tile, const Order& order, int k_blocks) {
    const bool along_m = tile.cluster.use == hopper::ClusterUse::share_b;
    return {.recipe = recipe(tile),
            .m = d_rows(tile) * (along_m ? tile.cluster.size : 1) + 5,
            .n = d_columns(tile) * (along_m ? 1 : tile.cluster.size) + 8,
            .k = k_blocks * 128 - 48,
            .seed = static_cast<std::uint64_t>(k_blocks),
            .a_scale_gaps = order.gaps,
            .b_scale_gaps = order.gaps,
            .a_scales_transposed = order.transposed,
            .b_scales_transposed = order.transposed,
            .guard_pages = true};
}

Conditions conditions(int i) {
    return {.sms = 1 + i % 3 + (i % 3 == 0 ? 1 : 0),
            .tma = i % 4 < 2 ? Timing::early : Timing::late,
            .wgmma = i % 2 == 0 ? Timing::early : Timing::late,
            .seed = static_cast<std::uint64_t>(i % 3)};
}

class ScaleCopies : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return kernels()[static_cast<std::size_t>(GetParam())]; }

    /// Whether TMA could not load the scales.
    bool expect_right(const CaseSpec& spec, const char* order) {
        const Kernel run = kernel();
        EXPECT_EQ(wrong(run, spec, conditions(++runs_)), "") << "scales " << order;
        return !planner::loads_scales_by_tma(check::Case(spec).geometry(), run.tile);
    }

private:
    int runs_ = 0;
};

TEST_P(ScaleCopies, AnyStridesAndNumbersOfKBlocks) {
    const Tile tile = kernel().tile;
    if (is_grouped(tile)) GTEST_SKIP() << "as below";
    int copied = 0;
    int i = GetParam();
    for (const int k_blocks : {1, 2, 3, 5, 22, 23}) {
        // All orders of short sums, one of long ones.
        const Order& of_long = orders[++i % 5];
        for (const Order& order : orders) {
            if (k_blocks > 5 && &order != &of_long) continue;
            if (expect_right(base(tile, order, k_blocks), order.name)) ++copied;
        }
    }
    EXPECT_GE(copied, may_load_row_scales_by_tma(tile) ? 18 : 22) << "of 22: the others are loaded by TMA";
}

TEST_P(ScaleCopies, MatricesOfTheirOwn) {
    const Tile tile = kernel().tile;
    for (const Order& order : orders) {
        CaseSpec spec = base(tile, order, 3);
        spec.grouping = is_grouped(tile) ? Grouping::m_grouped_masked : Grouping::batched;
        spec.groups = 3;
        expect_right(spec, order.name);
    }
}

TEST_P(ScaleCopies, GroupsThatBeginAnywhere) {
    const Tile tile = kernel().tile;
    if (!is_grouped(tile)) GTEST_SKIP() << "no groups";
    for (const int k_blocks : {1, 5, 8, 23}) {
        for (const Order& order : orders) {
            CaseSpec spec = base(tile, order, k_blocks);
            spec.grouping = k_blocks == 5 ? Grouping::m_grouped_aligned_offsets : Grouping::m_grouped_offsets;
            if (k_blocks == 8) spec.grouping = Grouping::m_grouped_indices;
            spec.alignment = 3;
            spec.groups = 5;
            spec.m = d_rows(tile) + 61;
            spec.group_sizes = {3, 0, d_rows(tile) - 1, 1, 40};
            expect_right(spec, order.name);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ScaleCopies, testing::Range(0, 18, TILEWRIGHT_COPIES_STEP));

TEST(ScaleCopyKernels, AreAsManyAsRun) { EXPECT_EQ(kernels().size(), 18U); }

}  // namespace
}  // namespace tilewright::tests
