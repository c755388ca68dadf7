// Kernels for groups of k that begin anywhere or are one matrix after another, on the emulator: by tensor maps that
// they write, by ordinary loads where TMA cannot, garbage among the sizes, each bit as the CPU's arithmetic `bit_exact`
// has it.
#include <gtest/gtest.h>

#include <array>
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

constexpr Tile mapped(Tile tile, Scaling a, Scaling b, Variant variant) {
    tile.family = hopper::Family::k_mapped;
    tile.a.scaling = a;
    tile.b.scaling = b;
    tile.variant = variant;
    return tile;
}

constexpr auto mapped_tiles = [] {
    constexpr Scaling end = Scaling::epilogue, row = Scaling::block_1x128, block = Scaling::block_128x128;
    constexpr Tile two{.shape = {.m = 128, .n = 48}, .stages = 3};
    constexpr Tile alone{.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 4};
    constexpr Tile pair{.shape = {.m = 128, .n = 64}, .stages = 3};
    return std::array{
        mapped(two, row, row, Variant::general),
        mapped(two, row, row, Variant::fast),
        mapped(two, row, row, Variant::fast_k_major_scales),
        mapped(two, end, end, Variant::general),
        mapped(two, row, block, Variant::fast_k_major_scales),
        mapped(alone, row, block, Variant::general),
        mapped(alone, end, end, Variant::fast),
        mapped(pair, row, row, Variant::fast_f32),
        mapped(pair, end, end, Variant::fast_f32),
    };
}();

std::vector<Kernel> mapped_kernels() { return every<TILEWRIGHT_K_GROUPED_STEP, mapped_tiles>(); }

Recipe mapped_recipe(const Tile& tile) {
    if (tile.a.scaling == Scaling::epilogue) return parse_recipe("row:row").value();
    return parse_recipe(tile.b.scaling == Scaling::block_1x128 ? "1x128:1x128" : "1x128:128x128").value();
}

/// A call that a kernel serves whatever its variant: without C, D bf16 or, if it must be, f32.
CaseSpec mapped_call(const Tile& tile, Grouping grouping) {
    return {.grouping = grouping,
            .recipe = mapped_recipe(tile),
            .output = stores_f32(tile) ? Format::f32 : Format::bf16,
            .m = d_rows(tile) + 36,
            .n = d_columns(tile) + 8,
            .a_scales_transposed = !has_k_major_scales(tile),
            .b_scales_transposed = true};
}

/// What the fast variants do not take, on those that do.
void vary_mapped(const Tile& tile, std::uint64_t seed, CaseSpec& spec) {
    spec.seed = seed + 1;
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
}

void set_sizes(CaseSpec& spec, const std::vector<std::int64_t>& sizes) {
    spec.group_sizes = sizes;
    spec.groups = static_cast<std::int64_t>(sizes.size());
    spec.k = 0;
    for (const std::int64_t size : sizes) spec.k += size;
}

class KMapped : public testing::TestWithParam<int> {
protected:
    Kernel kernel() const { return mapped_kernels()[static_cast<std::size_t>(GetParam())]; }

    void expect_right(const CaseSpec& spec, std::uint64_t seed) const {
        ASSERT_EQ(wrong(kernel(), spec, seeded_conditions(seed, 1 + static_cast<int>(seed % 5))), "");
    }

    void expect_right_of(Grouping grouping, const std::vector<std::int64_t>& sizes) const {
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
            CaseSpec spec = mapped_call(kernel().tile, grouping);
            set_sizes(spec, sizes);
            vary_mapped(kernel().tile, seed, spec);
            expect_right(spec, seed + static_cast<std::uint64_t>(GetParam()));
            if (HasFatalFailure()) return;
        }
    }
};

TEST_P(KMapped, FlatGroupsThatTmaLoads) {
    expect_right_of(Grouping::k_grouped_flat, {0, 16, 112, 128, 144, 0, 1008, 16, 16, 16, 16, 16, 400, 0});
}

TEST_P(KMapped, FlatGroupsThatTmaCannotLoad) {
    expect_right_of(Grouping::k_grouped_flat, {16, 112, 127, 128, 129, 0, 1000, 24, 32, 1});
}

TEST_P(KMapped, GroupsThatBeginAndEndAnywhere) {
    expect_right_of(Grouping::k_grouped, {0, 16, 112, 127, 1, 128, 129, 0, 15, 240, 32});
}

TEST_P(KMapped, AnySplit) {
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
    int ran = 0;
    for (int i = 0; i < TILEWRIGHT_K_GROUPED_MIXES; ++i) {
        CaseSpec spec = mapped_call(kernel().tile, random() % 2 == 0 ? Grouping::k_grouped : Grouping::k_grouped_flat);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 40);
        spec.m = 4 * (1 + static_cast<std::int64_t>(random() % 65));  // a pitch of scales that TMA can take
        spec.n = 8 * (1 + static_cast<std::int64_t>(random() % 12));
        spec.k = 16 * (1 + static_cast<std::int64_t>(random() % 70));
        spec.size_multiple = random() % 2 == 0 ? 16 : 1;
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        vary_mapped(kernel().tile, random() % 1000, spec);
        if (!serves(kernel(), spec)) continue;  // scales whose pitch TMA cannot take
        expect_right(spec, random());
        if (HasFatalFailure()) return;
        ++ran;
    }
    EXPECT_GE(ran, TILEWRIGHT_K_GROUPED_MIXES / 2) << launch::describe(kernel().tile);
}

TEST_P(KMapped, SizesThatNoOneShouldTrust) {
    constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
    for (const Grouping grouping : {Grouping::k_grouped, Grouping::k_grouped_flat}) {
        CaseSpec spec = mapped_call(kernel().tile, grouping);
        spec.m = 20;
        spec.n = 16;
        spec.k = 640;
        spec.groups = 5;
        spec.size_format = Format::i64;
        spec.size_entries = {lowest, 144, 7, highest, -1};
        expect_right(spec, 1);
        if (HasFatalFailure()) return;
        // More columns of scales than there are.
        spec.groups = 70;
        spec.size_entries.assign(70, 1);
        expect_right(spec, 2);
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KMapped,
                         testing::Range(0, static_cast<int>(mapped_tiles.size()), TILEWRIGHT_K_GROUPED_STEP));

}  // namespace
}  // namespace tilewright::tests
