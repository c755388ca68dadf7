// Kernels for groups of k on the emulator: groups that end anywhere and begin aligned, NaN between them, garbage among
// the sizes, each bit as the CPU's arithmetic `bit_exact` has it and nothing else written.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using hopper::Scaling;
using hopper::Tile;
using hopper::Variant;

constexpr Tile of_k(Tile tile, Scaling a, Scaling b, Variant variant) {
    tile.family = hopper::Family::k_grouped;
    tile.a.scaling = a;
    tile.b.scaling = b;
    tile.variant = variant;
    return tile;
}

constexpr auto modes(const Tile& cut) {
    constexpr Scaling end = Scaling::epilogue, row = Scaling::block_1x128, block = Scaling::block_128x128;
    return std::array{
        of_k(cut, end, end, Variant::general),
        of_k(cut, row, row, Variant::general),
        of_k(cut, row, block, Variant::general),
        of_k(cut, row, row, Variant::fast),
        of_k(cut, row, row, Variant::fast_k_major_scales),
        of_k(cut, row, block, Variant::fast_k_major_scales),
    };
}

constexpr auto tiles = [] {
    constexpr Tile alone{.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 4};
    constexpr Tile unpromoted{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .mma = {.promoted = false}};
    constexpr Tile swapped{.shape = {.m = 64, .n = 40, .warpgroups = 1}, .stages = 3, .swap_ab = true};
    // D of f32: one part for each slot, and two.
    constexpr Tile pair{.shape = {.m = 128, .n = 64}, .stages = 3};
    constexpr Tile twice{.shape = {.m = 128, .n = 96, .warpgroups = 1}, .stages = 3};
    return joined(modes(Tile{.shape = {.m = 128, .n = 48}, .stages = 3}),
                  std::array{
                      of_k(alone, Scaling::block_1x128, Scaling::block_128x128, Variant::general),
                      of_k(alone, Scaling::epilogue, Scaling::epilogue, Variant::fast),
                      of_k(unpromoted, Scaling::epilogue, Scaling::epilogue, Variant::general),
                      of_k(swapped, Scaling::block_1x128, Scaling::block_128x128, Variant::general),
                      of_k(pair, Scaling::block_1x128, Scaling::block_1x128, Variant::fast_f32),
                      of_k(pair, Scaling::epilogue, Scaling::epilogue, Variant::fast_f32),
                      of_k(twice, Scaling::block_1x128, Scaling::block_128x128, Variant::fast_f32),
                  });
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_K_GROUPED_STEP, tiles>(); }

Recipe recipe(const Tile& tile, bool tensor) {
    if (tile.a.scaling == Scaling::epilogue) return parse_recipe(tensor ? "tensor:tensor" : "row:row").value();
    return parse_recipe(tile.b.scaling == Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128").value();
}

/// A call that a kernel serves whatever its variant: without C, D bf16 or, if it must be, f32.
CaseSpec base(const Tile& tile) {
    CaseSpec spec{.grouping = Grouping::k_grouped_aligned_offsets,
                  .recipe = recipe(tile, false),
                  .output = stores_f32(tile) ? Format::f32 : Format::bf16,
                  .m = d_rows(tile) + 36,
                  .n = d_columns(tile) + 8,
                  .k = 640,
                  .groups = 5,
                  .a_scales_transposed = !has_k_major_scales(tile),
                  .b_scales_transposed = true};
    if (!tile.mma.promoted) spec.accumulation = Accumulation::unpromoted;
    return spec;
}

/// What the fast variants do not take, on those that do.
void vary(const Tile& tile, std::uint64_t seed, CaseSpec& spec) {
    if (tile.a.scaling == Scaling::epilogue) spec.recipe = recipe(tile, seed % 5 == 0);
    if (is_fast(tile) && !stores_f32(tile)) return;
    spec.output = seed % 3 == 0 && !is_fast(tile) ? Format::bf16 : Format::f32;
    spec.with_c = seed % 3 != 1;
    spec.in_place = spec.with_c && seed % 2 == 0;
    spec.alpha = seed % 4 == 3 ? -0.5F : 1.0F;
    if (is_fast(tile)) {
        spec.a_scales_transposed = spec.b_scales_transposed = seed % 2 == 0;
        return;
    }
    spec.b_scales_transposed = seed % 2 == 0;
    spec.shared_scales = seed % 7 == 0;
}

class KGrouped : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return kernels()[static_cast<std::size_t>(GetParam())]; }

    void expect_right(const CaseSpec& spec, std::uint64_t seed) const {
        ASSERT_EQ(wrong(kernel(), spec, seeded_conditions(seed, 1 + static_cast<int>(seed % 5))), "");
    }
};

TEST_P(KGrouped, EndsAnywhereInAKBlock) {
    CaseSpec spec = base(kernel().tile);
    const std::vector<std::int64_t> sizes{0, 1, 127, 128, 129, 0, 16, 31, 255, 0};
    spec.groups = static_cast<std::int64_t>(sizes.size());
    spec.group_sizes = sizes;
    spec.k = 128 * 10;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        spec.seed = seed + 1;
        vary(kernel().tile, seed, spec);
        expect_right(spec, seed + static_cast<std::uint64_t>(GetParam()));
        if (HasFatalFailure()) return;
    }
}

TEST_P(KGrouped, AnySplit) {
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
    int ran = 0;
    for (int i = 0; i < TILEWRIGHT_K_GROUPED_MIXES; ++i) {
        CaseSpec spec = base(kernel().tile);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 7);
        spec.m = 4 * (1 + static_cast<std::int64_t>(random() % 65));  // a pitch of scales that TMA can take
        spec.n = 8 * (1 + static_cast<std::int64_t>(random() % 12));
        spec.k = 16 * (1 + static_cast<std::int64_t>(random() % 70));
        spec.alignment = random() % 3 == 0 ? 256 : 128;
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        spec.seed = random();
        vary(kernel().tile, random(), spec);
        if (!serves(kernel(), spec)) continue;  // scales whose pitch TMA cannot take
        expect_right(spec, random());
        if (HasFatalFailure()) return;
        ++ran;
    }
    EXPECT_GE(ran, TILEWRIGHT_K_GROUPED_MIXES / 2) << launch::describe(kernel().tile);
}

TEST_P(KGrouped, OneOfManyGroupsAndSizesThatNoOneShouldTrust) {
    constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
    CaseSpec spec = base(kernel().tile);
    spec.m = 20;
    spec.n = 16;
    spec.groups = 70;
    for (const std::size_t hot : {0, 32, 69}) {
        spec.group_sizes.assign(70, 0);
        spec.group_sizes[hot] = 200;
        expect_right(spec, hot);
        if (HasFatalFailure()) return;
    }
    spec.group_sizes.clear();
    spec.groups = 5;
    spec.size_format = Format::i64;
    spec.size_entries = {lowest, 130, 7, highest, -1};
    expect_right(spec, 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, KGrouped,
                         testing::Range(0, static_cast<int>(tiles.size()), TILEWRIGHT_K_GROUPED_STEP));

/// An empty group is C to the sign of its zeros, or zeros, whatever alpha and the scales are.
TEST(KGroupedWithoutK, IsCOrZeros) {
    for (const Kernel& kernel : kernels()) {
        if (kernel.run == nullptr || (is_fast(kernel.tile) && !stores_f32(kernel.tile))) continue;
        for (const bool with_c : {false, true}) {
            CaseSpec spec = base(kernel.tile);
            spec.output = Format::f32;
            spec.with_c = with_c;
            spec.groups = 2;
            spec.group_sizes = {0, 0};
            check::Case test(spec);
            Problem& p = test.problem();
            p.alpha = std::numeric_limits<float>::quiet_NaN();
            const std::int64_t elements = 2 * spec.m * spec.n;
            if (with_c) std::fill_n(static_cast<float*>(p.c.data), elements, -0.0F);
            const hopper::KernelReport report = run_on_emulator(kernel, test.geometry(), {});
            EXPECT_EQ(report.producer.word | report.consumer.word, 0U);
            for (std::int64_t i = 0; i < elements; ++i) {
                const float given = static_cast<const float*>(p.d.data)[i];
                ASSERT_EQ(given, 0.0F) << launch::describe(kernel.tile);
                ASSERT_EQ(std::signbit(given), with_c) << launch::describe(kernel.tile);
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
