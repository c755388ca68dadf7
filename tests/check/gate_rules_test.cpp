// The rules of the gates where numbers end: NaN, infinities, overflow of the output, poison; and what reports say.
#include "check/gates.h"
#include "check/limits.h"
#include "cpu/exact/exact.h"
#include "cpu/reference.h"
#include "formats/element.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace tilewright::check {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// D = 1 x 1 x 1 of f32 operands a and 1, with `given` stored as the result.
bool passes(Format output, float a, double given) {
    Case test_case({.recipe = *parse_recipe("f32"), .output = output, .m = 1, .n = 1, .k = 1});
    *static_cast<float*>(test_case.problem().a.values.data) = a;
    *static_cast<float*>(test_case.problem().b.values.data) = 1;
    formats::store(test_case.problem().d.data, output, 0, given);
    return run_gate(Gate::running_bound, test_case.judged_geometry(), {.arithmetic = Arithmetic::fast}).pass();
}

TEST(GateRules, NotFiniteExactlyWhereFloat64IsNot) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (Format output : {Format::bf16, Format::f16, Format::f32}) {
        EXPECT_TRUE(passes(output, nan, nan));
        EXPECT_TRUE(passes(output, std::numeric_limits<float>::infinity(), infinity));
        EXPECT_FALSE(passes(output, nan, 1));
        EXPECT_FALSE(passes(output, std::numeric_limits<float>::infinity(), 1));
        EXPECT_FALSE(passes(output, 1, nan));
        EXPECT_FALSE(passes(output, 1, infinity));
        EXPECT_FALSE(passes(output, 0, nan));
        EXPECT_TRUE(passes(output, 0, 0));
    }
}

TEST(GateRules, OverflowOfTheOutputIsASignedInfinity) {
    EXPECT_TRUE(passes(Format::f16, 1e6F, infinity));
    EXPECT_TRUE(passes(Format::f16, -1e6F, -infinity));
    EXPECT_FALSE(passes(Format::f16, 1e6F, -infinity));
    EXPECT_FALSE(passes(Format::f16, 1e6F, 65504));
    EXPECT_FALSE(passes(Format::f16, 1e6F, std::nan("")));
    EXPECT_FALSE(passes(Format::f16, 60000, infinity));
    EXPECT_TRUE(passes(Format::f16, 65520, infinity));  // rounds to infinity
    EXPECT_TRUE(passes(Format::f16, 65519, 65504));     // rounds down; so close, infinity is within the bound too
    EXPECT_TRUE(passes(Format::bf16, 3.39e38F, 3.3895e38));
}

TEST(GateRules, HalfOfALastPlaceIsTheLimitOfOneProduct) {
    EXPECT_TRUE(passes(Format::bf16, 1.00390625F, 1));  // 1 + 2^-8: a tie
    EXPECT_TRUE(passes(Format::bf16, 1.00390625F, 1.0078125));
    EXPECT_FALSE(passes(Format::bf16, 1.003F, 1.0078125 * 1.0001));
    EXPECT_FALSE(passes(Format::bf16, 1.0F, 1.0078125));
    EXPECT_TRUE(passes(Format::f32, 1.0F, 1.0F));
    EXPECT_FALSE(passes(Format::f32, 1.0F, 1.00001));
}

TEST(GateRules, PoisonThatWasNeverOverwrittenFailsEveryGate) {
    for (Distribution distribution : {Distribution::normal, Distribution::exact_grid}) {
        const Case test_case({.recipe = *parse_recipe("1x128:1x128"),
                              .m = 4,
                              .n = 70,
                              .k = 256,
                              .distribution = distribution,
                              .arithmetic = Arithmetic::bit_exact});
        for (const GateReport& report : judge(test_case).reports) {
            EXPECT_EQ(report.pass(), report.gate == Gate::damage) << report.text();
        }
    }
}

TEST(GateRules, ZerosOfEitherSignAreOneValueToTheExactGridOnly) {
    Case test_case({.recipe = *parse_recipe("bf16"),
                    .m = 2,
                    .n = 2,
                    .k = 0,
                    .distribution = Distribution::exact_grid,
                    .arithmetic = Arithmetic::bit_exact});
    formats::store(test_case.problem().d.data, Format::bf16, 0, -0.0);
    for (int i = 1; i < 4; ++i) formats::store(test_case.problem().d.data, Format::bf16, i, 0);
    EXPECT_TRUE(run_gate(Gate::exact_grid, test_case.judged_geometry(), {}).pass());
    EXPECT_EQ(run_gate(Gate::emulation, test_case.judged_geometry(), {}).failed, 1);
}

TEST(GateRules, ReportsNameTheWorstElement) {
    Case test_case({.grouping = Grouping::batched,
                    .recipe = *parse_recipe("mxfp4"),
                    .m = 4,
                    .n = 70,
                    .k = 64,
                    .groups = 2,
                    .arithmetic = Arithmetic::bit_exact});
    cpu::run_exact(test_case.geometry());
    void* const d = test_case.problem().d.data;
    const std::int64_t index = 4 * 70 + 3 * 70 + 17;
    formats::store(d, Format::bf16, index, formats::load(d, Format::bf16, index) + 1000);
    const Judgement judgement = judge(test_case);
    EXPECT_FALSE(judgement.pass());
    for (const GateReport& report : judgement.reports) {
        if (report.gate == Gate::emulation || report.gate == Gate::running_bound) {
            EXPECT_EQ(report.failed, 1);
            EXPECT_EQ(report.where, "group 1, row 3, column 17");
        }
        if (report.gate == Gate::aggregates) {
            EXPECT_EQ(report.failed, 3);  // row, group, whole
            EXPECT_EQ(report.where, "group 1, row 3, column 0..69");
        }
    }
    EXPECT_EQ(judgement.worst().pass(), false);
    EXPECT_NE(judgement.text().find("running bound: 1 of 560 FAILED; worst group 1, row 3, column 17: "),
              std::string::npos);
}

/// docs/numerics.md shows the limits as they are.
TEST(GateRules, TheDocumentedLimitsAreTheOnesInUse) {
    std::ifstream file(TILEWRIGHT_TEST_DATA "/../../docs/numerics.md");
    std::stringstream page;
    page << file.rdbuf();
    for (ErrorClass each : error_classes) {
        std::string row = fmt::format("| {} |", name(each));
        for (std::int64_t k : {4096, 16384}) {
            const Limits numbers = limits(each, k);
            for (double number : {numbers.zero_mean, numbers.same_sign, numbers.magnitude}) {
                row += std::isinf(number) ? " none |" : fmt::format(" {:.2e} |", number);
            }
        }
        row += fmt::format(" {:.2e} | {:.2e} |", limits(each, 4096).group, limits(each, 4096).row);
        EXPECT_NE(page.str().find(row), std::string::npos) << row;
    }
}

/// A right result keeps the fallback that has no running bound, too.
TEST(GateRules, TheMagnitudeFallbackHoldsForRightResults) {
    for (const char* recipe :
         {"tensor", "1x128:128x128", "e5m2.1x128:1x128", "mxfp8", "mxfp8:mxfp4", "mxfp4", "bf16", "nvfp4"}) {
        for (Distribution distribution : random_distributions()) {
            Case test_case({.recipe = *parse_recipe(recipe),
                            .output = Format::f32,
                            .m = 4,
                            .n = 64,
                            .k = 512,
                            .distribution = distribution,
                            .arithmetic = Arithmetic::bit_exact});
            cpu::run_exact(test_case.geometry());
            const Geometry g = test_case.geometry();
            const double limit =
                limits(error_class({g.a.recipe, g.b.recipe}, g.accumulation, Arithmetic::bit_exact), g.k).magnitude;
            const Expected values = expected(g, {.gemm = test_case.gemms().front(), .rows = 4, .columns = 64});
            for (std::size_t i = 0; i < values.exact.size(); ++i) {
                const double given = formats::load(g.d.data, Format::f32, static_cast<std::int64_t>(i));
                ASSERT_LE(std::fabs(given - values.exact[i]), 0x1p-24 * std::fabs(given) + limit * values.magnitude[i])
                    << describe(test_case.spec());
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::check
