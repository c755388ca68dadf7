// MXFP4 weights that are packed at each call, on the emulator: the kernels that pack them, for fp8 with room for four
// windows, then the product's, for wide rows, whatever the scales; each bit as the CPU's arithmetic `bit_exact` has it.
// raw_weights_test.cpp has those whose codes stay where they are.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Tile;

constexpr Tile unpacked(Tile tile, Scaling a, Family family) {
    tile.swap_ab = true;
    tile.a.scaling = a;
    tile.b = {.storage = hopper::Storage::windowed_e2m1, .scaling = Scaling::factor};
    tile.family = family;
    return tile;
}

constexpr Tile next_to_bf16(Tile tile, Scaling a, Family family) {
    tile = unpacked(tile, a, family);
    tile.a.storage = hopper::Storage::bf16;
    tile.b.storage = hopper::Storage::wide_mxfp4_bf16;
    tile.mma.promoted = false;
    return tile;
}

constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};
constexpr std::array tiles{
    unpacked(split, Scaling::block_1x128, Family::dense),    unpacked(pair, Scaling::epilogue, Family::dense),
    unpacked(pair, Scaling::block_1x128, Family::m_grouped), unpacked(split, Scaling::block_1x32, Family::dense),
    unpacked(pair, Scaling::block_1x32, Family::m_grouped),  next_to_bf16(split, Scaling::none, Family::dense),
    next_to_bf16(pair, Scaling::none, Family::m_grouped),    next_to_bf16(pair, Scaling::alpha, Family::dense)};

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const Recipe blocks = parse_recipe("1x128:mxfp4").value(), row = parse_recipe("row:mxfp4").value();
    const Recipe mxfp8 = parse_recipe("mxfp8:mxfp4").value(), mxfp4 = parse_recipe("mxfp4:mxfp4").value();
    const Recipe bf16 = parse_recipe("bf16:mxfp4").value(), nvfp4 = parse_recipe("nvfp4:mxfp4").value();
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets;
    const Grouping masked = Grouping::m_grouped_masked;
    return {
        {0, {.recipe = blocks, .m = 5, .n = 72, .k = 544}},
        {0, {.recipe = blocks, .m = 17, .n = 1, .k = 98}},
        {0, {.grouping = batched, .recipe = blocks, .m = 3, .n = 70, .k = 160, .groups = 2}},
        {1, {.recipe = row, .layout = Layout::tt, .m = 37, .n = 200, .k = 258}},
        {1, {.recipe = parse_recipe("tensor:mxfp4").value(), .m = 33, .n = 130, .k = 2}},
        {2, {.grouping = ends, .recipe = blocks, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {2, {.grouping = masked, .recipe = blocks, .m = 20, .n = 150, .k = 130, .groups = 3}},
        {2, {.grouping = masked, .recipe = blocks, .layout = Layout::tt, .m = 20, .n = 66, .k = 288, .groups = 3}},
        {3, {.recipe = mxfp8, .m = 17, .n = 72, .k = 544}},
        {3, {.recipe = mxfp8, .layout = Layout::tt, .m = 5, .n = 72, .k = 1154}},
        {3, {.recipe = mxfp4, .m = 17, .n = 70, .k = 544}},
        {3, {.grouping = batched, .recipe = mxfp4, .layout = Layout::tt, .m = 6, .n = 70, .k = 160, .groups = 2}},
        {4, {.grouping = ends, .recipe = mxfp8, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {4, {.grouping = masked, .recipe = mxfp4, .m = 20, .n = 150, .k = 130, .groups = 3}},
        {4, {.grouping = ends, .recipe = mxfp4, .layout = Layout::tt, .m = 50, .n = 66, .k = 288, .groups = 3}},
        {5, {.recipe = bf16, .m = 17, .n = 200, .k = 544}},
        {5, {.grouping = batched, .recipe = bf16, .m = 3, .n = 70, .k = 160, .groups = 2}},
        {6, {.grouping = ends, .recipe = bf16, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {6, {.grouping = masked, .recipe = bf16, .m = 20, .n = 150, .k = 130, .groups = 3}},
        {7, {.recipe = nvfp4, .layout = Layout::tt, .m = 38, .n = 200, .k = 258}},
        {7, {.grouping = batched, .recipe = nvfp4, .m = 33, .n = 64, .k = 96, .groups = 2}},
    };
}

class Unpacked : public testing::TestWithParam<std::size_t> {};

TEST_P(Unpacked, HaveTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        CaseSpec call = spec;
        call.seed = turn + 1;
        call.far_scales = far_scales[turn];
        const std::int64_t of_16_bytes = spec.recipe.a.values == Format::bf16 ? 8 : 16;
        call.a_gaps.row = of_16_bytes - (a_is_transposed(spec.layout) ? spec.m : spec.k) % of_16_bytes;
        if (turn == 3 && spec.recipe.a.values == Format::e2m1) call.a_gaps.row = 2;
        // Codes at any byte, or 16 at a time, which stay where they are next to fp8.
        const bool may_be_raw = is_fp8(spec.recipe.a.values) && spec.recipe.a.granularity != Granularity::block_1x32;
        call.b_gaps = {.row = turn % 2 == 0 && !may_be_raw ? 0 : 6};
        call.b_scales_transposed = turn == 2;
        const Conditions run{.sms = 4, .tma = turn % 2 == 0 ? Timing::early : Timing::late, .seed = turn};
        SCOPED_TRACE(describe(kernel, call, run));
        ASSERT_EQ(prepared_difference(kernel, call, run), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Unpacked, testing::Range(std::size_t{0}, calls().size()));

TEST(UnpackedWeights, WithoutKOrRows) {
    const Kernel kernel = kernels()[0];
    CaseSpec spec{.recipe = parse_recipe("1x128:mxfp4").value(), .m = 5, .n = 72, .k = 0, .with_c = true};
    spec.b_gaps.row = 6;
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
    spec.k = 256;
    spec.m = 0;
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
}

}  // namespace
}  // namespace tilewright::tests
