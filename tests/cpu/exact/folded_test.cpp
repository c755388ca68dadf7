// MXFP4 in the canonical order: exponents near and far apart, by row and by block, blocks of zeros and scales that are
// NaN.
#include "check/case.h"
#include "check/gates.h"
#include "check/random.h"
#include "cpu/exact/canonical.h"
#include "cpu/exact/exact.h"
#include "problem/canonical_order.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

namespace tilewright::tests {
namespace {

using check::Case;
using check::CaseSpec;

constexpr const char* recipes[] = {"1x128:mxfp4", "row:mxfp4",    "mxfp8:mxfp4", "mxfp4:mxfp4",
                                   "bf16:mxfp4",  "mxfp4:1x128",  "mxfp4:row",   "mxfp4:bf16",
                                   "nvfp4:mxfp4", "tensor:mxfp4", "mxfp4:mxfp8", "mxfp4:128x128"};

CaseSpec spec_of(const char* recipe, std::int64_t rows = 12) {
    const Recipe parsed = *parse_recipe(recipe);
    const bool of_b = folded_side(parsed) == Folded::b;
    return {.recipe = parsed, .output = Format::f32, .m = of_b ? 5 : rows, .n = of_b ? rows : 5, .k = 288, .seed = 4};
}

Operand& folded(Case& test) { return is_mxfp4(test.spec().recipe.b) ? test.problem().b : test.problem().a; }

std::uint8_t& scale(Case& test, std::int64_t row, std::int64_t block) {
    const Tensor& scales = folded(test).scales;
    return static_cast<std::uint8_t*>(scales.data)[row * scales.strides[0] + block * scales.strides[1]];
}

void fill_block(Case& test, std::int64_t row, std::int64_t block, int code) {
    const Tensor& values = folded(test).values;
    auto* const bytes = static_cast<std::uint8_t*>(values.data) + (row * values.strides[0] + block * 32) / 2;
    std::memset(bytes, code | code << 4, 16);
}

/// Bits against the transcription and the oracle.
void expect_canonical(Case& test, const std::string& what) {
    test.problem().arithmetic = Arithmetic::bit_exact;
    const Geometry g = test.geometry();
    cpu::run_exact(g);
    for (const GroupGemm& gemm : test.gemms()) {
        for (std::int64_t row = 0; row < gemm.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                ASSERT_EQ(test.output_bits(gemm.group, row, column), canonical_bits(g, gemm, row, column))
                    << what << ", row " << row << ", column " << column;
            }
        }
    }
    const check::GateReport bits = check::run_gate(check::Gate::emulation, g, {});
    EXPECT_TRUE(bits.pass()) << what << ": " << bits.text();
}

/// And within the bound of the exact result.
void expect_right(Case& test, const std::string& what) {
    expect_canonical(test, what);
    const Geometry g = test.geometry();
    const check::GateReport bound = check::run_gate(check::Gate::running_bound, g, {});
    EXPECT_TRUE(bound.pass()) << what << ": " << bound.text();
}

/// Random exponents within `difference`, somewhere, over a row or over 128 k-elements.
void spread_scales(Case& test, int difference, bool by_block, check::Random& random) {
    const Dims& shape = folded(test).scales.shape;
    for (std::int64_t row = 0; row < shape[0]; ++row) {
        int low = 0;
        for (std::int64_t block = 0; block < shape[1]; ++block) {
            if (block == 0 || (by_block && block % 4 == 0)) {
                low = static_cast<int>(random.up_to(static_cast<std::uint64_t>(255 - difference)));
                low = difference < 200 ? std::min(low, 180 - difference) : 0;  // sums that fp32 holds without alpha
            }
            const int code = low + static_cast<int>(random.up_to(static_cast<std::uint64_t>(difference + 1)));
            const bool nvfp4 = test.problem().a.tensor_scale.given();  // its scale is an epilogue scale
            scale(test, row, block) = static_cast<std::uint8_t>(std::min(code, nvfp4 ? 200 : 254));
        }
    }
}

TEST(Folded, SpreadsOfExponentsByRowAndByBlock) {
    check::Random random(5);
    Sample sample(13);
    for (const char* recipe : recipes) {
        for (const int difference : {0, 1, 10, 11, 12, 13, 23, 24, 40, 100, 120, 121, 122, 160, 240, 254}) {
            for (const bool by_block : {false, true}) {
                if (!sample.takes_next()) continue;
                Case test(spec_of(recipe));
                spread_scales(test, difference, by_block, random);
                const std::string what = std::string(recipe) + ", difference " + std::to_string(difference);
                difference == 254 ? expect_canonical(test, what) : expect_right(test, what);  // sums leave fp32
            }
        }
    }
}

TEST(Folded, BlocksOfZerosHaveAnyScale) {
    for (const char* recipe : recipes) {
        Case near(spec_of(recipe));
        Case far(spec_of(recipe));
        for (Case* test : {&near, &far}) {
            for (std::int64_t row = 0; row < 12; ++row) {
                for (std::int64_t block = 0; block < 9; ++block)
                    scale(*test, row, block) = static_cast<std::uint8_t>(120 + row % 5);
                fill_block(*test, row, row % 9, row % 2 == 0 ? 0 : 8);
            }
        }
        for (std::int64_t row = 0; row < 12; ++row)
            scale(far, row, row % 9) = static_cast<std::uint8_t>(row % 3 == 0 ? 0 : 254);
        expect_right(near, recipe);
        expect_right(far, recipe);
        EXPECT_EQ(near.output(), far.output()) << recipe;
    }
}

TEST(Folded, AScaleThatIsNanSpoilsItsRowAlone) {
    for (const char* recipe : recipes) {
        Case test(spec_of(recipe));
        fill_block(test, 3, 1, 0);
        scale(test, 3, 1) = 255;
        expect_right(test, recipe);
        const bool of_b = is_mxfp4(test.spec().recipe.b);
        for (std::int64_t i = 0; i < 5; ++i) {
            EXPECT_TRUE(std::isnan(of_b ? test.output_at(0, i, 3) : test.output_at(0, 3, i))) << recipe;
            EXPECT_FALSE(std::isnan(of_b ? test.output_at(0, i, 4) : test.output_at(0, 4, i))) << recipe;
        }
    }
}

/// The bytes of the same rows in another order.
void reverse_rows(const Tensor& tensor, std::int64_t row_bytes) {
    auto* const data = static_cast<std::byte*>(tensor.data);
    for (std::int64_t i = 0; i < tensor.shape[0] / 2; ++i) {
        std::swap_ranges(data + i * row_bytes, data + (i + 1) * row_bytes,
                         data + (tensor.shape[0] - 1 - i) * row_bytes);
    }
}

TEST(Folded, PermutedRowsPermuteTheResultBitForBit) {
    check::Random random(6);
    for (const char* recipe : recipes) {
        Case test(spec_of(recipe, 150));  // more than one tile of the CPU's
        spread_scales(test, 9, false, random);
        for (std::int64_t row = 0; row < 150; row += 7) scale(test, row, row % 9) = static_cast<std::uint8_t>(row);
        Case reversed(test.spec());
        std::memcpy(folded(reversed).scales.data, folded(test).scales.data, 150 * 9);
        reverse_rows(folded(reversed).scales, 9);
        reverse_rows(folded(reversed).values, 288 / 2);
        cpu::run_exact(test.geometry());
        cpu::run_exact(reversed.geometry());
        const bool of_b = is_mxfp4(test.spec().recipe.b);
        for (std::int64_t row = 0; row < 150; ++row) {
            for (std::int64_t i = 0; i < 5; ++i) {
                const auto bits = of_b ? test.output_bits(0, i, row) : test.output_bits(0, row, i);
                const auto other = of_b ? reversed.output_bits(0, i, 149 - row) : reversed.output_bits(0, 149 - row, i);
                ASSERT_EQ(bits, other) << recipe << ", row " << row;
            }
        }
    }
}

TEST(Folded, ADormantExpertIsExactToo) {
    for (const char* recipe : recipes) {
        Case test(spec_of(recipe));
        for (std::int64_t row = 0; row < 12; ++row) {
            for (std::int64_t block = 0; block < 9; ++block) scale(test, row, block) = 0;  // 2^-127
        }
        expect_right(test, recipe);
    }
}

TEST(Folded, ScalesAreAppliedApart) {
    for (const char* recipe : recipes)
        EXPECT_EQ(canonical_order(*parse_recipe(recipe), Accumulation::promoted)->chain,
                  std::string(recipe).find("mxfp8") != std::string::npos || std::string(recipe) == "mxfp4:mxfp4" ? 32
                  : std::string(recipe).find("bf16") != std::string::npos ||
                          std::string(recipe).find("nvfp4") != std::string::npos
                      ? 0
                      : 128)
            << recipe;
}

}  // namespace
}  // namespace tilewright::tests
