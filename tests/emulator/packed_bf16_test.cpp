// Kernels that multiply bf16 with packed MXFP4 and NVFP4 weights, on the emulator: each bit as the CPU's arithmetic
// `bit_exact` has it, whatever the scales; and those for wide rows.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/exact/exact.h"
#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"
#include "plan/k_splits.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::Distribution;
using check::FarScales;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

constexpr Tile packed(Tile tile, Storage weights, Family family = Family::dense) {
    tile.swap_ab = true;
    tile.a = {.storage = Storage::bf16, .scaling = Scaling::none};
    tile.b = {.storage = weights, .scaling = hopper::packed_scaling(weights)};
    tile.mma.promoted = false;
    tile.family = family;
    return tile;
}

constexpr Storage mxfp4 = Storage::packed_mxfp4_bf16, nvfp4 = Storage::packed_nvfp4_bf16;
constexpr Storage of_wide_rows = Storage::wide_mxfp4_bf16;
constexpr Family grouped = Family::m_grouped;
constexpr Tile small{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 4};
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};
constexpr Tile wide{.shape = {.m = 128, .n = 64}, .stages = 2};  // several boxes of tokens
constexpr Tile deep{.shape = {.m = 256, .n = 16, .warpgroups = 4}, .stages = 2};
constexpr Tile halves{.shape = {.m = 256, .n = 24}, .stages = 3};                  // 128 rows a warpgroup
constexpr Tile broad{.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 2};  // for wide rows in two wgmmas

constexpr std::array tiles{
    packed(small, mxfp4), packed(small, nvfp4, grouped), packed(split, mxfp4),           packed(split, nvfp4),
    packed(pair, mxfp4),  packed(pair, nvfp4, grouped),  packed(wide, mxfp4, grouped),   packed(deep, mxfp4, grouped),
    packed(deep, nvfp4),  packed(halves, mxfp4),         packed(halves, nvfp4, grouped),
};

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

/// Scales anywhere, NaN and blocks of zeros with any scale among them, and dormant rows: MXFP4's.
constexpr FarScales far_scales[] = {{},
                                    {.one_row_in = 1, .spread = 100, .odd = true},
                                    {.one_row_in = 3, .spread = 100},
                                    {.one_row_in = 2, .spread = 60, .odd = true}};

/// Rows, columns and k that fill no tile, and the last 64 of 128 columns missing or not.
CaseSpec call(const Tile& tile, int turn) {
    constexpr Distribution distributions[] = {Distribution::normal, Distribution::sparse, Distribution::outliers,
                                              Distribution::log_normal};
    // D as most calls have it, by TMA; and with C or a bias, and alpha, in rows that TMA does not store.
    const bool with_c = turn / 2 % 2 == 1, is_mxfp4 = tile.b.storage != nvfp4;
    return {.grouping = grouping_of_turn(tile, turn),
            .recipe = parse_recipe(is_mxfp4 ? "bf16:mxfp4" : "bf16:nvfp4").value(),
            .output = with_c ? Format::f32 : Format::bf16,
            .m = d_rows(tile) + (turn % 2 == 0 ? 5 : -3),
            .n = turn % 2 == 0 ? 64 + (with_c ? 22 : 24) : d_columns(tile) + 136,
            .k = turn % 3 == 0   ? 96
                 : turn % 3 == 1 ? 4 * 128 + 32
                                 : 256 + 80,
            .groups = is_grouped(tile) || turn % 2 == 1 ? 3 : 1,
            .alignment = 8,
            .distribution = distributions[turn % 4],
            .seed = static_cast<std::uint64_t>(turn),
            .with_c = with_c && turn != 3,
            .with_bias = turn == 3,
            .alpha = with_c     ? 0.75F
                     : turn < 4 ? 1.0F
                                : 0.5F,
            .a_gaps = {.row = turn % 3 == 0 ? 0 : 8},
            .far_scales = is_mxfp4 ? far_scales[turn % 4] : FarScales{}};
}

class Bf16WeightKernels : public testing::TestWithParam<int> {};

TEST_P(Bf16WeightKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (int turn = 0; turn < 8; ++turn) {
        ASSERT_EQ(wrong(kernel, call(kernel.tile, turn), mixed_conditions(turn + GetParam())), "");
    }
}

TEST_P(Bf16WeightKernels, TakeOneRowManyWavesAndNothing) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    CaseSpec one = call(kernel.tile, 0), many = one, no_k = one, no_rows = one, in_f16 = call(kernel.tile, 2);
    one.m = 1;
    one.n = 8;
    one.k = 16;
    many.m = 2 * d_rows(kernel.tile) + 4;
    many.n = 3 * d_columns(kernel.tile);
    many.k = 256;
    no_k.k = 0;
    no_rows.m = 0;
    in_f16.output = Format::f16;
    in_f16.b_scales_transposed = true;
    in_f16.b_gaps = {.row = 48, .group = 16};
    std::uint64_t seed = 0;
    for (const CaseSpec& spec : {one, many, no_k, no_rows, in_f16}) {
        if (!serves(kernel, spec)) continue;
        const Conditions run{.sms = 4, .tma = Timing::late, .wgmma = Timing::late, .seed = seed++};
        EXPECT_EQ(wrong(kernel, spec, run), "");
    }
}

/// NaN has one code on a GPU; the host's sum of two infinities has another.
bool same_numbers(const std::vector<std::byte>& left, const std::vector<std::byte>& right) {
    for (std::size_t at = 0; at + sizeof(float) <= left.size(); at += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, &left[at], sizeof a);
        std::memcpy(&b, &right[at], sizeof b);
        if (std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b) && !(a != a && b != b)) return false;
    }
    return true;
}

/// Tokens of any bits but those that `exponents` masks, and no scales beyond those of the call's own distribution.
void expect_bits_of_any_tokens(const Kernel& kernel, CaseSpec spec, unsigned exponents, const Conditions& run) {
    spec.output = Format::f32;
    check::Case test(spec);
    Problem problem = test.problem();
    auto* const tokens = static_cast<std::uint16_t*>(problem.a.values.data);
    const Tensor& a = problem.a.values;
    const int rank = a.shape.rank();
    std::mt19937 random(exponents);
    for (std::int64_t row = 0; row < a.shape[rank - 2] * (rank == 3 ? a.shape[0] : 1); ++row) {
        const std::int64_t group = rank == 3 ? row / a.shape[1] : 0, in_group = rank == 3 ? row % a.shape[1] : row;
        std::uint16_t* const line = tokens + (rank == 3 ? group * a.strides[0] : 0) + in_group * a.strides[rank - 2];
        const unsigned mask = exponents | 0x8000U;
        for (std::int64_t k = 0; k < spec.k; ++k) line[k] = static_cast<std::uint16_t>(random() & mask);
    }
    cpu::run_exact(geometry(problem),
                   cpu::ExactOptions{.threads = 1, .k_splits = planner::k_splits(kernel.tile, spec.k)});
    const std::vector<std::byte> expected = test.output();
    test.reset_output();
    const OwnedPackedWeights weights = pack_weights(problem.b, PackedFor::bf16);
    problem.b = {.packed = weights};
    run_on_emulator(kernel, geometry(problem), run);
    EXPECT_TRUE(same_numbers(test.output(), expected)) << launch::describe(kernel.tile) << " " << exponents;
}

/// NaN, infinities, subnormal numbers, and sums that leave fp32 or nearly so: all; tiny ones; without NaN and
/// infinities.
constexpr unsigned any_tokens[] = {0x7FFFU, 0x0FFFU, 0x7F7FU};

TEST_P(Bf16WeightKernels, TakeAnyTokens) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (const unsigned exponents : any_tokens) {
        CaseSpec spec = call(kernel.tile, 1);
        spec.far_scales = {};
        expect_bits_of_any_tokens(kernel, spec, exponents, mixed_conditions(GetParam()));
    }
}

INSTANTIATE_TEST_SUITE_P(All, Bf16WeightKernels,
                         testing::Range(0, static_cast<int>(tiles.size()), TILEWRIGHT_LIST_STEP));

// ---- Wide rows

constexpr std::array wide_row_tiles{
    packed(small, of_wide_rows),          packed(split, of_wide_rows),         packed(pair, of_wide_rows, grouped),
    packed(wide, of_wide_rows),           packed(deep, of_wide_rows, grouped), packed(halves, of_wide_rows),
    packed(broad, of_wide_rows, grouped),
};

std::vector<Kernel> wide_row_kernels() { return every<TILEWRIGHT_LIST_STEP, wide_row_tiles>(); }

/// All rows, some, one in a hundred; NaN and blocks of zeros among their scales; rows that are nearly wide.
constexpr FarScales wide_scales[] = {{.one_row_in = 1, .spread = 254, .odd = true},
                                     {.one_row_in = 3, .spread = 254, .odd = true},
                                     {.one_row_in = 40, .spread = 200},
                                     {.one_row_in = 1, .spread = 130},
                                     {.one_row_in = 2, .spread = 160, .odd = true}};

class WideRowKernels : public testing::TestWithParam<int> {};

TEST_P(WideRowKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = wide_row_kernels()[static_cast<std::size_t>(GetParam())];
    int ran = 0;
    for (int turn = 0; turn < 10; ++turn) {
        CaseSpec spec = call(kernel.tile, turn);
        spec.distribution = Distribution::normal;
        spec.far_scales = wide_scales[turn % 5];
        if (!takes(kernel, spec)) continue;  // few rows, or few blocks in a row
        ASSERT_EQ(wrong(kernel, spec, mixed_conditions(turn + GetParam())), "");
        ++ran;
    }
    EXPECT_GE(ran, 6);
}

/// Infinite tokens next to wide rows too, whose products with rows of the other kind are undone.
TEST_P(WideRowKernels, TakeAnyTokens) {
    const Kernel kernel = wide_row_kernels()[static_cast<std::size_t>(GetParam())];
    for (const unsigned exponents : any_tokens) {
        CaseSpec spec = call(kernel.tile, 1);
        spec.distribution = Distribution::normal;
        spec.far_scales = {.one_row_in = 2, .spread = 254};
        ASSERT_TRUE(takes(kernel, spec));
        expect_bits_of_any_tokens(kernel, spec, exponents, mixed_conditions(GetParam()));
    }
}

INSTANTIATE_TEST_SUITE_P(All, WideRowKernels,
                         testing::Range(0, static_cast<int>(wide_row_tiles.size()), TILEWRIGHT_LIST_STEP));

/// One of its kernels has narrower wgmmas than those without wide rows.
static_assert(wgmmas_along_n(packed(broad, of_wide_rows)) == 2 && wgmmas_along_n(packed(broad, mxfp4)) == 1);

}  // namespace
}  // namespace tilewright::tests
