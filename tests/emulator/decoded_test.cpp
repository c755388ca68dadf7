// Calls whose FP4 activations are decoded before, and NVFP4 weights that are packed at each call, on the emulator: each
// bit as the CPU's arithmetic `bit_exact` has it, with NaN outside of the operands and nothing written outside of the
// workspace.
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
using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

constexpr Tile bf16(Tile tile, Scaling a, Storage weights, Family family = Family::dense) {
    tile.swap_ab = true;
    tile.a = {.storage = Storage::bf16, .scaling = a};
    tile.b = {.storage = weights, .scaling = hopper::packed_scaling(weights)};
    tile.mma.promoted = false;
    tile.family = family;
    return tile;
}

constexpr auto tiles = [] {
    constexpr Storage mxfp4 = Storage::packed_mxfp4_bf16, nvfp4 = Storage::packed_nvfp4_bf16;
    constexpr Family grouped = Family::m_grouped;
    constexpr Tile small{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 4};
    constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
    constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};
    return std::array{
        bf16(small, Scaling::alpha, nvfp4),          // 0
        bf16(split, Scaling::alpha, nvfp4),          // 1
        bf16(pair, Scaling::alpha, nvfp4, grouped),  // 2
        bf16(split, Scaling::alpha, mxfp4),          // 3
        bf16(pair, Scaling::alpha, mxfp4, grouped),  // 4
        bf16(pair, Scaling::none, nvfp4),            // 5
        bf16(small, Scaling::none, nvfp4, grouped),  // 6
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

std::vector<PreparedCall> calls() {
    const auto recipe = [](const char* text) { return parse_recipe(text).value(); };
    const Recipe nvfp4 = recipe("nvfp4:nvfp4"), mixed = recipe("nvfp4:mxfp4"), bf16 = recipe("bf16:nvfp4");
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets, masked = Grouping::m_grouped_masked;
    const Grouping indices = Grouping::m_grouped_indices, aligned = Grouping::m_grouped_aligned_offsets;
    const Layout tt = Layout::tt;
    return {
        {0, false, {.recipe = nvfp4, .m = 5, .n = 72, .k = 544}},
        {0, true, {.recipe = nvfp4, .m = 9, .n = 70, .k = 2 * 1024 + 18}},
        {0, true, {.grouping = batched, .recipe = nvfp4, .layout = tt, .m = 6, .n = 66, .k = 150, .groups = 3}},
        {1, false, {.recipe = nvfp4, .m = 17, .n = 1, .k = 96}},
        {1, true, {.recipe = nvfp4, .layout = tt, .m = 30, .n = 136, .k = 1000}},
        {1, false, {.grouping = batched, .recipe = nvfp4, .m = 3, .n = 70, .k = 160, .groups = 2}},
        {2, false, {.grouping = ends, .recipe = nvfp4, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {2, true, {.grouping = masked, .recipe = nvfp4, .m = 20, .n = 150, .k = 130, .groups = 3}},
        {2, false, {.grouping = masked, .recipe = nvfp4, .layout = tt, .m = 20, .n = 66, .k = 288, .groups = 3}},
        {2, true, {.grouping = indices, .recipe = nvfp4, .m = 40, .n = 130, .k = 96, .groups = 3}},
        {2, true, {.grouping = aligned, .recipe = nvfp4, .m = 60, .n = 130, .k = 96, .groups = 3, .alignment = 16}},
        {3, true, {.recipe = mixed, .m = 17, .n = 200, .k = 1056}},
        {3, true, {.grouping = batched, .recipe = mixed, .layout = tt, .m = 12, .n = 64, .k = 2, .groups = 2}},
        {4, true, {.grouping = ends, .recipe = mixed, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {4, true, {.grouping = masked, .recipe = mixed, .m = 33, .n = 100, .k = 260, .groups = 3}},
        {5, false, {.recipe = bf16, .m = 37, .n = 200, .k = 280}},
        {5, false, {.grouping = batched, .recipe = bf16, .m = 33, .n = 130, .k = 48, .groups = 3}},
        {6, false, {.grouping = masked, .recipe = bf16, .m = 9, .n = 66, .k = 400, .groups = 3}},
        {6, false, {.grouping = ends, .recipe = bf16, .m = 30, .n = 64, .k = 104, .groups = 4}},
    };
}

/// Rows of memory with NaN behind each: codes at any byte or eight at a time, bf16 at multiples of 16 bytes.
CaseSpec with_gaps(CaseSpec spec, std::size_t turn) {
    const bool codes_of_a = spec.recipe.a.values == Format::e2m1, turned = a_is_transposed(spec.layout);
    const std::int64_t row = turned ? spec.m : spec.k;
    spec.a_gaps.row = codes_of_a ? (turn % 2 == 0 ? 8 - row % 8 : 6) : 8 - row % 8;
    spec.b_gaps.row = turn % 2 == 0 ? 0 : 6;
    return spec;
}

class Decoded : public testing::TestWithParam<std::size_t> {};

TEST_P(Decoded, HaveTheCpusBits) {
    const PreparedCall call = calls()[GetParam()];
    const Kernel kernel = kernels()[call.kernel];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    expect_bits_in_turns(kernel, call, with_gaps, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Decoded, testing::Range(std::size_t{0}, calls().size()));

TEST(DecodedCalls, ReadNoByteBehindTheOperands) {
    const Kernel kernel = kernels()[0];
    for (const Layout layout : {Layout::nt, Layout::tt}) {
        CaseSpec spec{.recipe = parse_recipe("nvfp4:nvfp4").value(),
                      .layout = layout,
                      .m = 10,
                      .n = 80,
                      .k = 210,
                      .with_c = true};
        spec.guard_pages = true;
        EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
        EXPECT_EQ(prepared_difference(kernel, spec, {}, true), "");
    }
}

/// ue4m3 has a NaN, 0x7F, whose block is NaN whatever its codes are, and every number but signs.
TEST(DecodedCalls, ScalesOfAnyBits) {
    const Kernel kernel = kernels()[0];
    for (const std::size_t row : {0, 3}) {
        check::Case test({.recipe = parse_recipe("nvfp4:nvfp4").value(),
                          .output = Format::f32,
                          .m = 7,
                          .n = 64,
                          .k = 2048,
                          .distribution = check::Distribution::sparse});
        Tensor& given = test.problem().a.scales;
        const auto* const made = static_cast<const std::uint8_t*>(given.data);
        std::vector<std::uint8_t> scales(made, made + 7 * 128);
        for (std::size_t code = 0; code < 126; ++code) scales[row * 128 + code] = static_cast<std::uint8_t>(code);
        scales[2 * 128] = 0x7F;
        given.data = scales.data();
        EXPECT_EQ(prepared_difference(kernel, test, {}, true), "") << row;
    }
}

/// The same of weights, which were packed before or are by the call. The top bit of ue4m3 does not count.
TEST(DecodedCalls, ScalesOfWeightsOfAnyBits) {
    struct Turn {
        std::size_t kernel;
        const char* recipe;
        bool packs;
    };
    for (const auto& [index, recipe, packs] :
         {Turn{0, "nvfp4:nvfp4", true}, Turn{0, "nvfp4:nvfp4", false}, Turn{5, "bf16:nvfp4", false}}) {
        const Kernel kernel = kernels()[index];
        if (kernel.run == nullptr) continue;  // TILEWRIGHT_LIST_STEP
        constexpr std::size_t columns = 130, rows = 70;
        check::Case test(
            {.recipe = parse_recipe(recipe).value(), .output = Format::f32, .m = 5, .n = rows, .k = columns * 16});
        std::vector<std::uint8_t> scales(rows * columns);
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t column = 0; column < columns; ++column) {
                std::size_t code = (column + row) % 127;  // all numbers
                if (row % 3 == 1) code += column % 2 * 128;
                if (row % 8 == 5 && column % 40 == row % 4) code = column < 64 ? 0x7F : 0xFF;
                scales[row * columns + column] = static_cast<std::uint8_t>(code);
            }
        }
        test.problem().b.scales.data = scales.data();
        EXPECT_EQ(prepared_difference(kernel, test, {.sms = 4}, packs), "") << recipe << (packs ? ", packed" : "");
    }
}

TEST(DecodedCalls, WithoutKOrRows) {
    const Kernel kernel = kernels()[0];
    CaseSpec spec{.recipe = parse_recipe("nvfp4:nvfp4").value(), .m = 5, .n = 72, .k = 0, .with_c = true};
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
    spec.k = 256;
    spec.m = 0;
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
}

}  // namespace
}  // namespace tilewright::tests
