// NaN, infinities, zeros with signs, subnormals and scales of any size, in every recipe, level and multiplier.
#include "cpu/fast/cases.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace tilewright {
namespace {

using check::Case;
using check::CaseSpec;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Writes `code` (as many bytes as the format has) to an element; not for e2m1.
void put_code(const Tensor& tensor, std::int64_t index, std::uint32_t code) {
    const auto bytes = static_cast<std::size_t>(bits(tensor.format) / 8);
    std::memcpy(static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(index) * bytes, &code, bytes);
}

std::int64_t element_count(const Tensor& tensor) {
    std::int64_t count = tensor.given() ? 1 : 0;
    for (std::int64_t size : tensor.shape) count *= size;
    return count;
}

/// One element in twelve becomes a code that means something special, or any code at all.
void disturb_values(const Tensor& tensor, check::Random& random) {
    if (tensor.format == Format::e2m1) return;
    const std::uint32_t all = bits(tensor.format) == 32 ? ~0U : (1U << bits(tensor.format)) - 1;
    const formats::Fields& fields = formats::fields(tensor.format);
    const std::uint32_t special[] = {0,
                                     fields.sign_bit(),
                                     1,
                                     fields.sign_bit() | 1,
                                     fields.largest(),
                                     fields.infinity(),
                                     fields.sign_bit() | fields.infinity(),
                                     fields.all_ones(),
                                     fields.mantissa_mask()};
    for (std::int64_t i = 0; i < element_count(tensor); ++i) {
        if (random.up_to(250) != 0) continue;
        const std::int64_t pick = random.up_to(std::size(special));
        put_code(tensor, i,
                 pick < std::ssize(special) ? special[pick] : static_cast<std::uint32_t>(random.bits()) & all);
    }
}

void disturb_scales(const Tensor& tensor, check::Random& random) {
    constexpr float special[] = {0, 1e-44F, -1e-23F, 1e-23F, 1e23F, 3e38F, 1e-38F, -2, infinity, nan};
    for (std::int64_t i = 0; i < element_count(tensor); ++i) {
        if (random.up_to(3) != 0) continue;
        if (tensor.format == Format::f32) {
            const float scale = special[random.up_to(std::ssize(special) - (random.up_to(3) == 0 ? 1 : 3))];
            put_code(tensor, i, __builtin_bit_cast(std::uint32_t, scale));
        } else {
            put_code(tensor, i, static_cast<std::uint32_t>(random.bits()) & 255);
        }
    }
}

/// Finite exactly where float64 is, NaN in its one spelling, errors within the bound.
void expect_right(const Case& test_case, const std::string& what) {
    const check::JudgeOptions options{.arithmetic = Arithmetic::fast};
    const check::GateReport report = check::run_gate(check::Gate::running_bound, test_case.judged_geometry(), options);
    EXPECT_TRUE(report.pass()) << check::describe(test_case.spec()) << " (" << what << ")\n" << report.text();
    const std::uint32_t canonical = test_case.spec().output == Format::f32 ? 0x7FFF'FFFFU : 0x7FFFU;
    for (const GroupGemm& gemm : test_case.gemms()) {
        for (std::int64_t row = gemm.row_begin; row < gemm.row_begin + gemm.rows; ++row) {
            for (std::int64_t column = 0; column < test_case.spec().n; ++column) {
                if (!std::isnan(test_case.output_at(gemm.group, row, column))) continue;
                ASSERT_EQ(test_case.output_bits(gemm.group, row, column), canonical);
            }
        }
    }
}

CaseSpec special_case(const Recipe& recipe, std::uint64_t seed) {
    constexpr Format outputs[] = {Format::f32, Format::bf16, Format::f16};
    return {.recipe = recipe,
            .output = outputs[seed % 3],
            .m = seed % 2 == 0 ? 4 : 18,
            .n = 22,
            .k = 160,
            .seed = seed,
            .with_c = seed % 3 == 0};
}

TEST(FastSpecial, Values) {
    std::uint64_t seed = 0;
    for (const Recipe& recipe : all_recipes()) {
        Case test_case(special_case(recipe, ++seed));
        check::Random random(seed);
        disturb_values(test_case.problem().a.values, random);
        disturb_values(test_case.problem().b.values, random);
        for (const cpu::FastOptions& way : test::ways()) {
            test_case.reset_output();
            cpu::run_fast(test_case.geometry(), way);
            expect_right(test_case, test::text(way));
        }
    }
}

TEST(FastSpecial, Scales) {
    std::uint64_t seed = 5000;
    for (const Recipe& recipe : all_recipes()) {
        Case test_case(special_case(recipe, ++seed));
        check::Random random(seed);
        disturb_scales(test_case.problem().a.scales, random);
        disturb_scales(test_case.problem().b.scales, random);
        for (const cpu::FastOptions& way : test::ways()) {
            test_case.reset_output();
            cpu::run_fast(test_case.geometry(), way);
            expect_right(test_case, test::text(way));
        }
    }
}

/// Scales at both ends of their range whose products are moderate: what the canonical order survives, we do.
TEST(FastSpecial, OppositeScales) {
    for (const char* name : {"tensor:tensor", "row:row", "1x128:128x128", "1x128.ue8m0:1x128.ue8m0", "128x128:128x128",
                             "1x128:row", "1x128.ue8m0:tensor", "mxfp8:mxfp8", "mxfp4:mxfp4", "1x128:mxfp4"}) {
        for (float exponent : {126.0F, 60.0F, 39.0F, -60.0F, -126.0F}) {
            Case test_case(special_case(*parse_recipe(name), 3));
            const auto fill = [](const Tensor& scales, float power) {
                for (std::int64_t i = 0; i < element_count(scales); ++i) {
                    formats::store(scales.data, scales.format, i, std::exp2(power));
                }
            };
            fill(test_case.problem().a.scales, exponent);
            fill(test_case.problem().b.scales, -exponent);
            for (const cpu::FastOptions& way : test::ways()) {
                test_case.reset_output();
                cpu::run_fast(test_case.geometry(), way);
                expect_right(test_case, test::text(way));
            }
        }
    }
}

TEST(FastSpecial, AlphaOfAnySize) {
    for (float alpha : {0.0F, 1e-38F, 3e38F, -1e-44F, infinity, nan}) {
        for (const char* name : {"1x128:128x128", "nvfp4:nvfp4", "f32:f32"}) {
            Case test_case(special_case(*parse_recipe(name), 6));
            test_case.problem().alpha = alpha;
            for (const cpu::FastOptions& way : test::ways()) {
                test_case.reset_output();
                cpu::run_fast(test_case.geometry(), way);
                expect_right(test_case, test::text(way));
            }
        }
    }
}

TEST(FastSpecial, SumsThatOverflowAndCancel) {
    for (const std::int64_t m : {2, 20}) {
        std::vector<float> a(static_cast<std::size_t>(m) * 2);
        std::vector<float> b(6, 2e30F);
        std::vector<float> d(static_cast<std::size_t>(m) * 3);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 2 == 0 ? 1e30F : -1e30F;
        Problem problem{.a = {.values = row_major(a.data(), Format::f32, {m, 2})},
                        .b = {.values = row_major(b.data(), Format::f32, {3, 2})},
                        .d = row_major(d.data(), Format::f32, {m, 3})};
        for (const cpu::FastOptions& way : test::ways()) {
            std::fill(d.begin(), d.end(), nan);
            cpu::run_fast(geometry(problem), way);
            for (float value : d) EXPECT_EQ(value, 0.0F) << test::text(way);
        }
    }
}

TEST(FastSpecial, WithoutAnyKScalesMeanNothing) {
    for (const bool with_c : {false, true}) {
        CaseSpec spec{.recipe = *parse_recipe("row:row"), .m = 20, .n = 10, .with_c = with_c, .alpha = nan};
        Case test_case(spec);
        for (const Tensor& scales : {test_case.problem().a.scales, test_case.problem().b.scales}) {
            for (std::int64_t i = 0; i < element_count(scales); ++i) {
                put_code(scales, i, __builtin_bit_cast(std::uint32_t, -infinity));
            }
        }
        for (const cpu::FastOptions& way : test::ways()) {
            test_case.reset_output();
            cpu::run_fast(test_case.geometry(), way);
            for (std::int64_t i = 0; i < spec.m * spec.n; ++i) {
                const Tensor& c = test_case.problem().c;
                const double expected = with_c ? formats::load(c.data, c.format, i) : 0;
                EXPECT_EQ(test_case.output_at(0, i / spec.n, i % spec.n), expected);
            }
        }
    }
}

/// NaN in one row of A or of B: all other elements keep their bits.
TEST(FastSpecial, IsolatesNan) {
    for (const char* name : {"tensor:tensor", "1x128:128x128", "mxfp8:mxfp8", "bf16:bf16"}) {
        for (const std::int64_t m : {5, 40}) {
            const CaseSpec spec{.recipe = *parse_recipe(name), .output = Format::f32, .m = m, .n = 30, .k = 192};
            Case clean(spec);
            Case spoilt(spec);
            const Tensor& a = spoilt.problem().a.values;
            const Tensor& b = spoilt.problem().b.values;
            put_code(a, 3 * spec.k + 7, formats::fields(a.format).all_ones());
            put_code(b, 11 * spec.k + 190, formats::fields(b.format).all_ones());
            for (const cpu::FastOptions& way : test::ways()) {
                cpu::run_fast(clean.geometry(), way);
                cpu::run_fast(spoilt.geometry(), way);
                for (std::int64_t i = 0; i < spec.m * spec.n; ++i) {
                    const std::int64_t row = i / spec.n;
                    const std::int64_t column = i % spec.n;
                    const std::uint32_t expected =
                        row == 3 || column == 11 ? 0x7FFF'FFFFU : clean.output_bits(0, row, column);
                    ASSERT_EQ(spoilt.output_bits(0, row, column), expected) << name << " " << test::text(way);
                }
            }
        }
    }
}

}  // namespace
}  // namespace tilewright
