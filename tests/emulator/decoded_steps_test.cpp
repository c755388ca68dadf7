// 1x32 scales of what was decoded to bf16 before, on the emulator: MXFP8 weights next to bf16 and NVFP4, and MXFP8
// activations next to NVFP4 weights; each bit as the CPU's arithmetic `bit_exact` has it, with NaN outside of the
// operands.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"
#include "emulator/special_scales.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::Distribution;
using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

/// Weights by 1x32.
constexpr Tile weights(Tile tile, Scaling a, Family family = Family::dense) {
    tile.a = {.storage = Storage::bf16, .scaling = a};
    tile.b = {.storage = Storage::bf16, .scaling = Scaling::block_1x32};
    tile.mma.promoted = false;
    tile.family = family;
    tile.shape.k = stage_k(tile);
    return tile;
}

/// Tokens by 1x32.
constexpr Tile tokens(Tile tile, Family family = Family::dense) {
    tile.swap_ab = true;
    tile.a = {.storage = Storage::bf16, .scaling = Scaling::block_1x32};
    tile.b = {.storage = Storage::packed_nvfp4_bf16, .scaling = Scaling::none};
    tile.mma.promoted = false;
    tile.family = family;
    return tile;
}

constexpr Scaling none = Scaling::none, alpha = Scaling::alpha;
constexpr Family grouped = Family::m_grouped;
constexpr Tile small{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 4};
constexpr Tile pair{.shape = {.m = 128, .n = 48}, .stages = 3};
constexpr Tile tall{.shape = {.m = 256, .n = 96}, .stages = 3};  // two halves and two subtiles
constexpr Tile few{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 3, .swap_ab = true};
constexpr Tile split{
    .shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .swap_ab = true, .cluster = hopper::split_k(4)};
constexpr Tile broad{.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 2};

constexpr std::array tiles{
    weights(small, none),           // 0
    weights(pair, none, grouped),   // 1
    weights(tall, alpha),           // 2
    weights(split, none),           // 3
    weights(pair, alpha, grouped),  // 4
    tokens(few),                    // 5
    tokens(split),                  // 6
    tokens(broad),                  // 7: narrower wgmmas
    tokens(few, grouped),           // 8
};
static_assert(subtiles_per_warpgroup(tiles[2]) == 4 && wgmmas_along_n(tiles[7]) > 1);

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const auto recipe = [](const char* text) { return parse_recipe(text).value(); };
    const Recipe bf16 = recipe("bf16:mxfp8"), e5m2 = recipe("bf16:e5m2.1x32"), nvfp4 = recipe("nvfp4:mxfp8");
    const Recipe mxfp8 = recipe("mxfp8:nvfp4"), e5m2_tokens = recipe("e5m2.1x32:nvfp4");
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets, masked = Grouping::m_grouped_masked;
    const Grouping indices = Grouping::m_grouped_indices, aligned = Grouping::m_grouped_aligned_offsets;
    const Layout nn = Layout::nn, tt = Layout::tt;
    return {
        {0, {.recipe = bf16, .m = 70, .n = 41, .k = 417}},
        {0, {.grouping = batched, .recipe = e5m2, .layout = nn, .m = 20, .n = 24, .k = 96, .groups = 3}},
        {1, {.grouping = ends, .recipe = bf16, .layout = nn, .m = 150, .n = 100, .k = 160, .groups = 3}},
        {1, {.grouping = masked, .recipe = e5m2, .m = 130, .n = 50, .k = 33, .groups = 3}},
        {1, {.grouping = indices, .recipe = bf16, .m = 90, .n = 48, .k = 640, .groups = 3}},
        {2, {.recipe = nvfp4, .m = 260, .n = 100, .k = 352}},
        {3, {.recipe = bf16, .m = 17, .n = 70, .k = 1000}},
        {3, {.recipe = e5m2, .layout = nn, .m = 5, .n = 64, .k = 1}},
        {4, {.grouping = aligned, .recipe = nvfp4, .m = 140, .n = 50, .k = 256, .groups = 3, .alignment = 16}},
        {5, {.recipe = mxfp8, .m = 5, .n = 72, .k = 544}},
        {5, {.grouping = batched, .recipe = e5m2_tokens, .layout = tt, .m = 21, .n = 66, .k = 98, .groups = 2}},
        {6, {.recipe = mxfp8, .layout = tt, .m = 17, .n = 136, .k = 1000}},
        {7, {.recipe = mxfp8, .m = 130, .n = 520, .k = 416}},
        {8, {.grouping = ends, .recipe = e5m2_tokens, .m = 30, .n = 130, .k = 256, .groups = 3}},
        {8, {.grouping = masked, .recipe = mxfp8, .layout = tt, .m = 9, .n = 66, .k = 34, .groups = 3}},
    };
}

/// Rows of bf16 at multiples of 16 bytes; others anywhere. FP4 has two in a byte.
CaseSpec with_gaps(CaseSpec spec, std::size_t turn) {
    const bool bf16 = spec.recipe.a.values == Format::bf16, fp4 = spec.recipe.a.values == Format::e2m1;
    if (bf16) spec.a_gaps.row = 8 - spec.k % 8;
    if (!bf16 && !fp4) spec.a_gaps.row = turn % 2 == 0 ? 8 : 3;
    spec.b_gaps.row = turn % 2 == 0 ? 0 : 6;
    return spec;
}

bool packs(const CaseSpec& spec, std::size_t turn) { return spec.recipe.b.values == Format::e2m1 && turn % 2 == 0; }

class DecodedSteps : public testing::TestWithParam<std::size_t> {};

TEST_P(DecodedSteps, HaveTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    constexpr Distribution distributions[] = {Distribution::outliers, Distribution::abs_normal,
                                              Distribution::distinct_scales};
    for (std::size_t turn = 0; turn < std::size(distributions); ++turn) {
        CaseSpec call = in_turn(with_gaps(spec, turn), turn);
        call.distribution = distributions[turn];
        call.seed = turn + GetParam();
        const Conditions run = conditions_of(turn, turn + GetParam());
        SCOPED_TRACE(describe(kernel, call, run));
        ASSERT_EQ(prepared_difference(kernel, call, run, packs(call, turn)), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, DecodedSteps, testing::Range(std::size_t{0}, calls().size()));

/// Rows of scales are whole words of two codes, of four, of sixteen, or none. (The emulator adds slices as its machine
/// does, whose NaN is another one in f32.)
TEST(DecodedStepsCalls, ScalesOfAnyBits) {
    for (const std::size_t index : {std::size_t{0}, std::size_t{3}, std::size_t{5}}) {
        const Kernel kernel = kernels()[index];
        if (kernel.run == nullptr) continue;
        const Recipe recipe = parse_recipe(index == 5 ? "mxfp8:nvfp4" : "bf16:mxfp8").value();
        const Format output = splits_k(kernel.tile) ? Format::bf16 : Format::f32;
        for (const std::int64_t k : {64, 128, 192, 512, 576, 1024, 1056}) {
            check::Case test({.recipe = recipe, .output = output, .m = 70, .n = 66, .k = k});
            const auto scales = with_special_scales((index == 5 ? test.problem().a : test.problem().b).scales, 1);
            const Conditions run = mixed_conditions(static_cast<int>(k / 64));
            EXPECT_EQ(prepared_difference(kernel, test, run, false), "") << k;
        }
    }
}

TEST(DecodedStepsCalls, WithoutKOrRows) {
    for (const CaseSpec& spec : {CaseSpec{.m = 70, .n = 41, .k = 0}, CaseSpec{.m = 0, .n = 41, .k = 96}}) {
        for (const auto& [index, recipe] : {std::pair{0, "bf16:mxfp8"}, {2, "nvfp4:mxfp8"}, {5, "mxfp8:nvfp4"}}) {
            const Kernel kernel = kernels()[static_cast<std::size_t>(index)];
            CaseSpec call = spec;
            call.recipe = parse_recipe(recipe).value();
            if (kernel.run == nullptr) continue;
            EXPECT_EQ(prepared_difference(kernel, call, {}), "") << recipe;
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
