// Groups of k whose sizes only the GPU knows: aligned, anywhere and one matrix after another, with k that TMA takes and
// others. The GPU's bits are the CPU's.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

constexpr std::array k_groupings{Grouping::k_grouped_flat, Grouping::k_grouped, Grouping::k_grouped_aligned_offsets};
constexpr std::array k_recipes{
    "1x128:1x128",     "row:row",   "1x128:128x128", "128x128:e4m3", "row:e4m3",
    "128x128:128x128", "1x128:row", "1x128:tensor",  "1x128:e5m2",   "e5m2.128x128.ue8m0:e4m3"};

check::CaseSpec k_spec(Grouping grouping, const char* recipe) {
    return {.grouping = grouping,
            .recipe = recipe_of(recipe),
            .output = Format::f32,
            .m = 300,
            .n = 264,
            .k = 2048,
            .groups = 5,
            .a_scales_transposed = true,
            .b_scales_transposed = true};
}

TEST(GpuKGrouped, GroupsOfEachLength) {
    const CurrentDevice device;
    const std::vector<std::int64_t> multiples{0, 16, 112, 128, 144, 1008, 0}, any{16, 112, 127, 128, 129, 1000, 1};
    for (const Grouping grouping : k_groupings) {
        for (const char* recipe : k_recipes) {
            for (const std::vector<std::int64_t>& sizes : {multiples, any}) {
                check::CaseSpec spec = k_spec(grouping, recipe);
                spec.groups = static_cast<std::int64_t>(sizes.size());
                spec.group_sizes = sizes;
                spec.k = 0;
                for (const std::int64_t size : sizes) spec.k += (size + 127) / 128 * 128;
                if (grouping != Grouping::k_grouped_aligned_offsets) {
                    spec.k = 0;
                    for (const std::int64_t size : sizes) spec.k += size;
                }
                // Rows of k_grouped have a common pitch, a multiple of 16 bytes.
                if (grouping == Grouping::k_grouped) spec.a_gaps.row = spec.b_gaps.row = (16 - spec.k % 16) % 16;
                EXPECT_EQ(run_and_compare(spec), "");
                spec.with_c = spec.in_place = true;
                EXPECT_EQ(run_and_compare(spec), "");
                spec.with_c = spec.in_place = false;
                spec.output = Format::bf16;
                EXPECT_EQ(run_and_compare(spec), "");
                spec.a_scales_transposed = false;
                EXPECT_EQ(run_and_compare(spec), "");
            }
        }
    }
}

TEST(GpuKGrouped, AnySplit) {
    const CurrentDevice device;
    std::mt19937_64 random(3);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 240; ++i) {
        check::CaseSpec spec = k_spec(k_groupings[i % k_groupings.size()], k_recipes[i / 3 % k_recipes.size()]);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 40);
        spec.m = 1 + static_cast<std::int64_t>(random() % 700);
        spec.n = 1 + static_cast<std::int64_t>(random() % 700);
        spec.k = 16 * (1 + static_cast<std::int64_t>(random() % 300));
        spec.size_multiple = random() % 4 != 0 ? 16 : 1;
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        spec.output = random() % 2 == 0 ? Format::bf16 : Format::f32;
        spec.with_c = random() % 2 == 0;
        spec.a_scales_transposed = random() % 2 == 0;
        spec.seed = random();
        specs.push_back(spec);
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

TEST(GpuKGrouped, FewSmsAndManyTiles) {
    const CurrentDevice device;
    for (const Grouping grouping : k_groupings) {
        for (const char* recipe : {"1x128:1x128", "row:row"}) {
            for (const bool accumulates : {false, true}) {
                check::CaseSpec spec = k_spec(grouping, recipe);
                spec.m = 520;
                spec.n = 648;
                spec.groups = 9;
                spec.size_multiple = 16;
                spec.with_c = spec.in_place = accumulates;
                if (!accumulates) spec.output = Format::bf16;
                EXPECT_EQ(run_on_few_sms(spec), "");
            }
        }
    }
}

/// What `tilewright.torch` calls in backward: gradients of one scale for 128 x 128, multiplied by forward's codes of
/// the tokens, which are along their rows.
TEST(GpuKGrouped, ForwardsCodesAlongTheirRows) {
    const CurrentDevice device;
    for (const Layout layout : {Layout::nn, Layout::nt}) {
        for (const char* recipe : {"128x128:e4m3", "1x128:e4m3", "e5m2.128x128:e4m3"}) {
            for (const Format output : {Format::f32, Format::bf16}) {
                for (const bool with_c : {false, true}) {
                    check::CaseSpec spec = k_spec(Grouping::k_grouped_aligned_offsets, recipe);
                    spec.layout = layout;
                    spec.output = output;
                    spec.n = 272;
                    spec.with_c = spec.in_place = with_c;
                    spec.a_scales_transposed = with_c;
                    EXPECT_EQ(run_and_compare(spec), "");
                    spec.group_sizes = {112, 128, 0, 1000, 1};
                    EXPECT_EQ(run_and_compare(spec), "");
                }
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::test
