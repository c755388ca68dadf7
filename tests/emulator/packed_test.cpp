// Kernels that take packed MXFP4 weights, on the emulator: each bit as the CPU's arithmetic `bit_exact` has it; and
// those for wide rows, whatever the scales.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "formats/packed_layout.h"
#include "launch/tile_code.h"
#include "problem/canonical_order.h"

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
using hopper::Variant;

template <Storage storage = Storage::packed_e2m1>
constexpr Tile packed(Tile tile, Scaling a, Variant variant, Family family = Family::dense) {
    tile.swap_ab = true;
    tile.a.scaling = a;
    tile.b = {.storage = storage, .scaling = Scaling::factor};
    tile.variant = variant;
    tile.family = family;
    return tile;
}

constexpr Scaling rows = Scaling::epilogue, blocks = Scaling::block_1x128, steps = Scaling::block_1x32;
constexpr Variant fast = Variant::fast, general = Variant::general, k_major = Variant::fast_k_major_scales;
constexpr Family grouped = Family::m_grouped;
constexpr Tile small{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 4};
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};
constexpr Tile deep{.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 2};  // several wgmmas along n
constexpr Tile halves{.shape = {.m = 256, .n = 16}, .stages = 3};                 // 128 rows a warpgroup
constexpr Tile of_e5m2(Tile tile) {
    tile.a.storage = Storage::e5m2;
    return tile;
}
// The next codes are decoded while these are multiplied: of 64 rows a warpgroup, in two wgmmas along n or one, and 128.
constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 3};
constexpr Tile two_along_n{.shape = {.m = 128, .n = 192}, .stages = 3};
constexpr Tile tall{.shape = {.m = 256, .n = 96}, .stages = 3};
constexpr Tile less_wide{.shape = {.m = 128, .n = 160}, .stages = 3};
constexpr Tile narrow{.shape = {.m = 256, .n = 32, .warpgroups = 4}, .stages = 4};
constexpr Tile broad{.shape = {.m = 64, .n = 136, .warpgroups = 1}, .stages = 3};

constexpr std::array tiles{
    packed(small, blocks, fast),
    packed(small, rows, general, grouped),
    packed(split, blocks, fast),
    packed(split, rows, fast),
    packed(pair, blocks, k_major, grouped),
    packed(pair, rows, fast),
    packed(pair, blocks, general),
    packed(deep, blocks, fast, grouped),
    packed(deep, rows, general),
    packed(halves, blocks, fast),
    packed(small, steps, general),
    packed(split, steps, general),
    packed(pair, steps, general, grouped),
    packed(deep, steps, general, grouped),
    packed(of_e5m2(broad), steps, general),
    packed(square, blocks, fast),
    packed(square, rows, general, grouped),
    packed(two_along_n, blocks, k_major, grouped),
    packed(two_along_n, rows, fast),
    packed(tall, blocks, fast, grouped),
    packed(tall, rows, general),
};

static_assert(fills_next(packed(square, blocks, fast)) && fills_next(packed(tall, blocks, fast)) &&
              fills_next(packed(two_along_n, blocks, k_major)) && wgmmas_along_n(packed(two_along_n, rows, fast)) == 2);

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

const char* recipe_of(const Tile& tile, int turn) {
    if (tile.a.scaling == steps) return tile.a.storage == Storage::e5m2 ? "e5m2.1x32:mxfp4" : "mxfp8:mxfp4";
    if (tile.a.scaling == blocks) return "1x128:mxfp4";
    return turn % 3 == 2 ? "tensor:mxfp4" : "row:mxfp4";
}

/// Rows, columns and k that fill no tile, and the last 64 of 128 columns missing or not.
CaseSpec call(const Tile& tile, int turn) {
    const bool by_blocks = tile.a.scaling == blocks, is_general = !is_fast(tile);
    const std::int64_t m = d_rows(tile) + (turn % 2 == 0 ? 5 : -3);
    return {.grouping = grouping_of_turn(tile, turn),
            .recipe = parse_recipe(recipe_of(tile, turn)).value(),
            .output = is_general ? Format::f32 : Format::bf16,
            .m = m,
            .n = turn % 2 == 0 ? 64 + (is_general ? 22 : 24) : d_columns(tile) + 136,
            .k = turn % 3 == 0 ? 96 : 4 * 128 + 32,
            .groups = is_grouped(tile) || turn % 2 == 1 ? 3 : 1,
            .alignment = 8,
            .distribution = turn % 3 == 1 ? Distribution::sparse : Distribution::normal,
            .seed = static_cast<std::uint64_t>(turn),
            .with_c = is_general && turn != 3,
            .with_bias = is_general && turn == 3,
            .alpha = is_general ? 0.75F : 1.0F,
            .a_gaps = {.row = turn % 3 == 0 ? 0 : 16},
            .a_scale_gaps = {.row = by_blocks && !has_k_major_scales(tile) ? (4 - m % 4) % 4 : 0},
            .a_scales_transposed = by_blocks ? !has_k_major_scales(tile) : tile.a.scaling == steps && turn % 2 == 1};
}

class PackedWeightKernels : public testing::TestWithParam<int> {};

TEST_P(PackedWeightKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (int turn = 0; turn < 4; ++turn) {
        ASSERT_EQ(wrong(kernel, call(kernel.tile, turn), mixed_conditions(turn + GetParam())), "");
    }
}

TEST_P(PackedWeightKernels, TakeOneRowManyWavesAndNothing) {
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
    if (kernel.tile.a.scaling == blocks) in_f16.recipe = parse_recipe("1x128.ue8m0:mxfp4").value();
    in_f16.output = Format::f16;
    in_f16.b_scales_transposed = true;
    in_f16.b_gaps = {.row = 48, .group = 16};
    std::uint64_t ran = 0;
    for (const CaseSpec& spec : {one, many, no_k, no_rows, in_f16}) {
        if (!serves(kernel, spec)) continue;
        const Conditions run{.sms = 4, .tma = Timing::late, .wgmma = Timing::late, .seed = ran++};
        EXPECT_EQ(wrong(kernel, spec, run), "");
    }
    EXPECT_GE(ran, is_fast(kernel.tile) ? 2U : 5U) << launch::describe(kernel.tile);
}

INSTANTIATE_TEST_SUITE_P(All, PackedWeightKernels,
                         testing::Range(0, static_cast<int>(tiles.size()), TILEWRIGHT_LIST_STEP));

// ---- Wide rows

constexpr Tile windowed(Tile tile, Scaling a, Variant variant, Family family = Family::dense) {
    return packed<Storage::windowed_e2m1>(tile, a, variant, family);
}

constexpr std::array windowed_tiles{
    windowed(small, blocks, fast),
    windowed(small, rows, general, grouped),
    windowed(split, blocks, fast),
    windowed(split, rows, fast),
    windowed(pair, blocks, k_major, grouped),
    windowed(pair, rows, fast, grouped),
    windowed(deep, blocks, general, grouped),
    windowed(halves, rows, fast),
    windowed(halves, blocks, k_major, grouped),
    windowed(narrow, blocks, fast, grouped),
    windowed(narrow, rows, fast, grouped),
    windowed(narrow, blocks, general),
    windowed(tall, blocks, fast),
    windowed(two_along_n, rows, fast, grouped),
    windowed(less_wide, blocks, fast),
    windowed(small, steps, general),
    windowed(split, steps, general),
    windowed(pair, steps, general, grouped),
    windowed(deep, steps, general, grouped),
};

// The next codes are decoded while those of a window are multiplied, of 64 rows a warpgroup, of 128, in two wgmmas
// along n; or there are no registers for them.
static_assert(fills_next_of_windows(windowed(narrow, blocks, fast)) &&
              fills_next_of_windows(windowed(halves, rows, fast)) &&
              fills_next_of_windows(windowed(less_wide, blocks, fast)) &&
              wgmmas_along_n(windowed(less_wide, blocks, fast)) == 2 &&
              !fills_next_of_windows(windowed(narrow, blocks, general)) &&
              !fills_next_of_windows(windowed(tall, blocks, fast)) &&
              !fills_next_of_windows(windowed(two_along_n, rows, fast)));

std::vector<Kernel> windowed_kernels() { return every<TILEWRIGHT_LIST_STEP, windowed_tiles>(); }

/// One row in a hundred, all rows, two windows in 128 of k or four, scales of NaN, and blocks of zeros.
constexpr FarScales far_scales[] = {{.one_row_in = 1, .spread = 24, .odd = true},
                                    {.one_row_in = 3, .spread = 254, .odd = true},
                                    {.one_row_in = 1, .spread = 50},
                                    {.one_row_in = 100, .spread = 200},
                                    {.one_row_in = 2, .spread = 14}};

CaseSpec windowed_call(const Tile& tile, int turn) {
    CaseSpec spec = call(tile, turn);
    spec.distribution = Distribution::normal;
    spec.far_scales = far_scales[turn % 5];
    return spec;
}

class WindowedKernels : public testing::TestWithParam<int> {};

TEST_P(WindowedKernels, GiveTheBitsOfTheCpu) {
    const Kernel kernel = windowed_kernels()[static_cast<std::size_t>(GetParam())];
    int ran = 0;
    for (int turn = 0; turn < 5; ++turn) {
        const CaseSpec spec = windowed_call(kernel.tile, turn);
        if (!takes(kernel, spec)) continue;  // one row in a hundred of few
        ASSERT_EQ(wrong(kernel, spec, mixed_conditions(turn + GetParam())), "");
        ++ran;
    }
    EXPECT_GE(ran, 4);
}

INSTANTIATE_TEST_SUITE_P(All, WindowedKernels,
                         testing::Range(0, static_cast<int>(windowed_tiles.size()), TILEWRIGHT_LIST_STEP));

/// Device code cannot include the host's headers: it states the exponents of the packed layout and the two halves of a
/// factor once more.
TEST(WindowedKernels, FactorsOfAWindowAreTheCanonicalOrders) {
    EXPECT_FALSE(hopper::window_factors(formats::no_window).given);
    for (int exponent = formats::no_window + 1; exponent <= 127; ++exponent) {
        const hopper::WindowFactors factors = hopper::window_factors(exponent);
        const int half = window_half(exponent);
        EXPECT_TRUE(factors.given);
        EXPECT_EQ(factors.of_sum, std::ldexp(1.0F, half)) << exponent;
        EXPECT_EQ(factors.of_scale, std::ldexp(1.0F, exponent - formats::fp8_top_exponent - half)) << exponent;
    }
    EXPECT_EQ(hopper::window_factors(formats::unit_window).of_sum, 1.0F);
    EXPECT_EQ(hopper::window_factors(formats::unit_window).of_scale, 1.0F);
}

}  // namespace
}  // namespace tilewright::tests
