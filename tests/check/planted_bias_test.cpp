// What a kernel with a mistake in its bias would return is caught by the gates, on data that cancel and on data that do
// not.
#include "check/gates.h"
#include "cpu/exact/exact.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace tilewright::check {
namespace {

constexpr std::int64_t groups = 3;
constexpr std::int64_t n = 70;

CaseSpec spec_of(Distribution distribution, Format output) {
    return {.grouping = Grouping::m_grouped_offsets,
            .recipe = *parse_recipe("1x128:128x128"),
            .output = output,
            .m = 70,
            .n = n,
            .k = 272,
            .groups = groups,
            .group_sizes = {30, 25, 15},
            .distribution = distribution,
            .with_bias = true,
            .bias_format = Format::f32,
            .alpha = 0.5F,
            .arithmetic = Arithmetic::bit_exact};
}

using Bias = std::vector<float>;  // [groups, n]

struct PlantedBug {
    std::string name;
    std::function<void(Bias&)> edit;
};

const std::vector<PlantedBug>& planted_bugs() {
    static const std::vector<PlantedBug> list{
        {"the next group's", [](Bias& bias) { std::rotate(bias.begin(), bias.begin() + n, bias.end()); }},
        {"the first group's for all",
         [](Bias& bias) {
             for (std::size_t i = n; i < bias.size(); ++i) bias[i] = bias[i - n];
         }},
        {"the next column's", [](Bias& bias) { std::rotate(bias.begin(), bias.begin() + 1, bias.end()); }},
        {"one column's for its neighbour", [](Bias& bias) { bias[n + 8] = bias[n + 9]; }},
        {"none", [](Bias& bias) { std::fill(bias.begin(), bias.end(), 0.0F); }},
        {"multiplied by alpha",
         [](Bias& bias) {
             for (float& each : bias) each *= 0.5F;
         }},
        {"read as bf16",
         [](Bias& bias) {
             const Bias given = bias;
             for (std::size_t i = 0; i < bias.size(); ++i)
                 bias[i] = static_cast<float>(formats::load(given.data(), Format::bf16, static_cast<std::int64_t>(i)));
         }},
    };
    return list;
}

/// The verdict on the result of a call whose bias was edited.
Judgement judged(const CaseSpec& spec, const std::function<void(Bias&)>& edit) {
    Case wrong(spec);
    auto* const memory = static_cast<float*>(wrong.problem().bias.data);
    Bias bias(memory, memory + groups * n);
    edit(bias);
    std::copy(bias.begin(), bias.end(), memory);
    cpu::run_exact(wrong.geometry());
    Case right(spec);
    right.set_output(wrong.output());
    return judge(right);
}

bool passes(const Judgement& judgement, Gate gate) {
    const auto report = std::ranges::find(judgement.reports, gate, &GateReport::gate);
    return report == judgement.reports.end() || report->pass();
}

TEST(PlantedBias, IsCaughtByEachGateThatItShows) {
    for (const Distribution distribution : {Distribution::normal, Distribution::abs_normal}) {
        for (const Format output : {Format::bf16, Format::f32}) {
            const CaseSpec spec = spec_of(distribution, output);
            SCOPED_TRACE(describe(spec));
            EXPECT_TRUE(judged(spec, [](Bias&) {}).pass());
            for (const PlantedBug& bug : planted_bugs()) {
                const Judgement judgement = judged(spec, bug.edit);
                EXPECT_FALSE(passes(judgement, Gate::emulation)) << bug.name;
                EXPECT_FALSE(passes(judgement, Gate::running_bound)) << bug.name;
                EXPECT_TRUE(passes(judgement, Gate::damage)) << bug.name;
            }
        }
    }
}

/// Added to D, not to the sum.
TEST(PlantedBias, IsCaughtWhereDWasRoundedBefore) {
    for (const Distribution distribution : {Distribution::normal, Distribution::abs_normal}) {
        const CaseSpec spec = spec_of(distribution, Format::bf16);
        CaseSpec without = spec;
        without.with_bias = false;
        Case sums(without);
        Case late(spec);
        cpu::run_exact(sums.geometry());
        const Geometry g = late.geometry();
        for (const GroupGemm& gemm : late.gemms()) {
            for (std::int64_t row = gemm.row_begin; row < gemm.row_begin + gemm.rows; ++row) {
                for (std::int64_t column = 0; column < n; ++column) {
                    const double bias = formats::load(g.c.data, g.addend(), output_index(g.c, gemm.group, row, column));
                    formats::store(g.d.data, g.output, output_index(g.d, gemm.group, row, column),
                                   sums.output_at(gemm.group, row, column) + bias);
                }
            }
        }
        const Judgement judgement = judge(late);
        EXPECT_FALSE(passes(judgement, Gate::emulation)) << describe(spec);
        if (distribution == Distribution::normal) {
            EXPECT_FALSE(passes(judgement, Gate::running_bound)) << "where sum and bias cancel";
        }
    }
}

}  // namespace
}  // namespace tilewright::check
