// Grouped kernels on the emulator: thousands of mixes of group sizes in every way to say them, garbage among them, each
// bit as the CPU's arithmetic `bit_exact` has it and nothing else written.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using hopper::Family;
using hopper::Scaling;
using hopper::share_a;
using hopper::split_k;
using hopper::Tile;
using hopper::Variant;

constexpr Tile grouped(Tile tile, Scaling a, Scaling b, bool fast) {
    tile.family = Family::m_grouped;
    tile.a.scaling = a;
    tile.b.scaling = b;
    // Groups begin at any row: TMA takes 1x128 scales in this order only.
    const Variant variant = a == Scaling::block_1x128 ? Variant::fast_k_major_scales : Variant::fast;
    tile.variant = fast ? variant : Variant::general;
    return tile;
}

constexpr auto modes(const Tile& cut) {
    return std::array{
        grouped(cut, Scaling::block_1x128, Scaling::block_128x128, false),
        grouped(cut, Scaling::block_1x128, Scaling::block_128x128, true),
        grouped(cut, Scaling::block_1x128, Scaling::block_1x128, false),
        grouped(cut, Scaling::block_1x128, Scaling::block_1x128, true),
        grouped(cut, Scaling::epilogue, Scaling::epilogue, false),
        grouped(cut, Scaling::epilogue, Scaling::epilogue, true),
    };
}

constexpr auto tiles = [] {
    constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = share_a(2)};
    constexpr Tile three{.shape = {.m = 192, .n = 32, .warpgroups = 3}, .stages = 3};
    constexpr Tile swapped{.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 3, .swap_ab = true};
    constexpr Tile split{.shape = {.m = 128, .n = 16}, .stages = 3, .swap_ab = true, .cluster = split_k(2)};
    return joined(modes(Tile{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3}),
                  modes(Tile{.shape = {.m = 128, .n = 48, .warpgroups = 2}, .stages = 4}),
                  std::array{
                      grouped(pair, Scaling::block_1x128, Scaling::block_128x128, true),
                      grouped(pair, Scaling::block_1x128, Scaling::block_1x128, true),
                      grouped(pair, Scaling::epilogue, Scaling::epilogue, true),
                      grouped(three, Scaling::block_1x128, Scaling::block_128x128, false),
                      grouped(split, Scaling::block_1x128, Scaling::block_128x128, false),
                      grouped(swapped, Scaling::block_1x128, Scaling::block_128x128, false),
                      grouped(three, Scaling::block_1x128, Scaling::block_128x128, true),
                  });
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_GROUPED_STEP, tiles>(); }

constexpr std::array groupings{Grouping::m_grouped_offsets, Grouping::m_grouped_masked,
                               Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_indices};

Recipe recipe(const Tile& tile) {
    if (tile.a.scaling == Scaling::epilogue) return parse_recipe("row:row").value();
    return parse_recipe(tile.b.scaling == Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128").value();
}

/// A call that every variant of a kernel serves.
CaseSpec base(const Tile& tile, Grouping grouping) {
    return {.grouping = grouping,
            .recipe = recipe(tile),
            .m = 96,
            .n = d_columns(tile) + 8,
            .k = has_k_major_scales(tile) ? 400 : 272,  // a pitch of scales that TMA can take
            .groups = 3,
            .a_scales_transposed = !has_k_major_scales(tile),
            .b_scales_transposed = true};
}

Conditions conditions(std::uint64_t seed) {
    return seeded_conditions(seed, 1 + static_cast<int>(seed % 4) + (seed % 2 == 0 ? 1 : 0));
}

void expect_right(const Kernel& kernel, const CaseSpec& spec, const Conditions& run) {
    ASSERT_EQ(wrong(kernel, spec, run), "");
}

class Grouped : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return kernels()[static_cast<std::size_t>(GetParam())]; }
    /// All; under sanitizers two of the four by turns, and all four with the first two kernels.
    static std::vector<Grouping> turn() {
        if (TILEWRIGHT_GROUPED_STEP == 1) return {groupings.begin(), groupings.end()};
        const std::size_t first = static_cast<std::size_t>(GetParam() / TILEWRIGHT_GROUPED_STEP) % 2;
        return {groupings[first], groupings[first + 2]};
    }
};

TEST_P(Grouped, AnySplit) {
    const Kernel kernel = this->kernel();
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
    constexpr int mixes = 12 * TILEWRIGHT_GROUPED_MIXES;
    int ran = 0;
    for (int i = 0; i < mixes; ++i) {
        CaseSpec spec = base(kernel.tile, groupings[static_cast<std::size_t>(i) % groupings.size()]);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 7);
        spec.m = 4 * (1 + static_cast<std::int64_t>(random() % 65));  // a pitch of scales that TMA can take
        spec.n = 8 * (1 + static_cast<std::int64_t>(random() % 10));
        // By row: 4 k-blocks, now and then 8, a pitch of scales that TMA can take.
        const int least = !has_k_major_scales(kernel.tile) ? 9 : i % 6 == 0 ? 57 : 25;
        spec.k = 16 * (least + static_cast<std::int64_t>(random() % (has_k_major_scales(kernel.tile) ? 8 : 20)));
        // Along m from any row on: copied.
        if (has_k_major_scales(kernel.tile)) spec.a_scales_transposed = i % 3 == 2;
        spec.alignment = std::array<std::int64_t, 5>{1, 3, 16, 64, 128}[random() % 5];
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        spec.seed = random();
        if (!serves(kernel, spec)) continue;  // scales whose pitch TMA cannot take
        expect_right(kernel, spec, conditions(random()));
        if (HasFatalFailure()) return;
        ++ran;
    }
    EXPECT_GE(ran, is_fast(kernel.tile) ? mixes / 2 : mixes) << launch::describe(kernel.tile);
}

TEST_P(Grouped, AllRowsInOneOfManyGroups) {
    const Kernel kernel = this->kernel();
    for (const Grouping grouping : turn()) {
        CaseSpec spec = base(kernel.tile, grouping);
        spec.n = 8;  // one tile of a group's rows
        spec.groups = 70;
        spec.alignment = 8;
        constexpr std::array<std::size_t, 4> hot_groups{0, 31, 32, 69};  // two by turns, one under sanitizers
        const std::size_t count = TILEWRIGHT_GROUPED_STEP == 1 ? 2 : 1;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t hot = hot_groups[(static_cast<std::size_t>(GetParam()) + 2 * i) % hot_groups.size()];
            spec.group_sizes.assign(70, 0);
            spec.group_sizes[hot] = 90;
            expect_right(kernel, spec, conditions(hot));
        }
        spec.group_sizes.assign(70, 0);
        expect_right(kernel, spec, conditions(1));
        spec.group_sizes.assign(70, 1);
        spec.m = grouping == Grouping::m_grouped_aligned_offsets ? 560 : 72;
        expect_right(kernel, spec, conditions(2));
    }
}

/// Sizes that no one could mean stay inside the buffers, and the CPU's reading of them is the GPU's.
TEST_P(Grouped, GarbageIsClamped) {
    const Kernel kernel = this->kernel();
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    for (const Grouping grouping :
         {Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::m_grouped_aligned_offsets}) {
        int i = 0;
        for (const std::vector<std::int64_t>& entries : {std::vector<std::int64_t>{90, 50, 10},
                                                         {-5, 40, 1000},
                                                         {huge, least, 7},
                                                         {least, 20, huge},
                                                         {1, huge, 96}}) {
            CaseSpec spec = base(kernel.tile, grouping);
            spec.size_format = Format::i64;
            spec.size_entries = entries;
            spec.alignment = i % 2 == 0 ? 32 : huge;
            expect_right(kernel, spec, conditions(static_cast<std::uint64_t>(++i)));
        }
    }
    CaseSpec spec = base(kernel.tile, Grouping::m_grouped_indices);
    spec.size_format = Format::i64;
    std::mt19937_64 random(7);
    for (int row = 0; row < spec.m; ++row) {
        spec.size_entries.push_back(std::array<std::int64_t, 8>{0, 1, 2, 3, -1, huge, least,
                                                                1LL << 32}[row % 5 == 0 ? random() % 8 : row / 20 % 3]);
    }
    expect_right(kernel, spec, conditions(5));
}

/// Rows of different groups side by side, in any order, with -1 anywhere.
TEST_P(Grouped, IndicesInAnyOrder) {
    const Kernel kernel = this->kernel();
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
    for (const std::uint64_t longest : {1, 2, 40, 200}) {
        CaseSpec spec = base(kernel.tile, Grouping::m_grouped_indices);
        spec.m = longest == 200 ? 700 : 96;
        spec.seed = longest;
        while (static_cast<std::int64_t>(spec.size_entries.size()) < spec.m) {
            const std::int64_t group = static_cast<std::int64_t>(random() % 4) - 1;
            for (std::uint64_t run = 1 + random() % longest; run > 0; --run) spec.size_entries.push_back(group);
        }
        spec.size_entries.resize(static_cast<std::size_t>(spec.m));
        expect_right(kernel, spec, conditions(longest));
    }
}

/// A run that is longer than what is looked at before work on it begins.
TEST_P(Grouped, OneRunOverManyWindows) {
    const Kernel kernel = this->kernel();
    CaseSpec spec = base(kernel.tile, Grouping::m_grouped_indices);
    spec.m = 8 * kernel.tile.shape.m * 2 + 40;
    spec.n = 8;
    if (!has_k_major_scales(kernel.tile)) spec.k = 144;
    spec.group_sizes = {0, spec.m - 3, 2};
    expect_right(kernel, spec, conditions(4));
}

TEST_P(Grouped, NothingToMultiply) {
    const Kernel kernel = this->kernel();
    if (is_fast(kernel.tile)) GTEST_SKIP() << "fast variants serve no call of k = 0";
    for (const Grouping grouping : turn()) {
        CaseSpec spec = base(kernel.tile, grouping);
        spec.k = 0;
        expect_right(kernel, spec, conditions(1));
        spec.with_c = true;
        spec.output = Format::f32;
        expect_right(kernel, spec, conditions(2));
        spec.m = 0;
        spec.groups = 2;
        expect_right(kernel, spec, conditions(3));
    }
}

TEST_P(Grouped, EveryOutput) {
    const Kernel kernel = this->kernel();
    if (is_fast(kernel.tile)) GTEST_SKIP() << "fast variants store bf16 with alpha 1 only";
    std::uint64_t seed = 0;
    for (const Grouping grouping : turn()) {
        for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
            CaseSpec spec = base(kernel.tile, grouping);
            spec.output = output;
            spec.alpha = 0.7F;
            spec.m = 150;
            spec.k = 560;
            spec.seed = ++seed;
            expect_right(kernel, spec, conditions(seed));
            spec.a_scales_transposed = spec.b_scales_transposed = false;
            spec.n += 1;
            spec.d_gaps = {.element = 1, .row = 3, .group = 5};
            spec.a_gaps = {.row = 16, .group = 32};
            spec.b_gaps = {.row = 48, .group = 16};
            expect_right(kernel, spec, conditions(++seed));
            spec.with_c = true;
            expect_right(kernel, spec, conditions(++seed));
        }
    }
}

TEST(GroupedKernels, HaveBothVariants) {
    const std::vector<Kernel> list = kernels();
    const auto fast = std::ranges::count_if(list, [](const Kernel& kernel) { return is_fast(kernel.tile); });
    EXPECT_EQ(list.size(), 19U);  // as many as the tests above are instantiated for
    EXPECT_EQ(fast, 10);
}

INSTANTIATE_TEST_SUITE_P(All, Grouped, testing::Range(0, 19, TILEWRIGHT_GROUPED_STEP));

}  // namespace
}  // namespace tilewright::tests
