// FP4 weights, packed, next to fp8, bf16 and FP4 activations: the GPU's bits are the CPU's, whichever tile the library
// chooses. And MXFP8 with itself, which has the mainloop of MXFP8 with FP4.
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

constexpr const char* fp8_recipes[] = {"1x128:mxfp4",       "row:mxfp4",   "tensor:mxfp4",
                                       "1x128.ue8m0:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4"};
constexpr const char* recipes[] = {"1x128:mxfp4", "row:mxfp4",       "tensor:mxfp4", "1x128.ue8m0:mxfp4", "bf16:mxfp4",
                                   "bf16:nvfp4",  "e5m2.1x32:mxfp4", "mxfp8:mxfp4",  "mxfp4:mxfp4",       "nvfp4:mxfp4",
                                   "nvfp4:nvfp4", "1x128:nvfp4",     "row:nvfp4"};

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

TEST(GpuPacked, ManyRows) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe : {"1x128:mxfp4", "1x128.ue8m0:mxfp4", "e5m2.1x128:mxfp4", "row:mxfp4", "tensor:mxfp4",
                               "mxfp8:mxfp4", "e5m2.1x32:mxfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_offsets,
                                        Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
            const bool dense = grouping == Grouping::dense, batched = grouping == Grouping::batched;
            ++seed;
            const check::CaseSpec spec{.grouping = grouping,
                                       .recipe = recipe_of(recipe),
                                       .output = seed % 4 == 3 ? Format::f32 : Format::bf16,
                                       .m = batched ? 1300 : 5233,
                                       .n = 2568,
                                       .k = 2634,
                                       .groups = dense ? 1 : 4,
                                       .alignment = 16,
                                       .seed = seed,
                                       .a_gaps = {.row = 6},
                                       .far_scales = {.one_row_in = 2, .spread = 7, .odd = seed % 2 == 0}};
            EXPECT_EQ(run_expanded_and_compare(spec), "");
        }
    }
}

/// The same of weights for bf16, whose kernels are compiled.
TEST(GpuPacked, ManyRowsNextToBf16) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe : {"bf16:mxfp4", "bf16:nvfp4", "nvfp4:mxfp4", "nvfp4:nvfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets, Grouping::m_grouped_indices}) {
            ++seed;
            check::CaseSpec spec{.grouping = grouping,
                                 .recipe = recipe_of(recipe),
                                 .output = seed % 4 == 3   ? Format::f32
                                           : seed % 4 == 2 ? Format::f16
                                                           : Format::bf16,
                                 .m = 5233,
                                 .n = 2568,
                                 .k = 2880,
                                 .groups = grouping == Grouping::dense ? 1 : 2,
                                 .seed = seed,
                                 .with_bias = seed % 2 == 0};
            if (spec.recipe.b.granularity == Granularity::block_1x32) {
                spec.far_scales = {.one_row_in = 2, .spread = 100, .odd = seed % 2 == 0};
            }
            EXPECT_EQ(run_expanded_and_compare(spec), "");
        }
    }
}

TEST(GpuPacked, OutputsWithCAndAlpha) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "bf16:mxfp4", "bf16:nvfp4", "mxfp8:mxfp4", "nvfp4:nvfp4",
                               "1x128:nvfp4", "tensor:nvfp4"}) {
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
    for (const char* recipe :
         {"1x128:mxfp4", "bf16:mxfp4", "bf16:nvfp4", "mxfp8:mxfp4", "nvfp4:nvfp4", "1x128:nvfp4", "row:nvfp4"}) {
        for (const check::Distribution distribution : check::random_distributions()) {
            EXPECT_EQ(run_and_compare(
                          {.recipe = recipe_of(recipe), .m = 24, .n = 264, .k = 1024, .distribution = distribution}),
                      "");
        }
    }
}

// ---- fp8 next to NVFP4

/// Decoded from either order of memory, e5m2 and scales of both formats too.
TEST(GpuFp8NextToNvfp4, LayoutsGroupsAndOutputs) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe :
         {"1x128:nvfp4", "1x128.ue8m0:nvfp4", "e5m2.1x128:nvfp4", "row:nvfp4", "e5m2.row:nvfp4", "tensor:nvfp4"}) {
        for (const Grouping grouping :
             {Grouping::dense, Grouping::batched, Grouping::m_grouped_masked, Grouping::m_grouped_offsets,
              Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
            for (const Shape& shape : {Shape{1, 128, 16}, Shape{50, 392, 1104}, Shape{130, 264, 2096}}) {
                EXPECT_EQ(run_and_compare({.grouping = grouping,
                                           .recipe = recipe_of(recipe),
                                           .layout = seed % 2 == 0 ? Layout::nt : Layout::tt,
                                           .output = seed % 5 == 0 ? Format::f32 : Format::bf16,
                                           .m = shape.m,
                                           .n = shape.n,
                                           .k = shape.k,
                                           .groups = grouping == Grouping::dense ? 1 : 4,
                                           .alignment = 16,
                                           .distribution = check::random_distributions()[seed % 8],
                                           .seed = seed,
                                           .with_bias = seed % 3 == 0,
                                           .a_gaps = {.row = seed % 7 == 2 ? 5 : 0},
                                           .a_scales_transposed = seed % 4 > 1},
                                          seed % 5 != 1),
                          "");
                ++seed;
            }
        }
    }
}

// ---- 1x32 scales on both sides

/// In tiles of 256 rows, with scales that are loaded as words of one and of two k-blocks, and one by one.
TEST(GpuMxfp8, ManyRows) {
    const CurrentDevice device;
    for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
        for (const std::int64_t k : {640, 1152, 1280, 2048, 2080}) {
            EXPECT_EQ(run_and_compare({.grouping = grouping,
                                       .recipe = recipe_of("mxfp8:mxfp8"),
                                       .m = 4100,
                                       .n = 2056,
                                       .k = k,
                                       .groups = grouping == Grouping::dense ? 1 : 3,
                                       .seed = static_cast<std::uint64_t>(k)}),
                      "");
        }
    }
}

TEST(GpuMxfp8, TailsLayoutsAndGroups) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe : {"mxfp8:mxfp8", "e5m2.1x32:mxfp8", "mxfp8:e5m2.1x32"}) {
        for (const Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
            for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_masked,
                                            Grouping::m_grouped_offsets, Grouping::m_grouped_indices}) {
                for (const Shape& shape : {Shape{1, 128, 32}, Shape{48, 400, 2048}, Shape{272, 528, 304}}) {
                    const bool dense = grouping == Grouping::dense;
                    EXPECT_EQ(run_and_compare({.grouping = grouping,
                                               .recipe = recipe_of(recipe),
                                               .layout = layout,
                                               .output = seed % 2 == 0 ? Format::bf16 : Format::f32,
                                               .m = shape.m,
                                               .n = shape.n,
                                               .k = shape.k,
                                               .groups = dense ? 1 : 4,
                                               .distribution = check::random_distributions()[seed % 8],
                                               .seed = seed,
                                               .with_c = seed % 3 == 0}),
                              "");
                    ++seed;
                }
            }
        }
    }
}

// ---- Rows whose scales are far apart

constexpr check::FarScales far_scales[] = {
    {.one_row_in = 100, .spread = 24},                // few wide rows
    {.one_row_in = 1, .spread = 24},                  // all, mostly in two windows
    {.one_row_in = 1, .spread = 254},                 // up to four windows, and sums beyond fp32
    {.one_row_in = 2, .spread = 60, .odd = true},     // scales of NaN, blocks of zeros with any scale
    {.one_row_in = 7, .spread = 12},                  // hardly wide
    {.one_row_in = 300, .spread = 127, .odd = true},  // dormant
};

TEST(GpuPacked, WideRowsWithAnyScales) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe : fp8_recipes) {
        for (const check::FarScales& far : far_scales) {
            for (const Shape& shape : {Shape{1, 128, 96}, Shape{16, 2880, 2880}, Shape{50, 1000, 544},
                                       Shape{255, 513, 288}, Shape{7, 7168, 2048}}) {
                EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe),
                                           .m = shape.m,
                                           .n = shape.n,
                                           .k = shape.k,
                                           .seed = seed++,
                                           .far_scales = far}),
                          "");
            }
        }
    }
}

TEST(GpuPacked, WideRowsInEveryGroupingAndOutput) {
    const CurrentDevice device;
    std::uint64_t seed = 100;
    for (const char* recipe : fp8_recipes) {
        for (const Grouping grouping : {Grouping::batched, Grouping::m_grouped_masked, Grouping::m_grouped_offsets,
                                        Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
            for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
                EXPECT_EQ(run_and_compare({.grouping = grouping,
                                           .recipe = recipe_of(recipe),
                                           .output = output,
                                           .m = 20 + 130 * static_cast<std::int64_t>(seed % 3),
                                           .n = 1096,
                                           .k = 1056,
                                           .groups = 9,
                                           .alignment = 16,
                                           .seed = seed,
                                           .with_c = seed % 2 == 1,
                                           .far_scales = far_scales[seed % 6]}),
                          "");
                ++seed;
            }
        }
    }
}

/// Rows whose scales are up to 2^120 apart, and wide ones.
TEST(GpuPacked, FarScalesForBf16) {
    const CurrentDevice device;
    constexpr check::FarScales far[] = {{.one_row_in = 1, .spread = 100},
                                        {.one_row_in = 2, .spread = 100, .odd = true},
                                        {.one_row_in = 7, .spread = 30, .odd = true},
                                        {.one_row_in = 1, .spread = 254},
                                        {.one_row_in = 100, .spread = 200},
                                        {.one_row_in = 3, .spread = 254, .odd = true}};
    std::uint64_t seed = 300;
    for (const check::FarScales& scales : far) {
        for (const Shape& shape :
             {Shape{1, 128, 96}, Shape{16, 2880, 2880}, Shape{255, 513, 288}, Shape{7, 7168, 2048}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of("bf16:mxfp4"),
                                       .m = shape.m,
                                       .n = shape.n,
                                       .k = shape.k,
                                       .seed = seed++,
                                       .far_scales = scales}),
                      "");
        }
    }
}

}  // namespace
}  // namespace tilewright::test
