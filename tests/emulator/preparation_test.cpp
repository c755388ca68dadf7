// Calls whose operands are copied along k before, on the emulator: the kernels of the copies, then the product's, each
// bit as the CPU's arithmetic `bit_exact` has it, with NaN in all that is outside of the operands and nothing written
// outside of the workspace.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using hopper::Family;
using hopper::Major;
using hopper::Scaling;
using hopper::Tile;

constexpr Tile scaled(Tile tile, Scaling a, Scaling b) {
    tile.a.scaling = a;
    tile.b.scaling = b;
    return tile;
}

constexpr auto tiles = [] {
    constexpr Scaling end = Scaling::epilogue, row = Scaling::block_1x128, block = Scaling::block_128x128;
    constexpr Scaling none = Scaling::none;
    constexpr Tile narrow{.shape = {.m = 128, .n = 24}, .stages = 3};
    constexpr Tile small{.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 4};
    constexpr Tile weights{
        .shape = {.m = 128, .n = 24}, .stages = 3, .swap_ab = true, .a = {}, .b = {.major = Major::mn}};
    constexpr auto of_family = [](Tile tile, Family family) {
        tile.family = family;
        return tile;
    };
    constexpr auto a_along_m = [](Tile tile) {
        tile.a.major = Major::mn;
        return tile;
    };
    constexpr auto of_e5m2 = [](Tile tile) {
        tile.a.storage = hopper::Storage::e5m2;
        return tile;
    };
    return std::array{
        scaled(weights, row, block),                                // 0: A was copied
        scaled(weights, end, end),                                  // 1: likewise
        scaled(a_along_m(narrow), row, row),                        // 2: B was copied
        scaled(of_family(small, Family::m_grouped), row, block),    // 3: A of layout tt was
        scaled(of_family(weights, Family::m_grouped), row, block),  // 4: A of layout tn was
        scaled(of_family(narrow, Family::k_grouped), row, row),     // 5: both were
        scaled(of_family(narrow, Family::k_mapped), end, end),      // 6: both were
        of_e5m2(scaled(weights, row, block)),                       // 7: A was copied
        scaled(small, Scaling::block_1x32, Scaling::block_1x32),    // 8: both were
        scaled(of_family(narrow, Family::k_grouped), block, none),  // 9: B was copied, codes of forward for wgrad
    };
}();

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

/// Rows of memory begin at multiples of 16 bytes, with NaN behind each.
CaseSpec in_rows_of_16(CaseSpec spec) {
    const auto gap = [](std::int64_t size) { return 16 + (16 - size % 16) % 16; };
    spec.a_gaps.row = gap(a_is_transposed(spec.layout) ? spec.m : spec.k);
    spec.b_gaps.row = gap(b_is_transposed(spec.layout) ? spec.n : spec.k);
    return spec;
}

/// The rows of what is copied begin anywhere.
CaseSpec in_any_rows(std::size_t kernel, CaseSpec spec) {
    const bool of_a = kernel != 2, of_b = kernel == 2 || kernel == 5 || kernel == 6 || kernel == 8 || kernel == 9;
    if (of_a && a_is_transposed(spec.layout)) spec.a_gaps.row += 3;
    if (of_b && b_is_transposed(spec.layout)) spec.b_gaps.row += 5;
    return spec;
}

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const auto recipe = [](const char* text) { return parse_recipe(text).value(); };
    const Layout tn = Layout::tn, tt = Layout::tt;
    const Recipe blocks = recipe("1x128:128x128"), rows = recipe("1x128:1x128"), row = recipe("row:row");
    return {
        {0, {.recipe = blocks, .layout = tn, .m = 29, .n = 150, .k = 421}},
        {0, {.recipe = blocks, .layout = tn, .m = 1, .n = 129, .k = 128}},
        {0, {.grouping = Grouping::batched, .recipe = blocks, .layout = tn, .m = 31, .n = 136, .k = 100, .groups = 3}},
        {7, {.recipe = recipe("e5m2.1x128:e4m3.128x128"), .layout = tn, .m = 33, .n = 200, .k = 257}},
        {1, {.recipe = row, .layout = tn, .m = 130, .n = 140, .k = 300, .with_c = true}},
        {1, {.recipe = recipe("tensor:tensor"), .layout = tn, .m = 17, .n = 131, .k = 17}},
        {2, {.recipe = rows, .layout = tn, .m = 150, .n = 43, .k = 391}},
        {2, {.grouping = Grouping::batched, .recipe = rows, .layout = tn, .m = 137, .n = 26, .k = 161, .groups = 2}},
        {3,
         {.grouping = Grouping::m_grouped_offsets,
          .recipe = blocks,
          .layout = tt,
          .m = 90,
          .n = 70,
          .k = 200,
          .groups = 3}},
        {3,
         {.grouping = Grouping::m_grouped_masked,
          .recipe = blocks,
          .layout = tt,
          .m = 50,
          .n = 40,
          .k = 150,
          .groups = 3}},
        {4,
         {.grouping = Grouping::m_grouped_masked,
          .recipe = blocks,
          .layout = tn,
          .m = 30,
          .n = 144,
          .k = 300,
          .groups = 3}},
        {5,
         {.grouping = Grouping::k_grouped_aligned_offsets,
          .recipe = rows,
          .layout = tn,
          .output = Format::f32,
          .m = 140,
          .n = 52,
          .k = 700,
          .groups = 4,
          .with_c = true}},
        {9,
         {.grouping = Grouping::k_grouped_aligned_offsets,
          .recipe = recipe("128x128:e4m3"),
          .layout = Layout::nn,
          .output = Format::f32,
          .m = 140,
          .n = 52,
          .k = 700,
          .groups = 4,
          .with_c = true}},
        {6, {.grouping = Grouping::k_grouped, .recipe = row, .layout = tn, .m = 130, .n = 41, .k = 401, .groups = 3}},
        {6,
         {.grouping = Grouping::k_grouped,
          .recipe = row,
          .layout = tt,
          .m = 70,
          .n = 41,
          .k = 400,
          .groups = 3,
          .b_gaps = {.row = 16}}},
        {8, {.recipe = recipe("mxfp8:mxfp8"), .layout = tn, .m = 70, .n = 41, .k = 167}},
        {8,
         {.grouping = Grouping::batched,
          .recipe = recipe("mxfp8:mxfp8"),
          .layout = tt,
          .m = 65,
          .n = 33,
          .k = 96,
          .groups = 2}},
        {8, {.recipe = recipe("mxfp8:mxfp8"), .layout = Layout::nn, .m = 20, .n = 70, .k = 300}},
        {6,
         {.grouping = Grouping::k_grouped_flat, .recipe = row, .layout = tn, .m = 130, .n = 41, .k = 417, .groups = 3}},
        {6,
         {.grouping = Grouping::k_grouped_flat,
          .recipe = row,
          .layout = Layout::nn,
          .m = 130,
          .n = 41,
          .k = 480,
          .groups = 3,
          .alignment = 16}},
        {6,
         {.grouping = Grouping::k_grouped_flat, .recipe = row, .layout = tt, .m = 70, .n = 41, .k = 401, .groups = 3}},
    };
}

class Prepared : public testing::TestWithParam<std::size_t> {};

TEST_P(Prepared, HasTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (std::size_t turn = 0; turn < 2; ++turn) {
        CaseSpec call = in_rows_of_16(spec);
        if (turn == 1) call = in_any_rows(index, call);
        call.seed = turn + 7;
        const Conditions run{.sms = 3,
                             .tma = turn == 0 ? Timing::early : Timing::late,
                             .wgmma = turn == 0 ? Timing::late : Timing::early,
                             .seed = turn};
        SCOPED_TRACE(describe(kernel, call, run));
        ASSERT_EQ(prepared_difference(kernel, call, run), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Prepared, testing::Range(std::size_t{0}, calls().size()));

TEST(PreparedCopies, ReadNoByteBehindTheOperands) {
    CaseSpec spec{.recipe = parse_recipe("1x128:128x128").value(), .layout = Layout::tn, .m = 48, .n = 144, .k = 200};
    spec.guard_pages = true;
    const Kernel kernel = kernels()[0];
    EXPECT_EQ(prepared_difference(kernel, spec, {}), "");
}

}  // namespace
}  // namespace tilewright::tests
