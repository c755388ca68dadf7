// Packed weights that are expanded to e4m3 or bf16 before a product, on the emulator. Each bit of the product is
// compared with the CPU's arithmetic `bit_exact`.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"
#include "launch/tile_code.h"
#include "plan/pack.h"
#include "problem/canonical_order.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::FarScales;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Tile;

constexpr Tile expanded(Tile tile, Family family = Family::dense, hopper::Storage a = hopper::Storage::e4m3,
                        Scaling scaling = Scaling::block_1x128) {
    tile.a = {.storage = a, .scaling = scaling};
    tile.b = {.scaling = Scaling::factor};
    tile.family = family;
    tile.swap_ab = tile.shape.n == 16;
    return tile;
}

/// Next to bf16; `b` is `factor` of MXFP4, `alpha` of NVFP4.
constexpr Tile bf16(Tile tile, Family family, Scaling a, Scaling b) {
    tile.a = {.storage = hopper::Storage::bf16, .scaling = a};
    tile.b = {.storage = hopper::Storage::bf16, .scaling = b};
    tile.mma.promoted = false;
    tile.shape.k = stage_k(tile);
    tile.family = family;
    tile.swap_ab = tile.shape.n == 16;
    return tile;
}

constexpr Tile small{.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 4};
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 3};
constexpr std::array tiles{expanded(small),
                           expanded(split),
                           expanded(square, Family::m_grouped),
                           expanded(small, Family::dense, hopper::Storage::e5m2),
                           expanded(small, Family::m_grouped, hopper::Storage::e4m3, Scaling::epilogue),
                           expanded(split, Family::dense, hopper::Storage::e4m3, Scaling::epilogue),
                           expanded(square, Family::m_grouped, hopper::Storage::e4m3, Scaling::block_1x32),
                           expanded(small, Family::dense, hopper::Storage::e5m2, Scaling::block_1x32),
                           expanded(split, Family::dense, hopper::Storage::e4m3, Scaling::block_1x32),
                           bf16(planner::expanded_bf16_tile, Family::dense, Scaling::none, Scaling::factor),
                           bf16(small, Family::m_grouped, Scaling::none, Scaling::factor),
                           bf16(split, Family::dense, Scaling::none, Scaling::factor),
                           bf16(small, Family::dense, Scaling::none, Scaling::alpha),
                           bf16(planner::expanded_bf16_tile, Family::m_grouped, Scaling::none, Scaling::alpha),
                           bf16(split, Family::dense, Scaling::alpha, Scaling::alpha),
                           bf16(square, Family::m_grouped, Scaling::alpha, Scaling::factor)};

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

/// No row is wide; some have blocks of zeros with any scale, and scales of NaN.
constexpr FarScales far_scales[] = {{},
                                    {.one_row_in = 1, .spread = 7},
                                    {.one_row_in = 1, .spread = 7, .odd = true},
                                    {.one_row_in = 2, .spread = 5, .odd = true}};
constexpr int bf16_spread = 100;  // with bf16 activations they are further apart

Recipe recipe(const char* text) { return parse_recipe(text).value(); }

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const Recipe blocks = recipe("1x128:mxfp4"), of_powers = recipe("1x128.ue8m0:mxfp4");
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets, masked = Grouping::m_grouped_masked;
    const Grouping indices = Grouping::m_grouped_indices, aligned = Grouping::m_grouped_aligned_offsets;
    return {
        {0, {.recipe = blocks, .m = 70, .n = 200, .k = 544}},
        {0, {.recipe = of_powers, .m = 33, .n = 130, .k = 1162}},
        {0, {.grouping = batched, .recipe = blocks, .layout = Layout::tt, .m = 48, .n = 66, .k = 160, .groups = 3}},
        {1, {.recipe = blocks, .m = 17, .n = 72, .k = 1056}},
        {1, {.recipe = of_powers, .m = 5, .n = 1, .k = 514}},
        {2, {.grouping = ends, .recipe = blocks, .m = 150, .n = 136, .k = 320, .groups = 3}},
        {2, {.grouping = masked, .recipe = blocks, .m = 40, .n = 150, .k = 130, .groups = 3}},
        {2, {.grouping = indices, .recipe = of_powers, .m = 90, .n = 200, .k = 106, .groups = 4}},
        {2, {.grouping = aligned, .recipe = blocks, .m = 90, .n = 64, .k = 2, .groups = 3, .alignment = 16}},
        {3, {.recipe = recipe("e5m2.1x128:mxfp4"), .m = 70, .n = 136, .k = 288}},
        {4, {.grouping = ends, .recipe = recipe("row:mxfp4"), .m = 150, .n = 72, .k = 320, .groups = 3}},
        {4, {.grouping = masked, .recipe = recipe("tensor:mxfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {5, {.recipe = recipe("row:mxfp4"), .m = 17, .n = 72, .k = 1056}},
        {6, {.grouping = ends, .recipe = recipe("mxfp8:mxfp4"), .m = 150, .n = 136, .k = 640, .groups = 3}},
        {6, {.grouping = masked, .recipe = recipe("mxfp8:mxfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {7, {.recipe = recipe("e5m2.1x32:mxfp4"), .m = 70, .n = 200, .k = 544}},
        {7, {.grouping = batched, .recipe = recipe("e5m2.1x32:mxfp4"), .m = 48, .n = 66, .k = 160, .groups = 3}},
        {8, {.recipe = recipe("mxfp8:mxfp4"), .m = 17, .n = 72, .k = 1056}},
        {9, {.recipe = recipe("bf16:mxfp4"), .m = 135, .n = 328, .k = 2880}},
        {9, {.grouping = batched, .recipe = recipe("bf16:mxfp4"), .m = 48, .n = 66, .k = 162, .groups = 3}},
        {10, {.grouping = ends, .recipe = recipe("bf16:mxfp4"), .m = 150, .n = 136, .k = 320, .groups = 3}},
        {10, {.grouping = masked, .recipe = recipe("bf16:mxfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {10, {.grouping = indices, .recipe = recipe("bf16:mxfp4"), .m = 90, .n = 200, .k = 106, .groups = 4}},
        {11, {.recipe = recipe("bf16:mxfp4"), .m = 17, .n = 72, .k = 1056}},
        {11, {.recipe = recipe("bf16:mxfp4"), .m = 5, .n = 1, .k = 514}},
        {12, {.recipe = recipe("bf16:nvfp4"), .m = 70, .n = 200, .k = 720}},
        {12, {.grouping = batched, .recipe = recipe("bf16:nvfp4"), .m = 48, .n = 66, .k = 144, .groups = 3}},
        {13, {.grouping = ends, .recipe = recipe("bf16:nvfp4"), .m = 150, .n = 328, .k = 336, .groups = 3}},
        {13, {.grouping = masked, .recipe = recipe("bf16:nvfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {13, {.grouping = indices, .recipe = recipe("bf16:nvfp4"), .m = 90, .n = 200, .k = 106, .groups = 4}},
        {14, {.recipe = recipe("nvfp4:nvfp4"), .m = 17, .n = 72, .k = 1056}},
        {15, {.grouping = ends, .recipe = recipe("nvfp4:mxfp4"), .m = 150, .n = 136, .k = 320, .groups = 3}},
    };
}

CaseSpec with_scales(CaseSpec spec, std::size_t turn) {
    spec.seed = turn + 1;
    spec.far_scales = is_mxfp4(spec.recipe.b) ? far_scales[turn] : FarScales{};
    if (turn > 0 && !multiplies_as_fp8(spec.recipe.a)) spec.far_scales.spread = bf16_spread;
    spec.a_gaps.row = 16 - (a_is_transposed(spec.layout) ? spec.m : spec.k) % 16;
    spec.b_scales_transposed = turn == 2;
    spec.a_scales_transposed = turn % 2 == 1;
    return spec;
}

class Expanded : public testing::TestWithParam<std::size_t> {};

TEST_P(Expanded, HaveTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        CaseSpec call = with_scales(spec, turn);
        call.output = turn == 1 ? Format::f32 : turn == 2 ? Format::f16 : Format::bf16;
        call.with_c = turn == 3;
        call.with_bias = turn == 2;
        call.alpha = turn == 3 ? 0.3F : 1.0F;
        const Conditions run{.sms = 4, .tma = turn % 2 == 0 ? Timing::early : Timing::late, .seed = turn};
        SCOPED_TRACE(launch::describe(kernel.tile) + "\n" + check::describe(call) + "\n" + describe(run));
        ASSERT_EQ(prepared_difference(kernel, call, run, true), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Expanded, testing::Range(std::size_t{0}, calls().size()));

/// A's scales are so small that their products with the factors are subnormal: one after the other they keep all bits.
TEST(Expanded, FactorsMultiplyAfterTheScalesOfRows) {
    std::size_t ran = 0;
    for (const auto& [index, spec] : calls()) {
        const Kernel kernel = kernels()[index];
        if (kernel.run == nullptr || kernel.tile.a.scaling != Scaling::epilogue) continue;
        CaseSpec call = with_scales(spec, 0);
        call.output = Format::f32;
        check::Case test(call);
        Tensor& scales = test.problem().a.scales;
        std::int64_t last = 0;
        for (int i = 0; i < scales.shape.rank(); ++i) last += (scales.shape[i] - 1) * scales.strides[i];
        const auto* const given = static_cast<const float*>(scales.data);
        std::vector<float> small_ones(given, given + last + 1);
        for (float& scale : small_ones) scale *= 0x1p-116F;
        scales.data = small_ones.data();
        SCOPED_TRACE(launch::describe(kernel.tile) + "\n" + check::describe(call));
        EXPECT_EQ(prepared_difference(kernel, test, {.sms = 4}, true), "");
        ++ran;
    }
    if (TILEWRIGHT_LIST_STEP == 1) {
        EXPECT_EQ(ran, 3U);
    }
}

}  // namespace
}  // namespace tilewright::tests
