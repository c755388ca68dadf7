// Operands and outputs of more than 2^31 elements and 4 GiB, in every layout: all of D is compared.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/large_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

constexpr std::int64_t period = 4096;

void expect_dense(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"),
                     .layout = layout,
                     .m = std::min(m, period),
                     .n = std::min(n, period),
                     .k = k},
                    {.m = m, .n = n});
}

TEST(GpuLarge, AOfMoreThanFourGigabytes) { expect_dense(Layout::nt, 262144 + 129, 136, 16384); }
TEST(GpuLarge, BOfMoreThanFourGigabytes) { expect_dense(Layout::nt, 72, 262144 + 136, 16384); }
TEST(GpuLarge, AAroundTwoToThe31Elements) {
    for (const std::int64_t m : {131071, 131072, 131073}) expect_dense(Layout::nt, m, 16, 16384);
}
TEST(GpuLarge, DOfMoreThanTwoToThe31Elements) { expect_dense(Layout::nt, 65536 + 3, 32768 + 24, 144); }

// Operands along their rows, in rows of a multiple of 16 bytes: mma A, or copied along k.
TEST(GpuLarge, NnWithBOfMoreThanFourGigabytes) { expect_dense(Layout::nn, 72, 262144 + 144, 16384); }
TEST(GpuLarge, TtWithAOfMoreThanFourGigabytes) { expect_dense(Layout::tt, 262144 + 144, 72, 16384); }
TEST(GpuLarge, TnWithAOfMoreThanFourGigabytes) { expect_dense(Layout::tn, 262144 + 144, 80, 16384); }
TEST(GpuLarge, TnWithBOfMoreThanFourGigabytes) { expect_dense(Layout::tn, 80, 262144 + 144, 16384); }

/// A of groups is copied into the workspace, where it has as many bytes again.
TEST(GpuLarge, CopiesOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .layout = Layout::tt, .m = period, .n = 384, .k = 16384},
                    {.grouping = Grouping::m_grouped_offsets, .m = 262144 + 144, .n = 256, .groups = 3});
}

// Groups have other parts of the small problem's weights each.
constexpr Large groups_of_rows{.grouping = Grouping::m_grouped_offsets, .m = 215, .n = 4096, .groups = 66};

TEST(GpuLarge, GroupsWithBOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .m = 40, .n = 1280, .k = 16384}, groups_of_rows);
}
TEST(GpuLarge, NnGroupsWithBOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .layout = Layout::nn, .m = 40, .n = 1280, .k = 16384},
                    groups_of_rows);
}

/// Twice as many rows of weights: 4.4 GB of codes.
void expect_large_weights(const char* recipe, bool packs_weights) {
    Large large = groups_of_rows;
    large.n = 8192;
    large.packs_weights = packs_weights;
    expect_periodic({.recipe = recipe_of(recipe), .m = 40, .n = 1280, .k = 16384}, large);
}
TEST(GpuLarge, PackedWeightsOfMoreThanFourGigabytes) { expect_large_weights("1x128:mxfp4", true); }
TEST(GpuLarge, PackedWeightsForBf16OfMoreThanFourGigabytes) { expect_large_weights("bf16:mxfp4", true); }
TEST(GpuLarge, RawCodesOfMoreThanFourGigabytes) { expect_large_weights("1x128:mxfp4", false); }

check::CaseSpec f32_with_c(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.recipe = recipe_of("1x128:1x128"),
            .output = Format::f32,
            .m = m,
            .n = n,
            .k = k,
            .with_c = true,
            .in_place = true};
}

TEST(GpuLarge, F32DWithCOfMoreThanTwoToThe31Elements) {
    expect_periodic(f32_with_c(1000, 1096, 144), {.m = 65536 + 3, .n = 32768 + 24});
}

void expect_groups_of_k(Grouping grouping, std::int64_t groups, std::int64_t group_k, std::int64_t n) {
    check::CaseSpec spec = f32_with_c(516, std::min<std::int64_t>(n, 1028), 3 * group_k);
    spec.grouping = grouping;
    spec.groups = 3;
    spec.group_sizes = {group_k, group_k, group_k};
    expect_periodic(spec, {.grouping = grouping, .m = 8 * 516, .n = n, .groups = groups});
}

TEST(GpuLarge, GroupsOfKWithAOfMoreThanFourGigabytes) { expect_groups_of_k(Grouping::k_grouped, 130, 8192, 72); }
TEST(GpuLarge, AlignedGroupsOfKWithAOfMoreThanFourGigabytes) {
    expect_groups_of_k(Grouping::k_grouped_aligned_offsets, 130, 8192, 72);
}
TEST(GpuLarge, FlatGroupsOfKWithAOfMoreThanFourGigabytes) {
    expect_groups_of_k(Grouping::k_grouped_flat, 130, 8192, 72);
}
TEST(GpuLarge, GroupsOfKWithDOfMoreThanTwoToThe31Elements) {
    for (const Grouping grouping : {Grouping::k_grouped_flat, Grouping::k_grouped_aligned_offsets}) {
        expect_groups_of_k(grouping, 130, 256, 4112);
    }
}

}  // namespace
}  // namespace tilewright::test
