// Kernels for 1x32 scales, on both sides or next to other scales of fp8, of operands in shared memory, on the emulator:
// each bit as the CPU's arithmetic `bit_exact` has it.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "emulator/special_scales.h"
#include "launch/tile_code.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::Distribution;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

constexpr Tile steps(Tile tile, Family family = Family::dense, Storage a = Storage::e4m3, Storage b = Storage::e4m3) {
    tile.a = {.storage = a, .scaling = Scaling::block_1x32};
    tile.b = {.storage = b, .scaling = Scaling::block_1x32};
    tile.family = family;
    return tile;
}

/// Scales of one side that steps repeat.
constexpr Tile with_repeated_a(Tile tile) {
    tile.a.scaling = Scaling::repeated;
    return tile;
}
constexpr Tile with_repeated_b(Tile tile) {
    tile.b.scaling = Scaling::repeated;
    return tile;
}

constexpr auto tiles = [] {
    constexpr Tile small{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 4};
    constexpr Tile pair{.shape = {.m = 128, .n = 48}, .stages = 3};
    constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 3};  // two subtiles
    constexpr Tile uneven{.shape = {.m = 128, .n = 72}, .stages = 3};
    constexpr Tile few{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 4, .swap_ab = true};
    constexpr Tile tokens{.shape = {.m = 128, .n = 40}, .stages = 3, .swap_ab = true};
    constexpr Tile tall{.shape = {.m = 256, .n = 96}, .stages = 2};  // two halves and two subtiles
    constexpr Tile lone{.shape = {.m = 128, .n = 24, .warpgroups = 1}, .stages = 3};
    constexpr Tile split{
        .shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .swap_ab = true, .cluster = hopper::split_k(4)};
    constexpr Family grouped = Family::m_grouped;
    return std::array{
        steps(small, Family::dense, Storage::e5m2),
        steps(pair, grouped),
        steps(square),
        steps(uneven, grouped, Storage::e4m3, Storage::e5m2),
        steps(tall, grouped),
        steps(lone, Family::dense, Storage::e4m3, Storage::e5m2),
        steps(few),
        steps(tokens, grouped),
        steps(split, Family::dense, Storage::e4m3, Storage::e5m2),
        with_repeated_a(steps(pair, grouped)),
        with_repeated_a(steps(split, Family::dense, Storage::e5m2)),
        with_repeated_a(steps(tall)),
        with_repeated_b(steps(uneven, Family::dense, Storage::e4m3, Storage::e5m2)),
        with_repeated_b(steps(tokens, grouped)),
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

/// One kernel serves all scales that are repeated.
std::string side_of(const hopper::OperandSpec& side, int turn, bool of_b) {
    constexpr const char* others[] = {"1x128", "row", "1x128.ue8m0", "tensor"};
    const std::string values = side.storage == Storage::e5m2 ? "e5m2." : "";
    if (side.scaling == Scaling::block_1x32) return values + "1x32";
    return values + (of_b && turn == 2 ? "128x128" : others[turn]);
}

std::string recipe_of(const Tile& tile, int turn) {
    return side_of(tile.a, turn, false) + ":" + side_of(tile.b, turn, true);
}

/// Rows, columns and k that fill no tile, and scales in both orders.
CaseSpec call(const Tile& tile, int turn) {
    constexpr Distribution distributions[] = {Distribution::normal, Distribution::abs_normal, Distribution::outliers,
                                              Distribution::distinct_scales};
    constexpr std::int64_t ks[] = {96, 4 * 128 + 33, 1, 256};
    return {.grouping = grouping_of_turn(tile, turn),
            .recipe = parse_recipe(recipe_of(tile, turn)).value(),
            .output = turn % 2 == 0 ? Format::bf16 : Format::f32,
            .m = d_rows(tile) + (turn % 2 == 0 ? 5 : -3),
            .n = d_columns(tile) + (turn % 2 == 0 ? 24 : -5),
            .k = ks[turn % 4],
            .groups = is_grouped(tile) || turn % 2 == 1 ? 3 : 1,
            .alignment = 8,
            .distribution = distributions[turn % 4],
            .seed = static_cast<std::uint64_t>(turn),
            .with_c = turn == 1,
            .with_bias = turn == 3,
            .alpha = turn == 1 ? 0.5F : 1.0F,
            .a_gaps = {.row = 16 - ks[turn % 4] % 16},
            .b_gaps = {.row = 32 - ks[turn % 4] % 16},
            .a_scales_transposed = turn % 2 == 1,
            .b_scales_transposed = turn / 2 % 2 == 1};
}

class StepwiseKernels : public testing::TestWithParam<std::size_t> {};

TEST_P(StepwiseKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = kernels()[GetParam()];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (int turn = 0; turn < 4; ++turn) {
        const Conditions run = mixed_conditions(turn + static_cast<int>(GetParam()));
        ASSERT_EQ(wrong(kernel, call(kernel.tile, turn), run), "");
    }
}

TEST_P(StepwiseKernels, TakeManyWavesAndNothing) {
    const Kernel kernel = kernels()[GetParam()];
    if (kernel.run == nullptr) GTEST_SKIP();
    CaseSpec many = call(kernel.tile, 0), no_k = many, no_rows = many;
    many.m = 2 * d_rows(kernel.tile) + 4;
    many.n = 3 * d_columns(kernel.tile);
    no_k.k = 0;
    no_rows.m = 0;
    for (const CaseSpec& spec : {many, no_k, no_rows}) {
        EXPECT_EQ(wrong(kernel, spec, {.sms = 2, .tma = Timing::late, .wgmma = Timing::late}), "");
    }
}

/// Rows are whole words, which are loaded one, two or four at a time, or those of one operand alone are.
TEST_P(StepwiseKernels, LoadWordsOfCodes) {
    const Kernel kernel = kernels()[GetParam()];
    if (kernel.run == nullptr) GTEST_SKIP();
    int turn = 0;
    for (const std::int64_t k : {512, 640, 768, 1024, 1152, 224}) {
        CaseSpec spec = call(kernel.tile, turn % 2 == 0 ? 0 : 3);
        spec.k = k;
        spec.a_gaps = spec.b_gaps = {};
        spec.a_scales_transposed = k == 768;
        check::Case test(spec);
        const auto a = with_special_scales(test.problem().a.scales, 1),
                   b = with_special_scales(test.problem().b.scales, 2);
        EXPECT_EQ(difference(kernel, test, mixed_conditions(turn++)), "") << launch::describe(kernel.tile) << "\n"
                                                                          << check::describe(spec);
    }
}

INSTANTIATE_TEST_SUITE_P(All, StepwiseKernels, testing::Range(std::size_t{0}, tiles.size()));

}  // namespace
}  // namespace tilewright::tests
