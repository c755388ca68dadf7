// NVFP4 weights next to fp8 activations, which are decoded to bf16 before, on the emulator: scales of rows and of the
// tensor wait for the end, 1x128 ones promote each k-block; each bit as the CPU's arithmetic `bit_exact` has it, with
// NaN outside of the operands.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"
#include "formats/codec.h"
#include "problem/preparation.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

constexpr Tile decoded(Tile tile, Scaling a, Family family = Family::dense) {
    tile.swap_ab = true;
    tile.a = {.storage = Storage::bf16, .scaling = a};
    tile.b = {.storage = Storage::packed_nvfp4_bf16, .scaling = Scaling::none};
    tile.mma.promoted = false;
    tile.family = family;
    return tile;
}

constexpr Scaling end = Scaling::epilogue, blocks = Scaling::block_1x128;
constexpr Tile small{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 3};
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile halves{.shape = {.m = 256, .n = 24}, .stages = 2};  // 128 rows a warpgroup
constexpr Tile broad{.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 2};

constexpr std::array tiles{
    decoded(small, blocks),                      // 0: two partial accumulators
    decoded(split, blocks),                      // 1
    decoded(halves, blocks, Family::m_grouped),  // 2
    decoded(split, end),                         // 3
    decoded(broad, blocks),                      // 4: narrower wgmmas
    decoded(broad, end, Family::m_grouped),      // 5
    decoded(small, blocks, Family::m_grouped),   // 6
    decoded(halves, end),                        // 7
};
static_assert(partials_in_flight(tiles[0]) == 2 && partials_in_flight(tiles[1]) == 1);
static_assert(wgmmas_along_n(tiles[4]) > 1 && wgmmas_along_n(tiles[5]) == 1);

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

std::vector<PreparedCall> calls() {
    const auto recipe = [](const char* text) { return parse_recipe(text).value(); };
    const Recipe by_128 = recipe("1x128:nvfp4"), powers = recipe("1x128.ue8m0:nvfp4"),
                 e5m2 = recipe("e5m2.1x128:nvfp4");
    const Recipe row = recipe("row:nvfp4"), tensor = recipe("tensor:nvfp4"), e5m2_row = recipe("e5m2.row:nvfp4");
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets, masked = Grouping::m_grouped_masked;
    const Grouping indices = Grouping::m_grouped_indices, aligned = Grouping::m_grouped_aligned_offsets;
    const Layout tt = Layout::tt;
    return {
        {0, true, {.recipe = by_128, .m = 5, .n = 72, .k = 544}},
        {0, false, {.recipe = e5m2, .layout = tt, .m = 21, .n = 70, .k = 18}},
        {0, true, {.grouping = batched, .recipe = powers, .layout = tt, .m = 6, .n = 66, .k = 300, .groups = 3}},
        {1, true, {.recipe = powers, .m = 17, .n = 136, .k = 1000}},
        {1, false, {.grouping = batched, .recipe = by_128, .m = 3, .n = 70, .k = 160, .groups = 2}},
        {2, true, {.grouping = ends, .recipe = by_128, .m = 50, .n = 300, .k = 400, .groups = 3}},
        {2, false, {.grouping = masked, .recipe = e5m2, .layout = tt, .m = 30, .n = 150, .k = 130, .groups = 3}},
        {2, true, {.grouping = indices, .recipe = powers, .m = 40, .n = 130, .k = 96, .groups = 3}},
        {2, true, {.grouping = aligned, .recipe = by_128, .m = 60, .n = 130, .k = 640, .groups = 3, .alignment = 16}},
        {4, true, {.recipe = by_128, .m = 130, .n = 520, .k = 416}},
        {3, true, {.recipe = row, .m = 17, .n = 200, .k = 1056}},
        {3, false, {.grouping = batched, .recipe = tensor, .layout = tt, .m = 12, .n = 64, .k = 2, .groups = 2}},
        {3, true, {.recipe = tensor, .layout = tt, .m = 33, .n = 70, .k = 700}},
        {5, true, {.grouping = ends, .recipe = e5m2_row, .m = 90, .n = 300, .k = 320, .groups = 3}},
        {5, false, {.grouping = masked, .recipe = row, .m = 33, .n = 100, .k = 260, .groups = 3}},
        {5, true, {.grouping = indices, .recipe = tensor, .layout = tt, .m = 40, .n = 130, .k = 96, .groups = 3}},
        {6, true, {.grouping = masked, .recipe = by_128, .m = 9, .n = 66, .k = 400, .groups = 3}},
        {7, true, {.grouping = batched, .recipe = row, .m = 37, .n = 200, .k = 280, .groups = 2}},
    };
}

/// Rows of memory with NaN behind each: fp8 eight at a time, or from any byte on.
CaseSpec with_gaps(CaseSpec spec, std::size_t turn) {
    const std::int64_t row = a_is_transposed(spec.layout) ? spec.m : spec.k;
    spec.a_gaps.row = turn % 2 == 0 ? 8 - row % 8 : 3;
    spec.b_gaps.row = turn % 2 == 0 ? 0 : 6;
    return spec;
}

class Fp8NextToNvfp4 : public testing::TestWithParam<std::size_t> {};

TEST_P(Fp8NextToNvfp4, HasTheCpusBits) {
    const PreparedCall call = calls()[GetParam()];
    const Kernel kernel = kernels()[call.kernel];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    expect_bits_in_turns(kernel, call, with_gaps, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Fp8NextToNvfp4, testing::Range(std::size_t{0}, calls().size()));

/// One row of A has every finite code, of others one has NaN and one each infinity.
TEST(Fp8NextToNvfp4Calls, CodesOfAnyBits) {
    constexpr std::int64_t k = 512;
    for (const char* recipe : {"1x128:nvfp4", "e5m2.1x128:nvfp4", "1x128.ue8m0:nvfp4"}) {
        check::Case test({.recipe = parse_recipe(recipe).value(), .output = Format::f32, .m = 16, .n = 64, .k = k});
        Tensor& a = test.problem().a.values;
        const formats::Fields& fields = a.format == Format::e4m3 ? formats::e4m3_fields : formats::e5m2_fields;
        const auto* const made = static_cast<const std::uint8_t*>(a.data);
        std::vector<std::uint8_t> codes(made, made + 16 * k);
        for (int code = 0; code < 256; ++code) {
            const bool finite = std::isfinite(formats::decode(fields, static_cast<hopper::u32>(code)));
            codes[static_cast<std::size_t>(3 * k + code)] = static_cast<std::uint8_t>(finite ? code : 0);
        }
        codes[5 * k + 300] = 0xFF;
        codes[6 * k + 100] = 0xFC;
        codes[7 * k + 511] = 0x7C;
        a.data = codes.data();
        EXPECT_EQ(prepared_difference(kernels()[0], test, {}, true), "") << recipe;
    }
}

/// Its scales are each group's own.
TEST(Fp8NextToNvfp4Calls, AMatrixThatAllGroupsShareIsDecodedOnce) {
    check::Case test({.grouping = Grouping::batched,
                      .recipe = parse_recipe("1x128:nvfp4").value(),
                      .m = 6,
                      .n = 66,
                      .k = 160,
                      .groups = 3});
    test.problem().a.values.strides[0] = 0;
    EXPECT_EQ(preparation(test.geometry()).decoding->matrices, 1);
    EXPECT_EQ(prepared_difference(kernels()[0], test, {}, true), "");
}

TEST(Fp8NextToNvfp4Calls, WithoutKOrRows) {
    const Kernel kernel = kernels()[0];
    CaseSpec spec{.recipe = parse_recipe("1x128:nvfp4").value(), .m = 5, .n = 72, .k = 0, .with_c = true};
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
    spec.k = 256;
    spec.m = 0;
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
}

TEST(Fp8NextToNvfp4Calls, ReadNoByteBehindTheOperands) {
    for (const Layout layout : {Layout::nt, Layout::tt}) {
        CaseSpec spec{.recipe = parse_recipe("1x128:nvfp4").value(), .layout = layout, .m = 10, .n = 80, .k = 210};
        spec.guard_pages = true;
        EXPECT_EQ(prepared_difference(kernels()[0], spec, {}, true), "");
    }
}

}  // namespace
}  // namespace tilewright::tests
