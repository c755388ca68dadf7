// Right results pass: every recipe with a canonical order in the bit_exact arithmetic, every recipe in float64 under
// the rules of `fast`, and every distribution.
#include "check/gates.h"

#include "check/limits.h"
#include "cpu/exact/exact.h"
#include "cpu/reference.h"
#include "problem/canonical_order.h"

#include <gtest/gtest.h>

namespace tilewright::check {
namespace {

constexpr Format outputs[] = {Format::bf16, Format::f16, Format::f32};

void expect_pass(const CaseSpec& spec) {
    Case test_case(spec);
    test_case.reset_output();
    if (spec.arithmetic == Arithmetic::bit_exact) {
        cpu::run_exact(test_case.geometry());
    } else {
        cpu::run_reference(test_case.geometry());
    }
    const Judgement judgement = judge(test_case);
    ASSERT_TRUE(judgement.pass()) << describe(spec) << "\n" << judgement.text();
    std::int64_t elements = 0;
    for (const GroupGemm& gemm : test_case.gemms()) elements += gemm.rows * spec.n;
    for (const GateReport& report : judgement.reports) {
        if (report.gate != Gate::aggregates && report.gate != Gate::damage) {
            ASSERT_EQ(report.judged, elements);
        }
    }
}

TEST(Gates, RightResultsOfEveryRecipePass) {
    int number = 0;
    for (const Recipe& recipe : all_recipes()) {
        const bool bit_exact = canonical_order(recipe, Accumulation::promoted).has_value();
        for (Distribution distribution : {Distribution::exact_grid, Distribution::distinct_scales, Distribution::normal,
                                          Distribution::abs_normal}) {
            ++number;
            CaseSpec spec{.recipe = recipe,
                          .layout = static_cast<Layout>(number % 4),
                          .output = outputs[number % 3],
                          .m = 10,
                          .n = 70,
                          .k = number % 2 == 0 ? 592 : 272,
                          .distribution = distribution,
                          .seed = static_cast<std::uint64_t>(number),
                          .with_c = number % 5 < 2,
                          .in_place = number % 5 == 0,
                          .alpha = number % 4 == 0 ? 0.5F : 1.0F,
                          .arithmetic = bit_exact ? Arithmetic::bit_exact : Arithmetic::fast};
            expect_pass(spec);
            spec.m = spec.n = 6;
            spec.arithmetic = Arithmetic::fast;
            expect_pass(spec);
        }
    }
}

TEST(Gates, RightResultsOfEveryDistributionPass) {
    for (const char* recipe : {"tensor", "1x128:128x128", "e5m2.1x128:1x128", "mxfp8", "1x128:mxfp4", "mxfp4", "bf16",
                               "nvfp4", "bf16:nvfp4"}) {
        for (Distribution distribution : random_distributions()) {
            for (std::int64_t k : {128, 1152}) {
                for (Format output : {Format::bf16, Format::f32}) {
                    expect_pass({.recipe = *parse_recipe(recipe),
                                 .output = output,
                                 .m = 8,
                                 .n = 130,
                                 .k = k,
                                 .distribution = distribution,
                                 .arithmetic = Arithmetic::bit_exact});
                }
            }
        }
    }
}

TEST(Gates, UnpromotedPassesAsUnpromotedAndFailsAsPromoted) {
    for (Distribution distribution : {Distribution::normal, Distribution::abs_normal}) {
        const CaseSpec spec{.recipe = *parse_recipe("row"),
                            .output = Format::f32,
                            .m = 8,
                            .n = 128,
                            .k = 2048,
                            .distribution = distribution,
                            .accumulation = Accumulation::unpromoted,
                            .arithmetic = Arithmetic::bit_exact};
        expect_pass(spec);
        Case test_case(spec);
        cpu::run_exact(test_case.geometry());
        test_case.problem().accumulation = Accumulation::promoted;
        EXPECT_FALSE(judge(test_case).pass());
    }
}

TEST(Gates, GroupingsPassAndAnEmptyProblemHasNothingToJudge) {
    for (Grouping grouping : {Grouping::batched, Grouping::m_grouped_indices, Grouping::m_grouped_offsets,
                              Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_masked, Grouping::k_grouped}) {
        for (Distribution distribution : {Distribution::normal, Distribution::exact_grid}) {
            expect_pass({.grouping = grouping,
                         .recipe = *parse_recipe("1x128:1x128"),
                         .m = 40,
                         .n = 66,
                         .k = 300,
                         .groups = 5,
                         .alignment = 8,
                         .distribution = distribution,
                         .with_c = true,
                         .arithmetic = Arithmetic::bit_exact,
                         .d_gaps = {.row = 3, .group = 1}});
        }
    }
    expect_pass({.recipe = *parse_recipe("bf16"), .m = 0, .n = 4, .k = 8, .arithmetic = Arithmetic::bit_exact});
    expect_pass({.recipe = *parse_recipe("bf16"), .m = 4, .n = 4, .k = 0, .with_c = true});
}

/// One element in 64 million may be wrong and unseen; a row, a column edge, a group's end may not.
TEST(Gates, LargeOutputsAreSampledAtTheirEdges) {
    CaseSpec spec{.grouping = Grouping::m_grouped_offsets,
                  .recipe = *parse_recipe("mxfp4"),
                  .m = 600,
                  .n = 2000,
                  .k = 64,
                  .groups = 3,
                  .group_sizes = {200, 100, 300},
                  .arithmetic = Arithmetic::bit_exact};
    Case test_case(spec);
    cpu::run_exact(test_case.geometry());
    const std::vector<std::byte> right = test_case.output();
    const Effort effort{.elements = 1000};
    const Judgement judgement = judge(test_case, effort);
    EXPECT_TRUE(judgement.pass()) << judgement.text();
    EXPECT_LT(judgement.reports.front().judged, 60000);
    for (std::int64_t row : {0, 199, 200, 299, 300, 599}) {
        for (std::int64_t column : {0, 1999}) {
            std::vector<std::byte> wrong = right;
            wrong[static_cast<std::size_t>((row * 2000 + column) * 2 + 1)] ^= std::byte{0x80};
            test_case.set_output(wrong);
            EXPECT_FALSE(judge(test_case, effort).pass()) << row << " " << column;
        }
    }
}

TEST(Gates, FullEmulationSeesOneBitAnywhere) {
    Case test_case({.grouping = Grouping::m_grouped_masked,
                    .recipe = *parse_recipe("1x128:128x128"),
                    .m = 30,
                    .n = 50,
                    .k = 200,
                    .groups = 4,
                    .with_c = true,
                    .in_place = true,
                    .arithmetic = Arithmetic::bit_exact});
    test_case.reset_output();
    cpu::run_exact(test_case.geometry());
    EXPECT_TRUE(full_emulation_gate(test_case.judged_geometry()).pass());
    const GroupGemm& last = test_case.gemms().back();
    const Dims& strides = test_case.problem().d.strides;
    auto* const d = static_cast<std::uint16_t*>(test_case.problem().d.data);
    d[last.group * strides[0] + (last.rows - 1) * strides[1] + 49] ^= 1;
    const GateReport report = full_emulation_gate(test_case.judged_geometry());
    EXPECT_EQ(report.failed, 1);
    EXPECT_EQ(report.where,
              "group " + std::to_string(last.group) + ", row " + std::to_string(last.rows - 1) + ", column 49");
}

}  // namespace
}  // namespace tilewright::check
