// Prepared operands with codes and scales of any bits, on the emulator: what no distribution draws. Each bit is
// compared with the CPU's arithmetic `bit_exact`.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "emulator/changed_data.h"
#include "emulator/prepared_case.h"
#include "emulator/row_call.h"
#include "formats/codec.h"
#include "problem/workspace_plan.h"

namespace tilewright::tests {
namespace {

EmulatedKernel one(std::string_view text) { return emulated(parse_kernel(text)); }

/// Weights with given scales and zeros, of a row and a block. A's scales are so small that sums are at the lower end of
/// fp32. There a reference that differs from the definition's changes bits.
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
    std::vector<float> small_ones = own_copy<float>(test.problem().a.scales);
    for (float& scale : small_ones) scale *= 0x1p-130F;
    return prepared_difference(one("1x128:mxfp4 raw | 64x16x128 stages=3 warpgroups=1 swap split=4 | any"), test,
                               {.sms = 4}, false);
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
    // Rows of only zeros, and rows of one block.
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

/// ue4m3 has a NaN, 0x7F, whose block is NaN whatever its codes are, and every number but signs.
TEST(DecodedCalls, ScalesOfAnyBits) {
    const EmulatedKernel kernel = one("nvfp4:nvfp4 decoded | 64x8x128 stages=4 warpgroups=1 swap | any");
    for (const std::size_t row : {0, 3}) {
        constexpr auto sparse = check::Distribution::sparse;
        const Recipe recipe = parse_recipe("nvfp4:nvfp4").value();
        check::Case test({.recipe = recipe, .output = Format::f32, .m = 7, .n = 64, .k = 2048, .distribution = sparse});
        std::vector<std::uint8_t> scales = own_copy<std::uint8_t>(test.problem().a.scales);
        for (std::size_t code = 0; code < 126; ++code) scales[row * 128 + code] = static_cast<std::uint8_t>(code);
        scales[2 * 128] = 0x7F;
        EXPECT_EQ(prepared_difference(kernel, test, {}, true), "") << row;
    }
}

/// Weights are packed before the call or by it, or are expanded. The top bit of ue4m3 does not count.
TEST(DecodedCalls, ScalesOfWeightsOfAnyBits) {
    constexpr const char* decoded = "nvfp4:nvfp4 decoded | 64x8x128 stages=4 warpgroups=1 swap | any";
    for (const auto& [text, recipe, packs] :
         {std::tuple{decoded, "nvfp4:nvfp4", true}, std::tuple{decoded, "nvfp4:nvfp4", false},
          std::tuple{"bf16:nvfp4 decoded | 128x32x128 stages=3 swap | any", "bf16:nvfp4", false},
          std::tuple{"bf16:nvfp4 expanded | 64x64x64 stages=4 warpgroups=1 | any", "bf16:nvfp4", true}}) {
        const EmulatedKernel kernel = one(text);
        if (sanitizes && kernel.run == nullptr) continue;  // not in the sample
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

EmulatedKernel fp8_by_blocks() { return one("1x128:nvfp4 decoded | 64x8x128 stages=3 warpgroups=1 swap | any"); }

/// One row of A has every finite code, of others one has NaN and one each infinity.
TEST(Fp8NextToNvfp4Calls, CodesOfAnyBits) {
    constexpr std::int64_t k = 512;
    for (const char* recipe : {"1x128:nvfp4", "e5m2.1x128:nvfp4", "1x128.ue8m0:nvfp4"}) {
        check::Case test({.recipe = parse_recipe(recipe).value(), .output = Format::f32, .m = 16, .n = 64, .k = k});
        Tensor& a = test.problem().a.values;
        std::vector<std::uint8_t> codes = own_copy<std::uint8_t>(a);
        const formats::Fields& fields = a.format == Format::e4m3 ? formats::e4m3_fields : formats::e5m2_fields;
        for (int code = 0; code < 256; ++code) {
            const bool finite = std::isfinite(formats::decode(fields, static_cast<hopper::u32>(code)));
            codes[static_cast<std::size_t>(3 * k + code)] = static_cast<std::uint8_t>(finite ? code : 0);
        }
        codes[5 * k + 300] = 0xFF;
        codes[6 * k + 100] = 0xFC;
        codes[7 * k + 511] = 0x7C;
        EXPECT_EQ(prepared_difference(fp8_by_blocks(), test, {}, true), "") << recipe;
    }
}

/// Its scales are each group's own.
TEST(Fp8NextToNvfp4Calls, AMatrixThatAllGroupsShareIsDecodedOnce) {
    const Recipe recipe = parse_recipe("1x128:nvfp4").value();
    check::Case test({.grouping = Grouping::batched, .recipe = recipe, .m = 6, .n = 66, .k = 160, .groups = 3});
    test.problem().a.values.strides[0] = 0;
    EXPECT_EQ(workspace_plan(test.geometry()).decode_a->matrices, 1);
    EXPECT_EQ(prepared_difference(fp8_by_blocks(), test, {}, true), "");
}

/// A's scales are so small that their products with the factors are subnormal: one after the other they keep all bits.
TEST(Expanded, FactorsMultiplyAfterTheScalesOfRows) {
    for (const RowKernel& of : emulated({"row:mxfp4 m_grouped expanded | 64x64x128 stages=4 warpgroups=1 | any",
                                         "row:mxfp4 expanded | 64x16x128 stages=3 warpgroups=1 swap split=4 | any"})) {
        check::Case test(spec_of(of.row, "m=70 n=72 k=320 f32"));
        std::vector<float> small_ones = own_copy<float>(test.problem().a.scales);
        for (float& scale : small_ones) scale *= 0x1p-116F;
        EXPECT_EQ(prepared_difference(of.kernel, test, {.sms = 4}, true), "") << of.row.text;
    }
}

}  // namespace
}  // namespace tilewright::tests
