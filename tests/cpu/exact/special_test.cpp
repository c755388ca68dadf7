// The arithmetic `bit_exact` where numbers are extreme: NaN, infinities, zeros, subnormals, every code of the formats,
// exponents from one end of bf16 to the other, scales that overflow and underflow. Equality with canonical.h
// throughout.
#include "check/case.h"
#include "cpu/exact/canonical.h"
#include "cpu/exact/exact.h"
#include "cpu/exact/levels.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tilewright::tests {
namespace {

using check::Case;
using check::CaseSpec;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

constexpr std::array recipes{"tensor:tensor",  "e5m2.row:e5m2.row", "1x128:128x128", "e5m2.1x128:1x128",
                             "1x128:row",      "row:e5m2",          "128x128:e4m3",  "e5m2.1x128.ue8m0:tensor",
                             "mxfp8:mxfp8",    "e5m2.1x32:mxfp4",   "bf16:bf16",     "bf16:mxfp4",
                             "bf16:e5m2.1x32", "nvfp4:nvfp4",       "bf16:nvfp4",    "e5m2.1x128:nvfp4"};

using Random = std::mt19937;

/// Overwrites the tensor's memory, which is dense, element by element.
void overwrite(const Tensor& tensor, Random& random, const std::function<std::uint32_t(Random&)>& code) {
    const std::int64_t bytes = row_major_bytes(tensor.format, tensor.shape);
    const int width = std::max(1, bits(tensor.format) / 8);
    for (std::int64_t i = 0; i < bytes; i += width) {
        const std::uint32_t value = code(random);
        std::memcpy(static_cast<std::byte*>(tensor.data) + i, &value, static_cast<std::size_t>(width));
    }
}

std::uint32_t any_code(Random& random) { return static_cast<std::uint32_t>(random()); }

/// Every level computes the canonical bits.
void expect_canonical(Case& test, const std::string& what) {
    const Geometry g = test.geometry();
    for (const cpu::Isa isa : instruction_levels()) {
        test.reset_output();
        cpu::run_exact(g, cpu::ExactOptions{.isa = isa});
        int different = 0;
        for (const GroupGemm& gemm : test.gemms()) {
            for (std::int64_t row = 0; row < gemm.rows; ++row) {
                for (std::int64_t column = 0; column < g.n; ++column) {
                    const std::uint32_t given = test.output_bits(gemm.group, gemm.row_begin + row, column);
                    const std::uint32_t expected = canonical_bits(g, gemm, row, column);
                    different += given == expected ? 0 : 1;
                    if (given != expected && different == 1) {
                        ADD_FAILURE() << what << ": level " << static_cast<int>(isa) << " row " << row << " column "
                                      << column << ": " << std::hex << given << " for " << expected;
                    }
                }
            }
        }
        EXPECT_EQ(different, 0) << what;
    }
}

CaseSpec small(const char* recipe, std::int64_t k = 290) {
    return {.recipe = parse_recipe(recipe).value(), .output = Format::f32, .m = 9, .n = 12, .k = k};
}

TEST(ExactSpecial, EveryCodeAnywhere) {
    Random random(1);
    for (const char* recipe : recipes) {
        for (const std::int64_t k : {2, 16, 32, 128, 290}) {
            Case test(small(recipe, k));
            overwrite(test.problem().a.values, random, any_code);
            overwrite(test.problem().b.values, random, any_code);
            expect_canonical(test, recipe);
        }
    }
}

TEST(ExactSpecial, OneSpecialElementTouchesItsRowOrColumnOnly) {
    for (const char* recipe : {"tensor:tensor", "e5m2.row:e5m2.row", "bf16:bf16", "bf16:mxfp8", "e5m2.1x128:nvfp4"}) {
        for (const float special : {nan_value, infinity, -infinity}) {
            Case test(small(recipe));
            const Tensor& values = test.problem().a.values;
            const std::uint32_t code =
                formats::encode(formats::fields(values.format), special, formats::Overflow::propagate);
            const std::int64_t width = bits(values.format) / 8;
            std::memcpy(static_cast<std::byte*>(values.data) + (4 * values.strides[0] + 33) * width, &code, width);
            expect_canonical(test, recipe);
            for (std::int64_t column = 0; column < 12; ++column) {
                const float hit = std::bit_cast<float>(test.output_bits(0, 4, column));
                const float other = std::bit_cast<float>(test.output_bits(0, 5, column));
                EXPECT_TRUE(std::isfinite(other)) << recipe;
                EXPECT_FALSE(std::isfinite(hit)) << recipe;
            }
        }
    }
}

TEST(ExactSpecial, EveryScale) {
    Random random(2);
    constexpr std::array scales{0.0F,     -0.0F,     1e-40F, -1.0F, 1e-23F,    1e23F,
                                infinity, nan_value, 3e38F,  1.0F,  -infinity, 1.17e-38F};
    for (const char* recipe : recipes) {
        for (int round = 0; round < 3; ++round) {
            CaseSpec spec = small(recipe);
            spec.with_c = round == 1;
            Case test(spec);
            for (const Tensor& tensor : {test.problem().a.scales, test.problem().b.scales,
                                         test.problem().a.tensor_scale, test.problem().b.tensor_scale}) {
                if (!tensor.given()) continue;
                overwrite(tensor, random, [&](Random& r) {
                    return tensor.format == Format::f32 ? std::bit_cast<std::uint32_t>(scales[r() % scales.size()])
                                                        : any_code(r);
                });
            }
            expect_canonical(test, recipe);
        }
    }
}

/// bf16 with exponents up to `spread` from 2^center.
std::uint32_t bf16_code(Random& random, int center, int spread) {
    const int exponent = center + std::uniform_int_distribution<int>(-spread, spread)(random);
    const auto field = static_cast<std::uint32_t>(std::clamp(exponent + 127, 0, 254));
    return (random() & 1U) << 15 | field << 7 | (random() & 127U);
}

TEST(ExactSpecial, Bf16OverItsWholeRange) {
    Random random(3);
    for (const char* recipe : {"bf16:bf16", "bf16:mxfp8", "bf16:nvfp4"}) {
        for (const int center : {-126, -100, -75, -63, -51, 0, 49, 63, 100, 127}) {
            for (const int spread : {0, 2, 12, 30, 60, 250}) {
                Case test(small(recipe, 130));
                const auto code = [&](Random& r) { return bf16_code(r, center, spread); };
                overwrite(test.problem().a.values, random, code);
                if (test.problem().b.values.format == Format::bf16) overwrite(test.problem().b.values, random, code);
                expect_canonical(test, std::string(recipe) + " around 2^" + std::to_string(center) + " +- " +
                                           std::to_string(spread));
            }
        }
    }
}

/// Tiny rows times huge columns: products of all sizes from factors at both ends.
TEST(ExactSpecial, Bf16ProductsOfOppositeEnds) {
    Random random(4);
    for (const int distance : {40, 50, 51, 60, 100, 126}) {
        for (const bool same_k : {false, true}) {
            Case test(small("bf16:bf16", 130));
            int a_index = 0;
            int b_index = 0;
            const auto end = [&](int& index, int sign) {
                return [&, sign](Random& r) {
                    const int side = same_k && ++index % 2 == 0 ? -sign : sign;
                    return bf16_code(r, side * distance, 1) * (r() % 4 == 0 ? 0U : 1U);
                };
            };
            overwrite(test.problem().a.values, random, end(a_index, 1));
            overwrite(test.problem().b.values, random, end(b_index, -1));
            expect_canonical(test, "distance " + std::to_string(distance));
        }
    }
}

/// The largest sum of 16 products needs 31 bits before the accumulator joins it.
TEST(ExactSpecial, Bf16SumsThatFillTheAdder) {
    for (const std::uint32_t a : {0x3FFFU, 0xBFFFU, 0x3F80U}) {
        for (const std::uint32_t b : {0x3FFFU, 0xBFFFU, 0x3FFEU}) {
            Random random(5);
            Case test(small("bf16:bf16", 288));
            overwrite(test.problem().a.values, random, [&](Random&) { return a; });
            overwrite(test.problem().b.values, random, [&](Random&) { return b; });
            expect_canonical(test, "codes " + std::to_string(a) + " and " + std::to_string(b));
        }
    }
}

/// Accumulators with more exponent than the products that follow, and the reverse.
TEST(ExactSpecial, AccumulatorsMuchLargerAndSmallerThanTheProducts) {
    for (const char* recipe : {"tensor:tensor", "e5m2.tensor:tensor", "e5m2.row:e5m2.row", "bf16:bf16"}) {
        for (const bool unpromoted : {false, true}) {
            for (const int direction : {-1, 1}) {
                Random random(6);
                CaseSpec spec = small(recipe, 512);
                if (unpromoted) spec.accumulation = Accumulation::unpromoted;
                Case test(spec);
                for (const Tensor& tensor : {test.problem().a.values, test.problem().b.values}) {
                    std::int64_t index = 0;
                    overwrite(tensor, random, [&](Random& r) -> std::uint32_t {
                        const auto k = static_cast<int>(index++ % 512);
                        const int exponent = direction * (k / 32 - 8) + static_cast<int>(r() % 3);
                        const double value = std::ldexp(1 + double(r() % 16) / 16, exponent) * (r() % 2 == 0 ? 1 : -1);
                        return formats::encode(formats::fields(tensor.format), r() % 5 == 0 ? 0 : value);
                    });
                }
                expect_canonical(test, recipe);
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
