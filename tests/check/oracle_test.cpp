// The oracle of the gates against code that was written apart from it: the float64 reference, the scalar model of the
// tensor core, and the vectorised backend.
#include "check/oracle.h"

#include "check/case.h"
#include "check/random.h"
#include "check/step.h"
#include "cpu/exact/exact.h"
#include "cpu/exact/tensor_core.h"
#include "cpu/reference.h"
#include "formats/element.h"
#include "problem/canonical_order.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>

namespace tilewright::check {
namespace {

bool has_canonical_order(const Recipe& recipe) { return canonical_order(recipe, Accumulation::promoted).has_value(); }

std::vector<Region> whole(const Case& test_case) {
    return regions(test_case.geometry(), {.multiply_adds = std::int64_t{1} << 40});
}

TEST(Oracle, ExactIsTheReferenceToTheBit) {
    int number = 0;
    for (const Recipe& recipe : all_recipes()) {
        ++number;
        const bool by_k = number % 2 == 0;
        const CaseSpec spec{.grouping = by_k ? Grouping::k_grouped : Grouping::m_grouped_indices,
                            .recipe = recipe,
                            .layout = static_cast<Layout>(number % 4),
                            .m = 10,
                            .n = 12,
                            .k = 1200,
                            .groups = 3,
                            .seed = static_cast<std::uint64_t>(number),
                            .with_c = number % 3 == 0,
                            .with_bias = !by_k && number % 3 == 1,
                            .alpha = 0.75F};
        SCOPED_TRACE(describe(spec));
        const Case test_case(spec);
        const Geometry g = test_case.geometry();
        for (const Region& region : whole(test_case)) {
            const Expected values = expected(g, region, {.emulate = false});
            for (std::int64_t i = 0; i < region.rows; ++i) {
                for (std::int64_t j = 0; j < region.columns; ++j) {
                    ASSERT_EQ(values.exact[static_cast<std::size_t>(i * region.columns + j)],
                              cpu::reference_element(g, region.gemm, region.row + i, region.column + j));
                }
            }
        }
    }
}

/// Codes of every kind, or now and then mostly special ones.
template <std::size_t size>
void fill(std::array<std::uint8_t, size>& bytes, Random& random, bool special) {
    for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(random.bits());
        if (!special && (byte & 0x7CU) == 0x7CU) byte &= 0xBFU;  // no NaN or infinity in any of the formats
        if (!special && (byte & 0x7FU) == 0x7FU) byte = 0;
    }
}

template <int products>
StepRow step_row(const std::array<std::uint8_t, 32>& bytes, Format format, std::array<float, 32>& values,
                 std::array<std::int32_t, 32>& exponents) {
    for (int i = 0; i < products; ++i) {
        values[i] = static_cast<float>(formats::load(bytes.data(), format, i));
        exponents[i] = exponent_of(values[i], formats::fields(format).smallest_exponent());
    }
    return {.values = values.data(), .exponents = exponents.data(), .special = true};
}

/// Also: the bound holds for every step.
template <int products>
void compare_steps(Format a_format, Format b_format) {
    Random random(static_cast<std::uint64_t>(a_format) * 16 + static_cast<std::uint64_t>(b_format));
    const cpu::TensorCore core{.a = a_format, .b = b_format};
    int bounded = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        std::array<std::uint8_t, 32> a{};
        std::array<std::uint8_t, 32> b{};
        const bool special = trial % 10 == 0;
        fill(a, random, special);
        fill(b, random, special);
        const float start =
            trial % 3 == 0
                ? 0
                : static_cast<float>(std::ldexp(random.unit() - 0.5, static_cast<int>(random.up_to(60)) - 30));
        const float c = core.add_products(a.data(), b.data(), start);  // as many bits as the tensor core keeps
        fill(a, random, special);
        std::array<float, 32> a_values{};
        std::array<float, 32> b_values{};
        std::array<std::int32_t, 32> a_exponents{};
        std::array<std::int32_t, 32> b_exponents{};
        double bound = 0;
        const float mine = measured_step<products>(step_row<products>(a, a_format, a_values, a_exponents),
                                                   step_row<products>(b, b_format, b_values, b_exponents), c, bound);
        const float theirs = core.add_products(a.data(), b.data(), c);
        if (std::isnan(theirs)) {
            ASSERT_TRUE(std::isnan(mine));
            continue;
        }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(mine), std::bit_cast<std::uint32_t>(theirs)) << "trial " << trial;
        if (!std::isfinite(theirs) || products != 32) continue;  // of bf16, no type here holds the exact sum
        long double exact = c;
        for (int i = 0; i < products; ++i) exact += static_cast<long double>(a_values[i]) * b_values[i];
        ASSERT_LE(std::fabs(static_cast<double>(exact - theirs)), bound * (1 + 1e-9)) << "trial " << trial;
        ++bounded;
    }
    if (products == 32) {
        EXPECT_GE(bounded, 15000);
    }
}

TEST(Step, HasTheBitsOfTheScalarModelAndStaysWithinItsBound) {
    for (Format a : {Format::e4m3, Format::e5m2}) {
        for (Format b : {Format::e4m3, Format::e5m2}) compare_steps<32>(a, b);
    }
    compare_steps<16>(Format::bf16, Format::bf16);
}

TEST(Oracle, EmulationHasTheBitsOfTheBackendForEveryRecipe) {
    int number = 0;
    int compared = 0;
    for (const Recipe& recipe : all_recipes()) {
        if (!has_canonical_order(recipe)) continue;
        for (Distribution distribution : {Distribution::normal, Distribution::abs_normal, Distribution::outliers}) {
            ++number;
            const bool whole_k = recipe.a.granularity == Granularity::row && number % 2 == 0;
            const CaseSpec spec{.recipe = recipe,
                                .layout = static_cast<Layout>(number % 4),
                                .output = Format::f32,
                                .m = 6,
                                .n = 14,
                                .k = number % 2 == 0 ? 656 : 1110,
                                .distribution = distribution,
                                .seed = static_cast<std::uint64_t>(number),
                                .with_c = number % 5 == 0,
                                .alpha = number % 3 == 0 ? -0.7F : 1.0F,
                                .accumulation = whole_k ? Accumulation::unpromoted : Accumulation::promoted};
            SCOPED_TRACE(describe(spec));
            Case test_case(spec);
            const std::vector<std::int64_t> k_splits{128, 512, 896};
            const bool split = number % 4 == 1;
            const std::span<const std::int64_t> used =
                split ? std::span<const std::int64_t>(k_splits) : std::span<const std::int64_t>();
            test_case.reset_output();
            cpu::run_exact(test_case.geometry(), cpu::ExactOptions{.k_splits = used});
            for (const Region& region : whole(test_case)) {
                const Expected values = expected(test_case.judged_geometry(), region, {.k_splits = used});
                for (std::int64_t i = 0; i < region.rows; ++i) {
                    for (std::int64_t j = 0; j < region.columns; ++j) {
                        const float value = values.value[static_cast<std::size_t>(i * region.columns + j)];
                        ASSERT_EQ(std::bit_cast<std::uint32_t>(value),
                                  test_case.output_bits(region.gemm.group, region.gemm.row_begin + region.row + i,
                                                        region.column + j))
                            << i << " " << j;
                        ++compared;
                    }
                }
            }
        }
    }
    EXPECT_GT(compared, 30000);
}

}  // namespace
}  // namespace tilewright::check
