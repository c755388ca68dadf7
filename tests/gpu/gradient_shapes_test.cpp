// Gradients of weights of the sizes at which other libraries were wrong: many experts with many tokens each, one
// product over very many tokens, rows that are no multiple of 16. All of D has the CPU's bits.
#include <gtest/gtest.h>

#include "gpu/gpu_case.h"
#include "gpu/large_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

/// f32 += as training accumulates it.
check::CaseSpec gradient(const char* recipe, std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.recipe = recipe_of(recipe),
            .output = Format::f32,
            .m = m,
            .n = n,
            .k = k,
            .with_c = true,
            .in_place = true,
            .a_scales_transposed = true,
            .b_scales_transposed = true};
}

check::CaseSpec of_experts(const char* recipe, std::int64_t experts, std::int64_t m, std::int64_t n,
                           std::int64_t tokens_each) {
    check::CaseSpec spec = gradient(recipe, m, n, experts * tokens_each);
    spec.grouping = Grouping::k_grouped_flat;
    spec.groups = experts;
    spec.group_sizes.assign(static_cast<std::size_t>(experts), tokens_each);
    return spec;
}

/// 128 experts of 4096 tokens each. Groups, rows and columns of operands repeat, so that all of D can be compared.
void expect_many_experts(const char* recipe, Grouping grouping) {
    check::CaseSpec spec = of_experts(recipe, 3, 500, 384, 4096);
    spec.grouping = grouping;
    spec.a_scales_transposed = spec.b_scales_transposed = false;
    expect_periodic(spec, {.grouping = grouping, .m = 2048, .n = 768, .groups = 128});
    expect_periodic(spec, {.grouping = grouping, .m = 768, .n = 1536, .groups = 128});
}

TEST(GpuGradientShapes, ManyExpertsByBlocks) { expect_many_experts("1x128:1x128", Grouping::k_grouped_flat); }
TEST(GpuGradientShapes, ManyExpertsByRows) { expect_many_experts("row:row", Grouping::k_grouped_flat); }
TEST(GpuGradientShapes, ManyExpertsByBlocksAtAlignedEnds) {
    expect_many_experts("1x128:1x128", Grouping::k_grouped_aligned_offsets);
}

TEST(GpuGradientShapes, ExpertsOfEachRecipe) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:1x128", "row:row", "1x128:128x128", "128x128:e4m3"}) {
        EXPECT_EQ(run_and_compare(of_experts(recipe, 16, 768, 1536, 4096)), "");
        EXPECT_EQ(run_and_compare(of_experts(recipe, 4, 2048, 768, 4096)), "");
    }
}

TEST(GpuGradientShapes, VeryManyTokens) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:1x128", "row:row"}) {
        for (const Layout layout : {Layout::nt, Layout::tn}) {
            check::CaseSpec spec = gradient(recipe, 512, 1024, 147456);
            spec.layout = layout;
            EXPECT_EQ(run_and_compare(spec), "");
        }
    }
}

TEST(GpuGradientShapes, RowsThatAreNoMultipleOf16) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:1x128", "row:row"}) {
        for (const Layout layout : {Layout::nt, Layout::tn}) {
            for (const Format output : {Format::f32, Format::bf16}) {
                check::CaseSpec spec = gradient(recipe, 1538, 256, 2048);
                spec.layout = layout;
                spec.output = output;
                // Operands along their rows have rows of a multiple of 16 bytes.
                if (layout == Layout::tn) spec.a_gaps.row = 14;
                EXPECT_EQ(run_and_compare(spec), "");
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::test
