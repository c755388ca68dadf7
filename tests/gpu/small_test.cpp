// Each family of kernels in one or two tiles with tails: what compute-sanitizer, a hundred times slower, has time for.
// The GPU's bits are the CPU's.
#include <gtest/gtest.h>

#include "cuda/backend.h"
#include "gpu/gpu_case.h"
#include "gpu/quantize_case.h"
#include "gpu/recipes.h"
#include "kernel_of_recipe.h"
#include "plan/shipped_kernels.h"
#include "plan/variant.h"

namespace tilewright::test {
namespace {

check::CaseSpec small(const char* recipe) { return {.recipe = recipe_of(recipe), .m = 70, .n = 136, .k = 288}; }

check::CaseSpec small_groups(const char* recipe, Grouping grouping) {
    check::CaseSpec spec = small(recipe);
    spec.grouping = grouping;
    spec.groups = 3;
    return spec;
}

/// With a group of each kind: k of TMA's multiples, an end in the middle of a k-block, none.
check::CaseSpec small_groups_of_k(const char* recipe, Grouping grouping) {
    check::CaseSpec spec = small_groups(recipe, grouping);
    spec.group_sizes = {144, 0, 16};
    spec.k = grouping == Grouping::k_grouped_aligned_offsets ? 272 : 160;
    spec.a_scales_transposed = spec.b_scales_transposed = true;
    return spec;
}

TEST(GpuSmall, Dense) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor", "128x128:e4m3"}) {
        for (const bool with_c : {false, true}) {
            check::CaseSpec spec = small(recipe);
            spec.with_c = with_c;
            spec.a_scales_transposed = !with_c;
            EXPECT_EQ(run_and_compare(spec), "");
        }
    }
}

/// The kernels that load C by TMA. The tile is named, because others are faster for such a small problem.
TEST(GpuSmall, F32WithC) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:1x128", "row:row"}) {
        for (const bool in_place : {false, true}) {
            check::CaseSpec spec = small(recipe);
            spec.output = Format::f32;
            spec.with_c = true;
            spec.in_place = in_place;
            const GpuCase gpu(spec);
            const hopper::Kernel tile = planner::f32_kernel(tests::of_recipe(recipe));
            ASSERT_EQ(planner::variant(gpu.geometry(), tile), tile);
            cuda::run(gpu.geometry(), tile, 0, nullptr);
            cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
            EXPECT_EQ(gpu.difference(), "");
        }
    }
}

TEST(GpuSmall, Bias) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "row:row", "1x128:mxfp4", "bf16:mxfp4"}) {
        check::CaseSpec spec = small_groups(recipe, Grouping::m_grouped_offsets);
        spec.with_bias = true;
        EXPECT_EQ(run_and_compare(spec), "");
    }
}

/// A or B along its rows, and layout tn, of which one is copied.
TEST(GpuSmall, Layouts) {
    const CurrentDevice device;
    for (const Layout layout : {Layout::nn, Layout::tn, Layout::tt}) {
        check::CaseSpec spec = small("1x128:128x128");
        spec.layout = layout;
        spec.m = 144;
        spec.n = 144;
        EXPECT_EQ(run_and_compare(spec), "");
    }
}

TEST(GpuSmall, GroupsOfRows) {
    const CurrentDevice device;
    for (const Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets,
                                    Grouping::m_grouped_masked, Grouping::m_grouped_indices}) {
        for (const char* recipe : {"1x128:128x128", "row:row"}) {
            EXPECT_EQ(run_and_compare(small_groups(recipe, grouping)), "");
        }
    }
}

TEST(GpuSmall, GroupsOfK) {
    const CurrentDevice device;
    for (const Grouping grouping : {Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}) {
        for (const char* recipe : {"1x128:1x128", "row:row", "1x128:128x128", "128x128:e4m3"}) {
            check::CaseSpec spec = small_groups_of_k(recipe, grouping);
            EXPECT_EQ(run_and_compare(spec), "");
            spec.output = Format::f32;
            spec.with_c = spec.in_place = true;
            EXPECT_EQ(run_and_compare(spec), "");
        }
    }
}

/// The rests of k-blocks are cleared; groups at no multiple of 16 bytes are loaded byte by byte.
TEST(GpuSmall, OddGroupsOfK) {
    const CurrentDevice device;
    for (const Grouping grouping : {Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}) {
        check::CaseSpec spec = small_groups_of_k("1x128:1x128", grouping);
        spec.group_sizes = {129, 1, 30};
        if (grouping == Grouping::k_grouped_aligned_offsets) spec.k = 256 + 128 + 32;
        EXPECT_EQ(run_and_compare(spec), "");
    }
}

/// The layer's weight gradient from forward's codes: B is copied along k.
TEST(GpuSmall, GroupsOfKWithACopy) {
    const CurrentDevice device;
    check::CaseSpec spec = small_groups_of_k("128x128:e4m3", Grouping::k_grouped_aligned_offsets);
    spec.layout = Layout::nn;
    spec.n = 144;
    spec.output = Format::f32;
    EXPECT_EQ(run_and_compare(spec), "");
}

/// FP4 weights, packed before and at each call, without wide rows and with them.
TEST(GpuSmall, Fp4Weights) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4", "bf16:mxfp4", "bf16:nvfp4",
                               "nvfp4:nvfp4", "1x128:nvfp4", "row:nvfp4"}) {
        for (const bool packs : {true, false}) {
            EXPECT_EQ(run_and_compare(small_groups(recipe, Grouping::m_grouped_masked), packs), "");
            if (recipe_of(recipe).b.granularity == Granularity::block_1x16) continue;
            check::CaseSpec wide = small(recipe);
            wide.far_scales = {.one_row_in = 3, .spread = 150};
            EXPECT_EQ(run_and_compare(wide, packs), "");
        }
    }
}

TEST(GpuSmall, Mxfp8) {
    const CurrentDevice device;
    EXPECT_EQ(run_and_compare(small("mxfp8:mxfp8")), "");
}

TEST(GpuSmall, Quantizers) {
    const CurrentDevice device;
    Matrix x(Format::bf16, {130, 272});
    fill(x, 1);
    for (const Granularity granularity :
         {Granularity::tensor, Granularity::row, Granularity::block_1x128, Granularity::block_128x128}) {
        for (const Order order : {Order::row_major, Order::transposed}) {
            expect_cpu_bits(x, {.recipe = {Format::e4m3, granularity, Format::f32}}, order);
        }
    }
    for (const OperandRecipe& recipe : {OperandRecipe{Format::e4m3, Granularity::block_1x32, Format::ue8m0},
                                        OperandRecipe{Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                        OperandRecipe{Format::e2m1, Granularity::block_1x16, Format::ue4m3}}) {
        expect_cpu_bits(x, {.recipe = recipe}, Order::row_major);
    }
}

}  // namespace
}  // namespace tilewright::test
