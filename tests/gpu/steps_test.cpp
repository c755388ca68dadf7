// 1x32 scales next to other scales of fp8 and next to bf16, in kernels that are compiled on first use: the GPU's bits
// are the CPU's, whichever tile the library chooses. (MXFP8 on both sides and next to MXFP4: packed_test.cpp.)
#include <gtest/gtest.h>

#include <string>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

struct Shape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

constexpr const char* recipes[] = {"row:mxfp8",          "tensor:mxfp8",   "1x128:mxfp8", "e5m2.1x128.ue8m0:mxfp8",
                                   "mxfp8:row",          "mxfp8:tensor",   "mxfp8:1x128", "mxfp8:128x128",
                                   "bf16:mxfp8",         "bf16:e5m2.1x32", "nvfp4:mxfp8", "mxfp8:nvfp4",
                                   "mxfp8:128x128.ue8m0"};

/// bf16 is read along k alone, and so are the codes of weights that are packed by the call.
bool is_served(const Recipe& recipe, Layout layout) {
    const bool a_along_m = layout == Layout::tn || layout == Layout::tt;
    const bool b_along_n = layout == Layout::nn || layout == Layout::tn;
    return !(recipe.a.values == Format::bf16 && a_along_m) && !(recipe.b.values == Format::e2m1 && b_along_n);
}

TEST(GpuSteps, TailsLayoutsAndGroups) {
    const CurrentDevice device;
    std::uint64_t seed = 0;
    for (const char* recipe : recipes) {
        for (const Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
            if (!is_served(recipe_of(recipe), layout)) continue;
            for (const Grouping grouping :
                 {Grouping::dense, Grouping::batched, Grouping::m_grouped_masked, Grouping::m_grouped_offsets,
                  Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_indices}) {
                const std::uint64_t turn = seed + seed / 6;  // of six groupings
                const Shape shape = turn % 3 == 0   ? Shape{2, 128, 32}
                                    : turn % 3 == 1 ? Shape{48, 400, 2048}
                                                    : Shape{272, 528, 304};
                EXPECT_EQ(run_and_compare({.grouping = grouping,
                                           .recipe = recipe_of(recipe),
                                           .layout = layout,
                                           .output = turn % 2 == 0 ? Format::bf16 : Format::f32,
                                           .m = shape.m,
                                           .n = shape.n,
                                           .k = shape.k,
                                           .groups = grouping == Grouping::dense ? 1 : 4,
                                           .alignment = 16,
                                           .distribution = check::random_distributions()[seed % 8],
                                           .seed = seed,
                                           .with_c = seed % 5 == 0},
                                          turn % 4 < 2),
                          "");
                ++seed;
            }
        }
    }
}

/// Waves of the largest tiles, with scales that are loaded as words of one, of two and of four k-blocks, and one by
/// one.
TEST(GpuSteps, ManyRows) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:mxfp8", "mxfp8:128x128", "bf16:mxfp8", "nvfp4:mxfp8", "mxfp8:nvfp4"}) {
        for (const std::int64_t k : {640, 1152, 2048, 2080}) {
            const bool dense = k % 256 != 0;
            EXPECT_EQ(run_and_compare({.grouping = dense ? Grouping::dense : Grouping::m_grouped_offsets,
                                       .recipe = recipe_of(recipe),
                                       .m = 4100,
                                       .n = 2056,
                                       .k = k,
                                       .groups = dense ? 1 : 3,
                                       .seed = static_cast<std::uint64_t>(k)}),
                      "");
        }
    }
}

TEST(GpuSteps, FewRowsInSlicesOfK) {
    const CurrentDevice device;
    for (const char* recipe : recipes) {
        for (const Shape& shape : {Shape{1, 7168, 2048}, Shape{16, 4096, 7168}, Shape{64, 64, 0}, Shape{0, 64, 64}}) {
            EXPECT_EQ(run_and_compare({.recipe = recipe_of(recipe), .m = shape.m, .n = shape.n, .k = shape.k}), "");
        }
    }
}

}  // namespace
}  // namespace tilewright::test
