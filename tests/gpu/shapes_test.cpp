// Every recipe over sizes that hit tails, single tiles, many waves and nothing at all, strided and batched, with C and
// alpha: the GPU's bits are the CPU's.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <algorithm>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

struct Shape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

TEST(GpuShapes, EveryRecipe) {
    const CurrentDevice device;
    for (const Recipe& recipe : gpu_recipes()) {
        for (const Shape& shape : {Shape{1, 1, 16}, Shape{129, 257, 400}, Shape{300, 192, 1024}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe, .m = shape.m, .n = shape.n, .k = shape.k}), "");
        }
    }
}

TEST(GpuShapes, TailsWavesAndNothing) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor"}) {
        for (const Shape& shape :
             {Shape{0, 64, 64}, Shape{64, 0, 64}, Shape{64, 64, 0}, Shape{1, 7, 16}, Shape{7, 1, 128},
              Shape{63, 65, 144}, Shape{64, 128, 128}, Shape{65, 127, 2064}, Shape{255, 513, 272},
              Shape{1000, 1000, 1008}, Shape{2049, 3073, 512}, Shape{128, 7168, 2048}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe), .m = shape.m, .n = shape.n, .k = shape.k}), "");
        }
    }
}

TEST(GpuShapes, EveryDistribution) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row"}) {
        for (const check::Distribution distribution : check::random_distributions()) {
            EXPECT_EQ(run_and_compare(
                          {.recipe = recipe_of(recipe), .m = 200, .n = 264, .k = 1040, .distribution = distribution}),
                      "");
        }
    }
}

TEST(GpuShapes, OutputsWithCAndAlpha) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "row:row"}) {
        for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
            for (const bool in_place : {false, true}) {
                EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                           .output = output,
                                           .m = 150,
                                           .n = 136,
                                           .k = 272,
                                           .with_c = true,
                                           .in_place = in_place,
                                           .alpha = -0.75F}),
                          "");
            }
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe), .output = output, .m = 150, .n = 135, .k = 512}),
                      "");
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe), .output = output, .m = 150, .n = 256, .k = 512}),
                      "");
        }
    }
}

TEST(GpuShapes, WithoutKDIsCOrZero) {
    const CurrentDevice device;
    for (const bool with_c : {false, true}) {
        EXPECT_EQ(run_and_compare({.recipe = recipe_of("1x128:128x128"), .m = 70, .n = 130, .with_c = with_c}), "");
    }
    EXPECT_EQ(run_and_compare({.recipe = recipe_of("row:row"), .m = 70, .n = 130, .with_bias = true, .alpha = 2}), "");
}

TEST(GpuShapes, Bias) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "row:row", "1x128:mxfp4", "bf16:mxfp4", "bf16:nvfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_offsets,
                                        Grouping::m_grouped_masked, Grouping::m_grouped_indices}) {
            for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
                for (const Format bias : {Format::bf16, Format::f32}) {
                    EXPECT_EQ(run_and_compare({.grouping = grouping,
                                               .recipe = recipe_of(recipe),
                                               .output = output,
                                               .m = 150,
                                               .n = 202,
                                               .k = 544,
                                               .groups = grouping == Grouping::dense ? 1 : 4,
                                               .with_bias = true,
                                               .shared_bias = output == Format::f16,
                                               .bias_format = bias,
                                               .alpha = bias == Format::bf16 ? 1.0F : -0.75F,
                                               .bias_gaps = {.element = 1, .row = 3}}),
                              "");
                }
            }
        }
    }
}

/// FP4 weights packed before and at each call, some with wide rows, and as many rows of tokens as expand them.
TEST(GpuShapes, BiasOfFp4Weights) {
    const CurrentDevice device;
    for (const char* recipe :
         {"1x128:mxfp4", "row:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4", "nvfp4:mxfp4", "nvfp4:nvfp4", "bf16:mxfp4"}) {
        for (const bool packs : {true, false}) {
            for (const int one_row_in : {0, 3}) {
                for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
                    EXPECT_EQ(run_and_compare({.grouping = grouping,
                                               .recipe = recipe_of(recipe),
                                               .output = packs ? Format::bf16 : Format::f32,
                                               .m = 150,
                                               .n = 202,
                                               .k = 544,
                                               .groups = grouping == Grouping::dense ? 1 : 4,
                                               .with_bias = true,
                                               .bias_format = one_row_in == 0 ? Format::bf16 : Format::f32,
                                               .alpha = packs ? 1.0F : -0.75F,
                                               .far_scales = {.one_row_in = one_row_in, .spread = 150}},
                                              packs),
                              "");
                }
            }
        }
    }
    for (const char* recipe : {"1x128:mxfp4", "mxfp8:mxfp4"}) {
        const check::CaseSpec spec{.grouping = Grouping::m_grouped_offsets,
                                   .recipe = recipe_of(recipe),
                                   .m = 5233,
                                   .n = 2568,
                                   .k = 2634,
                                   .groups = 4,
                                   .with_bias = true,
                                   .a_gaps = {.row = 6}};
        EXPECT_EQ(run_expanded_and_compare(spec), "");
    }
}

TEST(GpuShapes, Unpromoted) {
    const CurrentDevice device;
    for (const char* recipe : {"row:row", "tensor:tensor"}) {
        for (const Shape& shape : {Shape{129, 257, 400}, Shape{300, 512, 4096}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                       .m = shape.m,
                                       .n = shape.n,
                                       .k = shape.k,
                                       .accumulation = Accumulation::unpromoted}),
                      "");
        }
    }
}

TEST(GpuShapes, GapsBetweenRowsAndScalesInEitherOrder) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row"}) {
        for (const bool transposed : {false, true}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                       .m = 196,
                                       .n = 264,
                                       .k = 1040,
                                       .a_gaps = {.row = 16},
                                       .b_gaps = {.row = 48},
                                       .a_scale_gaps = {.row = 3},
                                       .b_scale_gaps = {.row = 5},
                                       .d_gaps = {.row = 7},
                                       .a_scales_transposed = transposed,
                                       .b_scales_transposed = transposed}),
                      "");
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                       .m = 196,
                                       .n = 264,
                                       .k = 1040,
                                       .d_gaps = {.element = 1, .row = 2},
                                       .a_scales_transposed = transposed,
                                       .b_scales_transposed = transposed}),
                      "");
        }
    }
}

TEST(GpuShapes, Batched) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor"}) {
        for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{5}, std::int64_t{40}}) {
            EXPECT_EQ(run_and_compare({.grouping = Grouping::batched,
                                       .recipe = recipe_of(recipe),
                                       .m = 130,
                                       .n = 264,
                                       .k = 400,
                                       .groups = groups}),
                      "");
        }
    }
}

TEST(GpuShapes, FewSmsAndManyTiles) {
    const CurrentDevice device;
    for (const Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
        EXPECT_EQ(
            run_on_few_sms({.recipe = recipe_of("1x128:128x128"), .layout = layout, .m = 2000, .n = 2064, .k = 784}),
            "");
    }
    for (const char* recipe : {"1x128:1x128", "row:row"}) {
        EXPECT_EQ(run_on_few_sms({.recipe = recipe_of(recipe),
                                  .output = Format::f32,
                                  .m = 2000,
                                  .n = 2064,
                                  .k = 784,
                                  .with_c = true,
                                  .in_place = true}),
                  "");
    }
}

TEST(GpuShapes, OneMatrixForTheWholeBatch) {
    const CurrentDevice device;
    GpuCase gpu(
        {.grouping = Grouping::batched, .recipe = recipe_of("tensor:tensor"), .m = 64, .n = 64, .k = 256, .groups = 3});
    Problem p = gpu.problem();
    p.a.values.strides[0] = 0;
    run(p);
    // Group 0 reads what it would read anyway, so its part of D is known.
    const std::vector<std::byte> shared = gpu.output();
    gpu.reset();
    run(gpu.problem());
    const std::vector<std::byte> separate = gpu.output();
    EXPECT_TRUE(std::equal(separate.begin(), separate.begin() + 64 * 64 * 2, shared.begin()));
    EXPECT_NE(separate, shared);
}

}  // namespace
}  // namespace tilewright::test
