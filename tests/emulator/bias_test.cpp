// A bias on the emulator: general kernels of each way to memory, dense, batched and grouped, each bit as the CPU's
// arithmetic `bit_exact` has it. Groups without rows have a bias of NaN, and NaN is around all others. MXFP8, decoded
// activations, wide rows, and weights that are not packed or expanded have one in some turns of the tests of each.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/exact/exact.h"
#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"
#include "plan/variant.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::split_k;
using hopper::Storage;
using hopper::Tile;

constexpr Tile with(Tile tile, Scaling a, Scaling b, Family family) {
    tile.a.scaling = a;
    tile.b.scaling = b;
    tile.family = family;
    return tile;
}

constexpr Tile packed(Tile tile, Storage activations, Storage weights, Family family) {
    tile.swap_ab = true;
    tile.a = {.storage = activations, .scaling = activations == Storage::bf16 ? Scaling::none : Scaling::epilogue};
    tile.b = {.storage = weights, .scaling = hopper::packed_scaling(weights)};
    tile.mma.promoted = activations != Storage::bf16;
    tile.family = family;
    return tile;
}

constexpr Scaling rows = Scaling::epilogue, blocks = Scaling::block_1x128, squares = Scaling::block_128x128;
constexpr Family dense = Family::dense, grouped = Family::m_grouped;
constexpr Tile two{.shape = {.m = 128, .n = 48}, .stages = 3};
constexpr Tile one{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3};
constexpr Tile swapped{.shape = {.m = 64, .n = 24, .warpgroups = 1}, .stages = 3, .swap_ab = true};
constexpr Tile slices{.shape = {.m = 128, .n = 16}, .stages = 3, .swap_ab = true, .cluster = split_k(2)};
constexpr Tile tall_slices{.shape = {.m = 64, .n = 48, .warpgroups = 1}, .stages = 3, .cluster = split_k(2)};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};

std::vector<Kernel> kernels() {
    std::vector<Kernel> list;
    add<with(two, blocks, squares, dense)>(list);
    add<with(swapped, rows, rows, dense)>(list);
    add<with(slices, blocks, squares, dense)>(list);
    add<with(tall_slices, rows, rows, dense)>(list);
    add<with(one, blocks, squares, grouped)>(list);
    add<with(swapped, blocks, blocks, grouped)>(list);
    add<with(slices, rows, rows, grouped)>(list);
    add<packed(pair, Storage::e4m3, Storage::packed_e2m1, grouped)>(list);
    add<packed(pair, Storage::bf16, Storage::packed_mxfp4_bf16, grouped)>(list);
    add<packed(pair, Storage::bf16, Storage::packed_nvfp4_bf16, dense)>(list);
    return list;
}

constexpr int kernel_count = 10;

Recipe recipe_of(const Tile& tile) {
    switch (tile.b.storage) {
        case Storage::packed_e2m1: return parse_recipe("row:mxfp4").value();
        case Storage::packed_mxfp4_bf16: return parse_recipe("bf16:mxfp4").value();
        case Storage::packed_nvfp4_bf16: return parse_recipe("bf16:nvfp4").value();
        default: break;
    }
    if (tile.a.scaling == rows) return parse_recipe("row:row").value();
    return parse_recipe(tile.b.scaling == blocks ? "1x128:1x128" : "1x128:128x128").value();
}

constexpr Grouping groupings[] = {Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::m_grouped_indices,
                                  Grouping::m_grouped_aligned_offsets};
constexpr Format outputs[] = {Format::bf16, Format::f32, Format::f16};

/// Every output with either format of the bias in six turns, shared by the groups or not, in any strides.
CaseSpec call(const Tile& tile, int turn) {
    const bool in_groups = is_grouped(tile) || turn % 2 == 1;
    return {.grouping = is_grouped(tile) ? groupings[turn % 4]
                        : in_groups      ? Grouping::batched
                                         : Grouping::dense,
            .recipe = recipe_of(tile),
            .output = outputs[turn % 3],
            .m = d_rows(tile) + 5,
            .n = d_columns(tile) + 22,
            .k = turn % 2 == 0 ? 96 : 400,
            .groups = in_groups ? 4 : 1,
            .alignment = 8,
            .seed = static_cast<std::uint64_t>(turn),
            .with_bias = true,
            .shared_bias = turn == 4,
            .bias_format = turn < 3 ? Format::f32 : Format::bf16,
            .alpha = turn % 2 == 0 ? 1.0F : -0.37F,
            .d_gaps = {.row = turn % 2 == 0 ? 3 : 0},
            .bias_gaps = {.element = turn % 3, .row = turn}};
}

constexpr int turns = 6;

class BiasKernels : public testing::TestWithParam<int> {};

TEST_P(BiasKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (int turn = 0; turn < turns; ++turn) {
        const CaseSpec spec = call(kernel.tile, turn);
        const Conditions run{.sms = 2 + turn % 3,
                             .tma = turn % 2 == 0 ? Timing::early : Timing::late,
                             .wgmma = turn % 3 == 0 ? Timing::late : Timing::early,
                             .seed = static_cast<std::uint64_t>(turn)};
        ASSERT_EQ(wrong(kernel, spec, run), "");
    }
}

/// D is the bias, whatever alpha is, to the sign of its zeros.
TEST_P(BiasKernels, ReturnItWhereThereIsNoK) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (const float alpha : {1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()}) {
        CaseSpec spec = call(kernel.tile, 0);
        spec.k = 0;
        spec.output = Format::f32;
        spec.alpha = alpha;
        if (has_packed_weights(kernel.tile)) return;  // packed_test.cpp has weights without k
        check::Case test(spec);
        auto* const bias = static_cast<float*>(test.problem().bias.data);
        for (std::int64_t i = 0; i < spec.groups * spec.n; i += 2) bias[i] = -0.0F;
        const auto result = [&](const auto& backend) {
            test.reset_output();
            backend(test.geometry());
            return test.output();
        };
        const auto expected = result([](const Geometry& g) { cpu::run_exact(g, {.threads = 1}); });
        const auto given = result([&](const Geometry& g) { run_on_emulator(kernel, g, {.sms = 2}); });
        ASSERT_EQ(given, expected) << launch::describe(kernel.tile) << ", alpha " << alpha;
        ASSERT_EQ(test.output_bits(0, 0, 0), std::bit_cast<std::uint32_t>(-0.0F));
    }
}

INSTANTIATE_TEST_SUITE_P(All, BiasKernels, testing::Range(0, kernel_count));

TEST(BiasKernels, AreAsManyAsTheSuiteRuns) { EXPECT_EQ(kernels().size(), static_cast<std::size_t>(kernel_count)); }

/// What makes the tests above able to fail: the kernel reads the bias of the row's group, and of no other.
TEST(BiasKernels, ReadTheBiasOfTheGroup) {
    const Kernel kernel = kernels()[4];
    CaseSpec spec = call(kernel.tile, 0);
    spec.group_sizes = {20, 0, 30, 19};
    spec.bias_gaps = {};
    check::Case test(spec);
    const auto bits_of = [&] {
        test.reset_output();
        run_on_emulator(kernel, test.geometry(), {.sms = 2});
        return test.output();
    };
    const auto before = bits_of();
    const Tensor& bias = test.problem().bias;
    auto* const of_group_2 = static_cast<float*>(bias.data) + 2 * bias.strides[0];
    of_group_2[7] += 1000;
    const auto changed = bits_of();
    EXPECT_NE(before, changed);
    test.set_output(changed);
    std::array<std::uint32_t, 69> now{};
    for (std::size_t row = 0; row < now.size(); ++row)
        now[row] = test.output_bits(0, static_cast<std::int64_t>(row), 7);
    test.set_output(before);
    for (int row = 0; row < 69; ++row) {
        const bool of_group = row >= 20 && row < 50;
        EXPECT_EQ(test.output_bits(0, row, 7) != now[static_cast<std::size_t>(row)], of_group) << row;
    }
}

}  // namespace
}  // namespace tilewright::tests
