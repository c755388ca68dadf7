// MXFP4 weights whose codes stay where they are, on the emulator: the kernel that writes what packed tiles have behind
// their codes, then the product's, whatever the scales; each bit as the CPU's arithmetic `bit_exact` has it.
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
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Tile;
using hopper::Variant;

constexpr Tile raw(Tile tile, Scaling a, Family family, Variant variant = Variant::general) {
    tile.swap_ab = true;
    tile.a.scaling = a;
    tile.b = {.storage = hopper::Storage::raw_e2m1, .scaling = Scaling::factor};
    tile.family = family;
    tile.variant = variant;
    return tile;
}

constexpr Scaling blocks = Scaling::block_1x128, rows = Scaling::epilogue;
constexpr Family dense = Family::dense, grouped = Family::m_grouped;
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3};
constexpr Tile deep{.shape = {.m = 256, .n = 64, .warpgroups = 4}, .stages = 2};  // several wgmmas along n
constexpr Tile halves{.shape = {.m = 256, .n = 16}, .stages = 3};                 // 128 rows a warpgroup
constexpr std::array tiles{raw(split, blocks, dense),  raw(pair, rows, dense),
                           raw(pair, blocks, grouped), raw(deep, blocks, grouped, Variant::fast_k_major_scales),
                           raw(halves, rows, grouped), raw(halves, blocks, dense, Variant::fast)};

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const Recipe by_blocks = parse_recipe("1x128:mxfp4").value(), by_row = parse_recipe("row:mxfp4").value();
    const Recipe by_tensor = parse_recipe("tensor:mxfp4").value();
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets;
    const Grouping masked = Grouping::m_grouped_masked;
    return {
        {0, {.recipe = by_blocks, .m = 5, .n = 72, .k = 544}},
        {0, {.recipe = by_blocks, .m = 17, .n = 1, .k = 96}},
        {0, {.grouping = batched, .recipe = by_blocks, .m = 3, .n = 70, .k = 160, .groups = 2}},
        {1, {.recipe = by_row, .layout = Layout::tt, .m = 37, .n = 200, .k = 288}},
        {1, {.recipe = by_tensor, .m = 33, .n = 130, .k = 32}},
        {2, {.grouping = ends, .recipe = by_blocks, .m = 50, .n = 136, .k = 320, .groups = 3}},
        {2, {.grouping = masked, .recipe = by_blocks, .m = 20, .n = 150, .k = 1152, .groups = 3}},
        {3, {.grouping = masked, .recipe = by_blocks, .m = 70, .n = 328, .k = 384, .groups = 3}},
        {4, {.grouping = ends, .recipe = by_row, .m = 50, .n = 392, .k = 256, .groups = 3}},
        {5, {.recipe = by_blocks, .m = 20, .n = 320, .k = 512}},
    };
}

class Raw : public testing::TestWithParam<std::size_t> {};

TEST_P(Raw, HaveTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        CaseSpec call = spec;
        call.seed = turn + 1;
        call.far_scales = far_scales[turn];
        call.a_gaps.row = 16 - (a_is_transposed(spec.layout) ? spec.m : spec.k) % 16;
        call.b_gaps = {.row = turn % 2 == 0 ? 0 : 64};
        call.b_scale_gaps = {.row = turn == 3 ? 1 : 0};
        call.b_scales_transposed = turn == 2;
        call.a_scales_transposed = kernel.tile.variant == Variant::fast;
        call.with_bias = kernel.tile.variant == Variant::general && turn % 3 != 0;
        call.bias_format = turn == 1 ? Format::f32 : Format::bf16;
        const Conditions run{.sms = 4, .tma = turn % 2 == 0 ? Timing::early : Timing::late, .seed = turn};
        SCOPED_TRACE(describe(kernel, call, run));
        ASSERT_EQ(prepared_difference(kernel, call, run), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Raw, testing::Range(std::size_t{0}, calls().size()));

/// Weights with scales and zeros of our own, of a row and a block. A's scales are so small that sums are at the lower
/// end of fp32, where a reference that is another one than the definition's changes bits.
template <class ScaleOf, class IsZero>
std::string difference_of(ScaleOf scale_of, IsZero is_zero, Format output = Format::f32) {
    constexpr int m = 9, n = 72, k = 640, block = 32, columns = k / block;
    check::Case test({.recipe = parse_recipe("1x128:mxfp4").value(), .output = output, .m = m, .n = n, .k = k});
    Operand& b = test.problem().b;
    const auto* const given = static_cast<const std::uint8_t*>(b.values.data);
    struct alignas(16) Chunk {
        std::array<std::uint8_t, block / 2> codes;
    };
    std::vector<Chunk> chunks(std::size_t{n} * columns);
    std::vector<std::uint8_t> scales(chunks.size());
    for (int row = 0; row < n; ++row) {
        for (int i = 0; i < columns; ++i) {
            const auto at = static_cast<std::size_t>(row * columns + i);
            scales[at] = static_cast<std::uint8_t>(scale_of(row, i));
            for (std::size_t byte = 0; byte < block / 2; ++byte) {
                const std::uint8_t minus_zeros = byte % 3 == 0 ? 0x88 : 0x08;
                chunks[at].codes[byte] = is_zero(row, i) ? minus_zeros : given[at * (block / 2) + byte];
            }
            if (!is_zero(row, i)) chunks[at].codes[static_cast<std::size_t>(row) % 16] |= 0x20;
        }
    }
    b.values.data = chunks.data();
    b.scales.data = scales.data();
    Tensor& tokens = test.problem().a.scales;
    const auto* const ordinary = static_cast<const float*>(tokens.data);
    std::vector<float> small_ones(ordinary, ordinary + m * (k / 128));
    for (float& scale : small_ones) scale *= 0x1p-130F;
    tokens.data = small_ones.data();
    const Kernel kernel = kernels()[0];
    return prepared_difference(kernel, test, {.sms = 4}, false);
}

/// Blocks of zeros do not count: with the largest scale, with the smallest, with both, and where nothing else is.
TEST(RawWeights, ZerosDoNotCount) {
    const auto close = [](int row, int i) { return 120 + (row * 7 + i * 5) % 12; };
    EXPECT_EQ(difference_of(close, [](int, int) { return false; }), "");
    // Blocks with the largest scale are zeros: all of them, or the first.
    EXPECT_EQ(difference_of(close, [&](int row, int i) { return close(row, i) >= 131 - row % 4; }), "");
    EXPECT_EQ(difference_of(close, [&](int row, int i) { return close(row, i) == 131 && i < row % 20; }), "");
    // Zeros make no row wide, whatever their scales.
    const auto zeros = [](int row, int i) { return (row + i) % 5 == 0; };
    for (const int scale : {0, 254, 140, 110}) {
        EXPECT_EQ(difference_of([&](int row, int i) { return zeros(row, i) ? scale : close(row, i); }, zeros), "")
            << scale;
    }
    // Rows that are wide, and have zeros.
    EXPECT_EQ(difference_of([](int row, int i) { return 100 + (row * 11 + i * 13) % 40; }, zeros), "");
    // Rows of zeros alone, and of one block.
    EXPECT_EQ(difference_of(close, [](int row, int i) { return row % 3 == 0 || (row % 3 == 1 && i != row % 20); }), "");
}

/// Every difference of exponents that rows have without windows, and the next one; scales at the ends of their range;
/// NaN.
TEST(RawWeights, ScalesOfAnyBits) {
    constexpr Format bf16 = Format::bf16;  // the emulator's NaN of f32 is another one where there is no C
    const auto none = [](int, int) { return false; };
    const auto differ = [](int row, int i) { return 127 - (i == row % 20 ? row % 16 : i % 3 == 0 ? row % 16 / 2 : 0); };
    EXPECT_EQ(difference_of(differ, none), "");
    EXPECT_EQ(difference_of([](int row, int i) { return (row % 2 == 0 ? 0 : 243) + (row + i) % 12; }, none), "");
    EXPECT_EQ(
        difference_of([](int row, int i) { return row % 3 == 0 && i == row % 20 ? 255 : 120 + i % 8; }, none, bf16),
        "");
    EXPECT_EQ(difference_of([](int row, int) { return row % 3 == 0 ? 255 : 120; }, none, bf16), "");
}

TEST(RawWeights, ReadNoByteBehindTheOperands) {
    CaseSpec spec{.recipe = parse_recipe("1x128:mxfp4").value(), .m = 10, .n = 72, .k = 544, .with_c = true};
    spec.guard_pages = true;
    EXPECT_EQ(prepared_difference(kernels()[0], spec, {}), "");
}

TEST(RawWeights, WithoutRows) {
    const CaseSpec spec{.recipe = parse_recipe("1x128:mxfp4").value(), .m = 0, .n = 72, .k = 256, .with_c = true};
    EXPECT_EQ(prepared_difference(kernels()[0], spec, {}), "");
}

}  // namespace
}  // namespace tilewright::tests
