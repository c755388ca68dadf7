// MXFP4 weights, packed, with fp8 activations: the GPU's bits are the CPU's, whichever tile the library chooses.
#include <gtest/gtest.h>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

struct Shape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

constexpr const char* recipes[] = {"1x128:mxfp4", "row:mxfp4", "tensor:mxfp4", "1x128.ue8m0:mxfp4"};

TEST(GpuPacked, TailsWavesAndNothing) {
    const CurrentDevice device;
    for (const char* recipe : recipes) {
        for (const Shape& shape :
             {Shape{0, 64, 64}, Shape{64, 64, 0}, Shape{1, 7, 32}, Shape{7, 1, 128}, Shape{1, 7168, 2048},
              Shape{33, 2880, 2880}, Shape{64, 4096, 1024}, Shape{255, 513, 288}, Shape{1000, 1000, 1024}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe), .m = shape.m, .n = shape.n, .k = shape.k}), "");
        }
    }
}

TEST(GpuPacked, EveryGrouping) {
    const CurrentDevice device;
    for (const char* recipe : recipes) {
        for (const Grouping grouping : {Grouping::batched, Grouping::m_grouped_masked, Grouping::m_grouped_offsets,
                                        Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
            for (const std::int64_t m : {20, 150, 700}) {
                EXPECT_EQ(run_and_compare({.grouping = grouping,
                                           .recipe = recipe_of(recipe),
                                           .m = m,
                                           .n = 1096,
                                           .k = 1056,
                                           .groups = 9,
                                           .alignment = 16}),
                          "");
            }
        }
    }
}

TEST(GpuPacked, OutputsWithCAndAlpha) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4"}) {
        for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                       .output = output,
                                       .m = 50,
                                       .n = 201,
                                       .k = 544,
                                       .with_c = true,
                                       .alpha = 0.5F,
                                       .d_gaps = {.row = 3}}),
                      "");
        }
    }
}

TEST(GpuPacked, EveryDistribution) {
    const CurrentDevice device;
    for (const check::Distribution distribution : check::random_distributions()) {
        if (distribution == check::Distribution::normal_cubed) continue;  // may have wide rows
        EXPECT_EQ(run_and_compare(
                      {.recipe = recipe_of("1x128:mxfp4"), .m = 24, .n = 264, .k = 1024, .distribution = distribution}),
                  "");
    }
}

}  // namespace
}  // namespace tilewright::test
