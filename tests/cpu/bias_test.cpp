// A bias on the CPU: written out with whole numbers, apart from the library's own geometry; and by the gates, in both
// arithmetics, for every recipe and grouping.
#include "cpu/exact/exact.h"
#include "cpu/fast/cases.h"
#include "problem/canonical_order.h"

#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tilewright {
namespace {

using check::Case;
using check::CaseSpec;

constexpr std::array groupings{Grouping::dense,
                               Grouping::batched,
                               Grouping::m_grouped_indices,
                               Grouping::m_grouped_offsets,
                               Grouping::m_grouped_aligned_offsets,
                               Grouping::m_grouped_masked};
constexpr Format outputs[] = {Format::bf16, Format::f16, Format::f32};

/// Every recipe in every grouping; the other choices in turn.
std::vector<CaseSpec> specs() {
    std::vector<CaseSpec> list;
    std::uint64_t seed = 0;
    for (const Recipe& recipe : all_recipes()) {
        for (const Grouping grouping : groupings) {
            ++seed;
            list.push_back(
                {.grouping = grouping,
                 .recipe = recipe,
                 .layout = static_cast<Layout>(seed % 4),
                 .output = outputs[seed % 3],
                 .m = seed % 5 == 0 ? 1 : 18,
                 .n = seed % 7 == 0 ? 2 : 24,
                 .k = seed % 11 == 0 ? 0 : 160,
                 .groups = grouping == Grouping::dense ? 1 : 3,
                 .alignment = 4,
                 .distribution = seed % 2 == 0 ? check::Distribution::normal : check::Distribution::exact_grid,
                 .seed = seed,
                 .with_bias = true,
                 .shared_bias = seed % 3 == 1,
                 .bias_format = seed % 2 == 0 ? Format::bf16 : Format::f32,
                 .alpha = seed % 4 == 0 ? -2.0F : 1.0F,
                 .d_gaps = {.row = static_cast<std::int64_t>(seed % 3)},
                 .bias_gaps = {.element = static_cast<std::int64_t>(seed % 3), .row = 1}});
            if (test::is_packed(recipe) && list.back().m == 1) list.back().m = 2;
        }
    }
    return list;
}

TEST(Bias, PassesTheGatesInBothArithmetics) {
    const std::vector<cpu::FastOptions> ways = test::ways();
    std::size_t turn = 0;
    for (const CaseSpec& spec : specs()) {
        ASSERT_EQ(check::impossible(spec), "") << check::describe(spec);
        Case test_case(spec);
        ASSERT_EQ(validate(test_case.problem()).size(), 0U) << check::describe(spec);
        ASSERT_EQ(test::failure(test_case, ways[turn++ % ways.size()]), "");
        if (!canonical_order(spec.recipe, spec.accumulation)) continue;
        test_case.problem().arithmetic = Arithmetic::bit_exact;
        test_case.reset_output();
        cpu::run_exact(test_case.geometry());
        const check::Judgement judgement = check::judge(test_case);
        ASSERT_TRUE(judgement.pass()) << check::describe(spec) << "\n" << judgement.text();
    }
}

/// Rows 0 to 5 of A are all row + 1, rows of B all 1 + the group, k is 4: sums are 4 (row + 1) (group + 1). Bias
/// 100 group + column.
class WholeNumbers {
public:
    static constexpr std::int64_t m = 6, n = 3, k = 4, groups = 3;

    explicit WholeNumbers(Format bias_format) : format_(bias_format) {
        for (std::int64_t group = 0; group < groups; ++group) {
            for (std::int64_t row = 1; row <= m; ++row) a_.insert(a_.end(), k, static_cast<float>(row));
            b_.insert(b_.end(), n * k, static_cast<float>(group + 1));
            for (std::int64_t column = 0; column < n; ++column) {
                const float value = bias(group, column);
                wide_.push_back(value);
                narrow_.push_back(static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16));
            }
        }
    }

    static float bias(std::int64_t group, std::int64_t column) { return static_cast<float>(100 * group + column); }
    static float sum(std::int64_t group, std::int64_t row) { return static_cast<float>(4 * (row + 1) * (group + 1)); }

    /// D of a call, -1 where nothing was written.
    std::vector<float> run(Grouping grouping, std::vector<std::int32_t> sizes, float alpha = 1) {
        const bool separate = grouping == Grouping::batched || grouping == Grouping::m_grouped_masked;
        const bool dense = grouping == Grouping::dense;
        std::vector<float> d(static_cast<std::size_t>(groups * m * n), -1.0F);
        Problem problem;
        problem.a.values = row_major(a_.data(), Format::f32, separate ? Dims{groups, m, k} : Dims{m, k});
        problem.b.values = row_major(b_.data(), Format::f32, dense ? Dims{n, k} : Dims{groups, n, k});
        problem.d = row_major(d.data(), Format::f32, separate ? Dims{groups, m, n} : Dims{m, n});
        void* const memory = format_ == Format::f32 ? static_cast<void*>(wide_.data()) : narrow_.data();
        problem.bias = row_major(memory, format_, dense ? Dims{n} : Dims{groups, n});
        problem.groups.grouping = grouping;
        problem.groups.alignment = 2;
        problem.alpha = alpha;
        if (!sizes.empty())
            problem.groups.sizes = row_major(sizes.data(), Format::i32, {static_cast<std::int64_t>(sizes.size())});
        tilewright::run(problem);
        return d;
    }

private:
    Format format_;
    std::vector<float> a_, b_, wide_;
    std::vector<std::uint16_t> narrow_;
};

/// The group of each row of D; -1: not written.
std::vector<float> expected(const std::vector<int>& row_groups, float alpha = 1) {
    using W = WholeNumbers;
    std::vector<float> d(static_cast<std::size_t>(W::groups * W::m * W::n), -1.0F);
    for (std::size_t row = 0; row < row_groups.size(); ++row) {
        for (std::int64_t column = 0; row_groups[row] >= 0 && column < W::n; ++column) {
            d[row * W::n + static_cast<std::size_t>(column)] =
                W::bias(row_groups[row], column) +
                alpha * W::sum(row_groups[row], static_cast<std::int64_t>(row) % W::m);
        }
    }
    return d;
}

TEST(Bias, IsThatOfTheRowsGroupAndOfTheColumn) {
    for (const Format format : {Format::f32, Format::bf16}) {
        WholeNumbers numbers(format);
        EXPECT_EQ(numbers.run(Grouping::dense, {}), expected({0, 0, 0, 0, 0, 0}));
        EXPECT_EQ(numbers.run(Grouping::dense, {}, -2), expected({0, 0, 0, 0, 0, 0}, -2));
        EXPECT_EQ(numbers.run(Grouping::batched, {}), expected({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
        EXPECT_EQ(numbers.run(Grouping::m_grouped_indices, {2, -1, 0, 2, 1, 7}), expected({2, -1, 0, 2, 1, -1}));
        EXPECT_EQ(numbers.run(Grouping::m_grouped_offsets, {1, 1, 5}), expected({0, 2, 2, 2, 2, -1}));
        EXPECT_EQ(numbers.run(Grouping::m_grouped_aligned_offsets, {1, 4, 5}), expected({0, -1, 1, 1, 2, -1}));
        EXPECT_EQ(numbers.run(Grouping::m_grouped_masked, {1, 0, 2}),
                  expected({0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 2, -1, -1, -1, -1}));
    }
}

}  // namespace
}  // namespace tilewright
