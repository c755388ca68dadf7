// Row indices that come in blocks of rows of one group, on the emulator: each bit as the CPU has it, with scales by TMA
// in both orders; blocks with rows of two groups are reported and not multiplied with the wrong one's B.
#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "cpu/exact/exact.h"
#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"
#include "plan/variant.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using hopper::Scaling;
using hopper::Tile;
using hopper::Variant;

constexpr Tile of_blocks(Tile tile, Variant variant) {
    tile.family = hopper::Family::m_grouped;
    tile.a.scaling = Scaling::block_1x128;
    tile.b.scaling = Scaling::block_128x128;
    tile.variant = variant;
    return tile;
}

constexpr Tile one{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3};
constexpr Tile two{.shape = {.m = 128, .n = 48, .warpgroups = 2}, .stages = 4};
constexpr Tile three{.shape = {.m = 192, .n = 32, .warpgroups = 3}, .stages = 3};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = hopper::share_a(2)};

std::vector<Kernel> kernels() {
    std::vector<Kernel> list;
    add<of_blocks(one, Variant::fast)>(list);
    add<of_blocks(two, Variant::fast)>(list);
    add<of_blocks(three, Variant::fast)>(list);
    add<of_blocks(pair, Variant::fast)>(list);
    add<of_blocks(two, Variant::fast_k_major_scales)>(list);
    add<of_blocks(one, Variant::general)>(list);
    return list;
}

CaseSpec base(const Tile& tile, std::int64_t index_alignment) {
    return {.grouping = Grouping::m_grouped_indices,
            .recipe = parse_recipe("1x128:128x128").value(),
            .m = 96,
            .n = d_columns(tile) + 8,
            .k = has_k_major_scales(tile) ? 400 : 272,  // a pitch of scales that TMA can take
            .groups = 3,
            .index_alignment = index_alignment,
            .a_scales_transposed = !has_k_major_scales(tile),
            .b_scales_transposed = true};
}

Conditions conditions(std::uint64_t seed) { return seeded_conditions(seed, 2 + 2 * static_cast<int>(seed % 2)); }

class IndexBlocks : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return kernels()[static_cast<std::size_t>(GetParam())]; }
};

TEST_P(IndexBlocks, AnySplit) {
    const Kernel kernel = this->kernel();
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
    for (int i = 0; i < 8 * TILEWRIGHT_GROUPED_MIXES; ++i) {
        const bool any_row = !is_fast(kernel.tile) || has_k_major_scales(kernel.tile);
        CaseSpec spec =
            base(kernel.tile, std::array<std::int64_t, 6>{4, 16, 64, 128, 3, 10}[random() % (any_row ? 6 : 4)]);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 7);
        spec.m = 4 * (1 + static_cast<std::int64_t>(random() % 100));  // a pitch of scales that TMA can take
        // An alignment beyond the last row is the last row's.
        if (!any_row) spec.m = std::max(spec.m, spec.index_alignment);
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        spec.seed = random();
        ASSERT_EQ(wrong(kernel, spec, conditions(random())), "");
    }
}

/// Blocks of 16: padding, blocks of no group in the middle and at the end, a short last block.
TEST_P(IndexBlocks, RowsOfNoGroupFollowTheFirstOfTheirBlock) {
    const Kernel kernel = this->kernel();
    CaseSpec spec = base(kernel.tile, 16);
    spec.m = 140;
    const auto add = [&](std::int64_t rows, std::int64_t group) {
        spec.size_entries.insert(spec.size_entries.end(), static_cast<std::size_t>(rows), group);
    };
    add(20, 2), add(12, -1), add(32, -1), add(1, 0), add(3, 7), add(12, 0), add(33, 1), add(15, -1), add(12, 2);
    const check::Case test(spec);
    ASSERT_EQ(test.gemms().size(), 4U);
    EXPECT_EQ(test.gemms()[0].rows, 32);
    EXPECT_EQ(test.gemms()[3].rows, 12);
    EXPECT_EQ(wrong(kernel, spec, conditions(3)), "");
}

/// `entries` in blocks of 16: every row is left as it is, or is right for its group; of `kept` rows all are right.
struct Broken {
    const char* what = "";
    std::vector<std::int64_t> entries{};
    std::vector<bool> kept{};
    std::int64_t row = 0;  // that is reported, and what is said of it
    int group = 0;
    int first_group = 0;
};

Broken broken(const char* what, const std::vector<std::int64_t>& block, std::int64_t row, int group, int first_group) {
    Broken result{.what = what, .row = row, .group = group, .first_group = first_group};
    for (const std::int64_t around : {0, 1}) {
        result.entries.insert(result.entries.end(), 32, around);
        if (around == 0) result.entries.insert(result.entries.end(), block.begin(), block.end());
    }
    for (std::size_t i = 0; i < result.entries.size(); ++i) result.kept.push_back(i / 16 != 2);
    return result;
}

std::vector<Broken> broken_promises() {
    std::vector<std::int64_t> mixed(16, 2), late(16, -1), last(16, 2);
    mixed[5] = 1;
    std::fill(late.begin() + 3, late.end(), 2);
    std::fill(late.begin() + 4, late.end(), -1);
    last[15] = 0;
    return {broken("a block of two groups", mixed, 37, 1, 2), broken("a group that begins off", late, 35, 2, -1),
            broken("the next group's first row", last, 47, 0, 2)};
}

void expect_report(const Kernel& kernel, const Broken& call) {
    CaseSpec spec = base(kernel.tile, 1);
    spec.m = static_cast<std::int64_t>(call.entries.size());
    spec.size_entries = call.entries;
    check::Case test(spec);
    cpu::run_exact(test.geometry(), cpu::ExactOptions{.threads = 1});
    const std::vector<std::byte> right = test.output();
    test.reset_output();
    const std::vector<std::byte> untouched = test.output();
    test.problem().groups.index_alignment = 16;
    EXPECT_THROW(cpu::run_exact(test.geometry(), cpu::ExactOptions{.threads = 1}), Error);
    EXPECT_EQ(test.output(), untouched) << "written by the CPU before the error";
    ASSERT_TRUE(planner::serves(test.geometry(), kernel.tile));
    const hopper::KernelReport report = run_on_emulator(kernel, test.geometry(), conditions(1));
    EXPECT_NE(report.mixed.word, 0U);
    EXPECT_EQ(report.mixed.row(), call.row);
    EXPECT_EQ(report.mixed.group(), call.group);
    EXPECT_EQ(report.mixed.first_group(), call.first_group);
    EXPECT_EQ(report.producer.word | report.consumer.word, 0U);
    const std::size_t row_bytes = right.size() / call.entries.size();
    const std::vector<std::byte> given = test.output();
    for (std::size_t row = 0; row < call.entries.size(); ++row) {
        const auto same = [&](const std::vector<std::byte>& other) {
            const auto begin = static_cast<std::ptrdiff_t>(row * row_bytes);
            return std::equal(given.begin() + begin, given.begin() + begin + static_cast<std::ptrdiff_t>(row_bytes),
                              other.begin() + begin);
        };
        EXPECT_TRUE(same(right) || (!call.kept[row] && same(untouched))) << "row " << row;
    }
    EXPECT_EQ(test.damage(), "");
}

TEST_P(IndexBlocks, RowsOfTwoGroupsAreReportedAndNotMultiplied) {
    const Kernel kernel = this->kernel();
    for (const Broken& call : broken_promises()) {
        SCOPED_TRACE(launch::describe(kernel.tile) + ", " + call.what);
        expect_report(kernel, call);
    }
}

INSTANTIATE_TEST_SUITE_P(All, IndexBlocks, testing::Range(0, 6));

TEST(MixedRow, KeepsRowAndGroups) {
    for (const auto& [row, group, first] : {std::tuple{0, 0, -1}, {2147483646, 7, 65533}, {5, 65533, 0}}) {
        const hopper::MixedRow packed{hopper::MixedRow::pack(row, group, first)};
        EXPECT_NE(packed.word, 0U);
        EXPECT_EQ(packed.row(), row);
        EXPECT_EQ(packed.group(), group);
        EXPECT_EQ(packed.first_group(), first);
    }
    EXPECT_EQ(hopper::MixedRow{hopper::MixedRow::pack(1, 2000000000, 3)}.group(), 65534);
}

}  // namespace
}  // namespace tilewright::tests
