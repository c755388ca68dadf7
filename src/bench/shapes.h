// What `tilewright bench` multiplies: the layers of known models, or sizes that the user gives.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/case.h"
#include "check/user_sizes.h"

namespace tilewright::bench {

/// A call by its sizes. `m` is the mean number of rows of a group (dense, batched: all rows); k-grouped: `k` is the
/// mean contraction of a group.
struct BenchShape {
    Grouping grouping = Grouping::dense;
    std::int64_t groups = 1;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t max_m = 0;             // masked only
    std::vector<std::int64_t> sizes{};  // of the groups; empty: `group_sizes` draws them

    /// The hint of masked calls: their callers pass int(1.2 x mean).
    std::int64_t expected_m() const;
};

/// deepseek-v3, qwen3-235b, gpt-oss, llama-70b.
std::vector<std::string> suite_names();

/// Every layer of a model, with each of these row counts. Models without experts have dense layers only.
std::vector<BenchShape> suite_shapes(const std::string& suite, const std::vector<Grouping>& groupings,
                                     const std::vector<std::int64_t>& rows, std::int64_t groups);

BenchShape user_shape(Grouping grouping, check::UserSizes sizes);

/// Random shapes from a seed, as users have them (check/user_sizes.h). A grouping's shapes do not depend on the other
/// groupings in the list.
std::vector<BenchShape> random_shapes(int count, std::uint64_t seed,
                                      const std::vector<Grouping>& groupings = {Grouping::dense});

/// The sizes of the groups: rows, or k for k-grouped calls. They are the shape's, or uniform between 0.7 and 1.3 of the
/// mean (benchmarks/peers/README.md); k in multiples of 128. Empty for dense and batched.
std::vector<std::int64_t> group_sizes(const BenchShape& shape);

/// The shape with rows (k-grouped: k) that groups share unevenly. The first group has `times` those of each other
/// group. The other groups' are rounded down, k to a multiple of 128. The sum stays groups x mean, so that rates
/// compare.
BenchShape with_hot_group(BenchShape shape, std::int64_t times);

/// Grouping and sizes of a test case. m or k is the sum over groups if these follow one another.
check::CaseSpec grouped_case(const BenchShape& shape);

/// "m_grouped_contiguous" for all its three descriptions, else the grouping's name.
std::string operation_name(Grouping grouping);

/// The key of a shape in records:
/// - dense [m, n, k]; batched [groups, m, n, k];
/// - m_grouped_contiguous [groups, mean m, n, k];
/// - m_grouped_masked [groups, max m, mean m, n, k];
/// - k-grouped [groups, m, n, mean k].
std::vector<std::int64_t> shape_key(const BenchShape& shape);

/// The same as "[m, n, k]".
std::string shape_text(const BenchShape& shape);

/// A key's shape; nothing where there are too many numbers or too few.
std::optional<BenchShape> shape_of_key(Grouping grouping, const std::vector<std::int64_t>& key);

}  // namespace tilewright::bench
