// GEMMs of every grouping, with sizes no one should pass, and the strides that layouts become.
#include "problem/geometry.h"

#include "problem/sample.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <cstdint>
#include <limits>
#include <tuple>

namespace tilewright::test {
namespace {

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

/// group, first row, rows, first k, k count, scale columns before it in a and b
using Row =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

std::vector<Row> rows_of(const Problem& p) {
    std::vector<Row> rows;
    for (const GroupGemm& x : group_gemms(geometry(p))) {
        rows.emplace_back(x.group, x.row_begin, x.rows, x.k_begin, x.k_count, x.a.block, x.b.block);
    }
    return rows;
}

/// The GEMMs of a problem whose sizes are `sizes`.
template <class Integer = std::int64_t>
std::vector<Row> gemms_with(SampleSpec spec, std::vector<Integer> sizes, std::int64_t alignment = 128) {
    Problem p = sample(spec);
    constexpr Format format = sizeof(Integer) == 4 ? Format::i32 : Format::i64;
    p.groups.sizes = row_major(sizes.data(), format, {static_cast<std::int64_t>(sizes.size())});
    p.groups.alignment = alignment;
    EXPECT_TRUE(validate(p).empty());
    return rows_of(p);
}

/// GEMMs of consecutive rows, all of k.
Row rows(std::int64_t group, std::int64_t begin, std::int64_t count) { return {group, begin, count, 0, 512, 0, 0}; }

using Rows = std::vector<Row>;

TEST(Geometry, ABiasIsACOfOneRowForEachGroupOfB) {
    Problem p = sample({.grouping = Grouping::m_grouped_offsets, .output = Format::f16});
    p.bias = placed(Format::f32, {4, 256});
    Geometry g = geometry(p);
    EXPECT_EQ(g.c.data, p.bias.data);
    EXPECT_EQ(g.addend(), Format::f32);
    EXPECT_EQ(output_index(g.c, 2, 17, 5), 2 * 256 + 5);
    p.bias = placed(Format::bf16, {256});
    p.bias.strides = {3};
    g = geometry(p);
    EXPECT_EQ(g.addend(), Format::bf16);
    EXPECT_EQ(output_index(g.c, 2, 17, 5), 15) << "the groups share it";
    p.bias = {};
    p.c = p.d;
    EXPECT_EQ(geometry(p).addend(), Format::f16);
}

TEST(Gemms, Dense) {
    EXPECT_EQ(rows_of(sample({})), (Rows{rows(0, 0, 64)}));
    EXPECT_EQ(rows_of(sample({.m = 0})), Rows{});
    EXPECT_EQ(rows_of(sample({.k = 0})), (Rows{{0, 0, 64, 0, 0, 0, 0}})) << "k = 0 still writes C or zeros";
}

TEST(Gemms, Batched) {
    EXPECT_EQ(rows_of(sample({.grouping = Grouping::batched, .groups = 2})), (Rows{rows(0, 0, 64), rows(1, 0, 64)}));
    EXPECT_EQ(rows_of(sample({.grouping = Grouping::batched, .groups = 0})), Rows{});
}

TEST(Gemms, Indices) {
    const SampleSpec spec{.grouping = Grouping::m_grouped_indices, .m = 8, .groups = 3};
    EXPECT_EQ(gemms_with(spec, {0, 0, 0, 1, 1, 2, 2, 2}), (Rows{rows(0, 0, 3), rows(1, 3, 2), rows(2, 5, 3)}));
    EXPECT_EQ(gemms_with(spec, {-1, 0, 0, -1, 0, 2, -1, -1}), (Rows{rows(0, 1, 2), rows(0, 4, 1), rows(2, 5, 1)}));
    EXPECT_EQ(gemms_with(spec, {2, 1, 0, 0, 1, 2, 2, 1}),
              (Rows{rows(2, 0, 1), rows(1, 1, 1), rows(0, 2, 2), rows(1, 4, 1), rows(2, 5, 2), rows(1, 7, 1)}));
    EXPECT_EQ(gemms_with(spec, {3, -2, highest, lowest, 1, 3, -1, 100}), (Rows{rows(1, 4, 1)}));
    EXPECT_EQ(gemms_with<std::int32_t>(spec, {-1, -1, -1, -1, -1, -1, -1, -1}), Rows{});
    EXPECT_EQ(gemms_with<std::int32_t>(spec, {0, 0, 0, 0, 0, 0, 0, 1 << 30}), (Rows{rows(0, 0, 7)}));
    EXPECT_EQ(gemms_with<std::int32_t>({.grouping = Grouping::m_grouped_indices, .m = 3, .groups = 0}, {0, 1, -1}),
              Rows{});
}

std::vector<Row> gemms_in_blocks(std::vector<std::int64_t> indices, std::int64_t rows) {
    Problem p = sample({.grouping = Grouping::m_grouped_indices, .m = 8, .groups = 3});
    p.groups.sizes = row_major(indices.data(), Format::i64, {8});
    p.groups.index_alignment = rows;
    EXPECT_TRUE(validate(p).empty());
    return rows_of(p);
}

TEST(Gemms, IndicesInBlocksOfRows) {
    EXPECT_EQ(gemms_in_blocks({0, 0, 0, 2, 2, 2, 2, 2}, 3), (Rows{rows(0, 0, 3), rows(2, 3, 5)}));
    EXPECT_EQ(gemms_in_blocks({0, -1, 0, -1, 1, 9, -1, lowest}, 4), (Rows{rows(0, 0, 4), rows(1, 4, 4)}));
    EXPECT_EQ(gemms_in_blocks({-1, -1, 1, -1, 9, -1, 2, 2}, 2), (Rows{rows(1, 2, 2), rows(2, 6, 2)}));
    EXPECT_EQ(gemms_in_blocks({1, 1, 1, -1, -1, -1, -1, -1}, highest), (Rows{rows(1, 0, 8)}));
    EXPECT_EQ(gemms_in_blocks({-1, -1, -1, -1, -1, -1, -1, -1}, 4), Rows{});
}

TEST(Gemms, RowsOfTwoGroupsInABlockAreAnError) {
    const auto message = [](std::vector<std::int64_t> indices) -> std::string {
        try {
            gemms_in_blocks(std::move(indices), 4);
        } catch (const Error& error) {
            return error.findings().size() == 1 ? error.what() : "";
        }
        return "none";
    };
    const std::string rest =
        "; expected one group per aligned block of rows. Begin each group at a multiple of the alignment. For rows in "
        "any order, use tilewright.grouped_gemm(indices=), or in C++ a groups.index_alignment of 1.";
    EXPECT_EQ(message({0, 0, 0, 0, 1, 1, 1, 2}),
              "groups.sizes: got group 2 at row 7 of a block whose first row has group 1" + rest);
    EXPECT_EQ(message({-1, -1, 2, 0, 1, 1, 1, 1}),
              "groups.sizes: got group 2 at row 2 of a block whose first row has no group" + rest);
}

TEST(Gemms, Offsets) {
    const SampleSpec spec{.grouping = Grouping::m_grouped_offsets, .m = 10, .groups = 4};
    EXPECT_EQ(gemms_with(spec, {3, 3, 4, 10}), (Rows{rows(0, 0, 3), rows(2, 3, 1), rows(3, 4, 6)}));
    EXPECT_EQ(gemms_with(spec, {0, 0, 0, 0}), Rows{});
    EXPECT_EQ(gemms_with(spec, {2, 4, 4, 8}), (Rows{rows(0, 0, 2), rows(1, 2, 2), rows(3, 4, 4)})) << "rows left over";
    EXPECT_EQ(gemms_with(spec, {5, 2, 7, 6}), (Rows{rows(0, 0, 5), rows(2, 5, 2)})) << "descending ends are empty";
    EXPECT_EQ(gemms_with(spec, {lowest, highest, 3, lowest}), (Rows{rows(1, 0, 10)}));
    EXPECT_EQ(gemms_with<std::int32_t>(spec, {-5, 11, 11, 11}), (Rows{rows(1, 0, 10)}));
}

TEST(Gemms, AlignedOffsets) {
    const SampleSpec spec{.grouping = Grouping::m_grouped_aligned_offsets, .m = 600, .groups = 3};
    EXPECT_EQ(gemms_with(spec, {100, 256, 300}), (Rows{rows(0, 0, 100), rows(1, 128, 128), rows(2, 256, 44)}));
    EXPECT_EQ(gemms_with(spec, {0, 128, 129}), (Rows{rows(1, 0, 128), rows(2, 128, 1)}));
    EXPECT_EQ(gemms_with(spec, {1, 100, 130}), (Rows{rows(0, 0, 1), rows(2, 128, 2)})) << "an end before its start";
    EXPECT_EQ(gemms_with(spec, {513, 600, 600}), (Rows{rows(0, 0, 513)})) << "no room for the next start";
    EXPECT_EQ(gemms_with(spec, {1, 200, 300}, 1), (Rows{rows(0, 0, 1), rows(1, 1, 199), rows(2, 200, 100)}));
    EXPECT_EQ(gemms_with(spec, {1, 600, 600}, highest), (Rows{rows(0, 0, 1)})) << "an alignment beyond every row";
    EXPECT_EQ(gemms_with(spec, {highest, lowest, highest}), (Rows{rows(0, 0, 600)}));
}

TEST(Gemms, Masked) {
    const SampleSpec spec{.grouping = Grouping::m_grouped_masked, .m = 10, .groups = 5};
    EXPECT_EQ(gemms_with(spec, {0, 10, 3, -1, 11}), (Rows{rows(1, 0, 10), rows(2, 0, 3), rows(4, 0, 10)}));
    EXPECT_EQ(gemms_with(spec, {lowest, highest, 0, 0, 1}), (Rows{rows(1, 0, 10), rows(4, 0, 1)}));
}

TEST(Gemms, KGrouped) {
    const SampleSpec spec{.grouping = Grouping::k_grouped, .recipe = "bf16:bf16", .m = 8, .k = 512, .groups = 4};
    EXPECT_EQ(
        gemms_with(spec, {100, 100, 300, 512}),
        (Rows{{0, 0, 8, 0, 100, 0, 0}, {1, 0, 8, 100, 0, 0, 0}, {2, 0, 8, 100, 200, 0, 0}, {3, 0, 8, 300, 212, 0, 0}}));
    EXPECT_EQ(gemms_with(spec, {lowest, 600, 3, highest}),
              (Rows{{0, 0, 8, 0, 0, 0, 0}, {1, 0, 8, 0, 512, 0, 0}, {2, 0, 8, 512, 0, 0, 0}, {3, 0, 8, 512, 0, 0, 0}}));
}

TEST(Gemms, KGroupedBlocksStartAnewInEachGroup) {
    SampleSpec spec{.grouping = Grouping::k_grouped, .recipe = "1x128:mxfp4", .m = 8, .n = 4, .k = 512, .groups = 3};
    Problem p = sample(spec);
    std::vector<std::int64_t> ends{130, 130, 512};
    p.a.scales = placed(Format::f32, {8, 5});
    p.b.scales = placed(Format::ue8m0, {4, 17});
    p.groups.sizes = row_major(ends.data(), Format::i64, {3});
    EXPECT_EQ(rows_of(p), (Rows{{0, 0, 8, 0, 130, 0, 0}, {1, 0, 8, 130, 0, 2, 5}, {2, 0, 8, 130, 382, 2, 5}}));
    p.a.scales = placed(Format::f32, {8, 4});  // 2 columns left: 256 of the last group's k, then 252 of its 256
    EXPECT_EQ(rows_of(p), (Rows{{0, 0, 8, 0, 130, 0, 0}, {1, 0, 8, 130, 0, 2, 5}, {2, 0, 8, 130, 256, 2, 5}}));
    p.b.scales = placed(Format::ue8m0, {4, 16});
    ends = {1, 2, 512};
    EXPECT_EQ(rows_of(p), (Rows{{0, 0, 8, 0, 1, 0, 0}, {1, 0, 8, 1, 1, 1, 1}, {2, 0, 8, 2, 256, 2, 2}}));
}

TEST(Gemms, KGroupedAligned) {
    SampleSpec spec{.grouping = Grouping::k_grouped_aligned_offsets, .recipe = "1x128:bf16", .m = 8, .k = 512};
    spec.recipe = "1x128:mxfp4";
    spec.groups = 3;
    EXPECT_EQ(gemms_with(spec, {129, 256, 400}),
              (Rows{{0, 0, 8, 0, 129, 0, 0}, {1, 0, 8, 256, 0, 2, 8}, {2, 0, 8, 256, 144, 2, 8}}));
    EXPECT_EQ(gemms_with(spec, {1, 257, highest}, 256),
              (Rows{{0, 0, 8, 0, 1, 0, 0}, {1, 0, 8, 256, 1, 2, 8}, {2, 0, 8, 512, 0, 4, 16}}));
    EXPECT_EQ(gemms_with(spec, {lowest, 400, 3}),
              (Rows{{0, 0, 8, 0, 0, 0, 0}, {1, 0, 8, 0, 400, 0, 0}, {2, 0, 8, 512, 0, 4, 16}}));
    spec.recipe = "bf16:bf16";
    EXPECT_EQ(gemms_with(spec, {1, 8, 9}, 8),
              (Rows{{0, 0, 8, 0, 1, 0, 0}, {1, 0, 8, 8, 0, 0, 0}, {2, 0, 8, 8, 1, 0, 0}}));
}

TEST(Gemms, KGroupedFlat) {
    SampleSpec spec{.grouping = Grouping::k_grouped_flat, .recipe = "1x128:1x128", .m = 8, .n = 4, .k = 512};
    spec.groups = 4;
    Problem p = sample(spec);
    std::vector<std::int64_t> counts{129, -1, 128, highest};
    p.a.scales = placed(Format::f32, {8, 5});
    p.b.scales = placed(Format::f32, {4, 5});
    p.groups.sizes = row_major(counts.data(), Format::i64, {4});
    EXPECT_EQ(
        rows_of(p),
        (Rows{{0, 0, 8, 0, 129, 0, 0}, {1, 0, 8, 129, 0, 2, 2}, {2, 0, 8, 129, 128, 2, 2}, {3, 0, 8, 257, 255, 3, 3}}));
    const std::vector<GroupGemm> gemms = group_gemms(geometry(p));
    EXPECT_EQ(gemms[3].a.value, 8 * 257);
    EXPECT_EQ(gemms[3].b.value, 4 * 257);
    EXPECT_EQ(gemms[3].a.row_stride, 255);
    p.b.scales = placed(Format::f32, {4, 4});  // loses the last 127 of k, but its rows are where they were
    EXPECT_EQ(group_gemms(geometry(p))[3].k_count, 128);
    EXPECT_EQ(group_gemms(geometry(p))[3].a.row_stride, 255);
    spec = {.grouping = Grouping::k_grouped_flat, .layout = Layout::tn, .recipe = "bf16:bf16", .k = 512, .groups = 2};
    p = sample(spec);
    p.groups.sizes = row_major(counts.data(), Format::i64, {2});
    EXPECT_EQ(group_gemms(geometry(p))[1].a.row_stride, 1) << "[k, m]: groups follow one another already";
}

TEST(Gemms, SizesInStrides) {
    std::vector<std::int32_t> sizes{2, -7, 5, -7};
    Problem p = sample({.grouping = Grouping::m_grouped_offsets, .m = 8, .groups = 2});
    p.groups.sizes = row_major(sizes.data(), Format::i32, {2});
    p.groups.sizes.strides = {2};
    EXPECT_EQ(rows_of(p), (Rows{rows(0, 0, 2), rows(1, 2, 3)}));
}

TEST(Strides, EveryLayout) {
    struct Expected {
        Layout layout;
        std::int64_t a_row, a_k, b_row, b_k;
    };
    for (const Expected& e : {Expected{Layout::nt, 512, 1, 512, 1}, Expected{Layout::nn, 512, 1, 1, 256},
                              Expected{Layout::tn, 1, 64, 1, 256}, Expected{Layout::tt, 1, 64, 512, 1}}) {
        for (Grouping grouping :
             {Grouping::dense, Grouping::batched, Grouping::m_grouped_indices, Grouping::k_grouped}) {
            const Geometry g = geometry(sample({.grouping = grouping, .layout = e.layout, .recipe = "bf16:bf16"}));
            EXPECT_EQ(g.a.value_strides.row, e.a_row) << name(e.layout);
            EXPECT_EQ(g.a.value_strides.k, e.a_k) << name(e.layout);
            EXPECT_EQ(g.b.value_strides.row, e.b_row) << name(e.layout);
            EXPECT_EQ(g.b.value_strides.k, e.b_k) << name(e.layout);
            EXPECT_EQ(g.a.value_strides.group, grouping == Grouping::batched ? 64 * 512 : 0);
            const bool one_b = grouping == Grouping::dense || grouping == Grouping::k_grouped;
            EXPECT_EQ(g.b.value_strides.group, one_b ? 0 : 256 * 512);
            EXPECT_EQ(g.m, 64);
            EXPECT_EQ(g.n, 256);
            EXPECT_EQ(g.k, 512);
            EXPECT_EQ(g.groups, grouping == Grouping::dense ? 1 : 4);
        }
    }
}

TEST(Strides, ScalesFollowTheLogicalOperand) {
    const Geometry g = geometry(sample({.grouping = Grouping::m_grouped_masked, .layout = Layout::tn}));
    EXPECT_EQ(g.a.scale_strides.group, 64 * 4);
    EXPECT_EQ(g.a.scale_strides.row, 4);
    EXPECT_EQ(g.a.scale_strides.k, 1);
    EXPECT_EQ(g.b.scale_strides.group, 2 * 4);
    EXPECT_EQ(scale_index(g.b, 3, 129, 2), 3 * 8 + 1 * 4 + 2);
    EXPECT_EQ(g.d.group_stride, 64 * 256);
}

TEST(Strides, OneScaleServesAllGroupsOrEachHasItsOwn) {
    Problem p = sample({.grouping = Grouping::batched, .recipe = "tensor:tensor"});
    EXPECT_EQ(geometry(p).a.scale_strides.group, 1);
    p.a.scales = placed(Format::f32, {1});
    EXPECT_EQ(geometry(p).a.scale_strides.group, 0);
    p = sample({.grouping = Grouping::k_grouped, .recipe = "row:row"});
    EXPECT_EQ(geometry(p).a.scale_strides.group, 0);
    p.a.scales = placed(Format::f32, {4, 64});
    EXPECT_EQ(geometry(p).a.scale_strides.group, 64);
    EXPECT_EQ(geometry(p).a.scale_strides.row, 1);
}

}  // namespace
}  // namespace tilewright::test
