// Fewer rows never take noticeably longer. Time depends on the total rows of the groups, not on how they share them,
// nor on groups and rows without work.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "bench/gpu_operands.h"
#include "gpu/recipes.h"
#include "measure/timing.h"

namespace tilewright::test {
namespace {

constexpr std::int64_t most_rows = 64;
// Disturbances of a call of 10 us (a neighbour, the profiler, the clock) make it slower, never faster. The best of
// several medians is therefore the kernel's own time.
//
// Every other race runs backwards. The first call of a kernel after another kernel finds no instructions in the SMs'
// caches. This costs 0.2 to 0.3 us, which its neighbour in m does not pay.
constexpr int races = 12;
static_assert(races % 2 == 0, "at the end m ascends again");
constexpr int calls_each = 10;
constexpr double tolerance = 1.05;  // for what is left of the noise

/// The first `m` rows of the problem, in the same memory: nothing but m differs.
Problem first_rows(const bench::GpuOperands& operands, std::int64_t m) {
    Problem problem = operands.on_device();
    problem.a.values.shape[0] = m;
    problem.a.scales.shape[0] = m;
    problem.d.shape[0] = m;
    return problem;
}

TEST(GpuTime, FewerRowsDoNotTakeLonger) {
    const measure::Device device;
    measure::Stopwatch stopwatch(device, measure::Flush::clean);
    const bench::GpuOperands operands({.recipe = recipe_of("1x128:128x128"), .m = most_rows, .n = 7168, .k = 2048},
                                      bench::ScaleLayout::m);
    std::vector<measure::Contestant> contestants;
    for (std::int64_t m = 1; m <= most_rows; ++m) {
        contestants.push_back(
            {.name = std::to_string(m), .call = [problem = first_rows(operands, m)](cuda::StreamHandle stream) {
                 run(problem, {.backend = Backend::hopper, .stream = stream});
             }});
    }
    std::vector<double> best(contestants.size(), std::numeric_limits<double>::infinity());
    for (int race = 0; race < races; ++race) {
        const std::vector<measure::Measurement> measured = stopwatch.race(contestants, calls_each);
        for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], measured[i].seconds);
        std::ranges::reverse(contestants);
        std::ranges::reverse(best);
    }
    for (std::size_t i = 0; i + 1 < best.size(); ++i) {
        const auto least = std::min_element(best.begin() + static_cast<std::ptrdiff_t>(i) + 1, best.end());
        EXPECT_LE(best[i], *least * tolerance) << "seconds of m = " << i + 1 << " and m = " << least - best.begin() + 1;
    }
}

/// Seconds of a grouped call; `entries` is what its sizes or indices say.
double seconds_of(const ProblemSizes& sizes, const std::vector<std::int64_t>& entries) {
    const measure::Device device;
    measure::Stopwatch stopwatch(device, measure::Flush::clean);
    const bench::GpuOperands operands(sizes, bench::ScaleLayout::k, entries);
    const Problem problem = operands.on_device();
    const std::array calls{measure::Contestant{.name = "groups", .call = [&problem](cuda::StreamHandle stream) {
                                                   run(problem, {.backend = Backend::hopper, .stream = stream});
                                               }}};
    return stopwatch.race(calls, calls_each)[0].seconds;
}

double seconds_of_groups(const std::vector<std::int64_t>& rows, std::int64_t n, std::int64_t k) {
    std::vector<std::int64_t> ends(rows.size());
    std::partial_sum(rows.begin(), rows.end(), ends.begin());
    return seconds_of({.grouping = Grouping::m_grouped_offsets,
                       .recipe = recipe_of("1x128:128x128"),
                       .m = ends.back(),
                       .n = n,
                       .k = k,
                       .groups = static_cast<std::int64_t>(rows.size())},
                      ends);
}

double seconds_of_masked(const std::vector<std::int64_t>& rows, std::int64_t expected) {
    return seconds_of({.grouping = Grouping::m_grouped_masked,
                       .recipe = recipe_of("1x128:128x128"),
                       .m = 2048,
                       .n = 4096,
                       .k = 2048,
                       .groups = static_cast<std::int64_t>(rows.size()),
                       .expected_m = expected},
                      rows);
}

// One warp of each block looks through the indices, at 0.4 ns a row in long runs: products must be worth it
// (docs/hopper_lessons.md).
double seconds_of_indices(const std::vector<std::int64_t>& group_of_row, std::int64_t groups) {
    return seconds_of({.grouping = Grouping::m_grouped_indices,
                       .recipe = recipe_of("1x128:128x128"),
                       .m = static_cast<std::int64_t>(group_of_row.size()),
                       .n = 4096,
                       .k = 7168,
                       .groups = groups},
                      group_of_row);
}

// One group of many rows costs at most a tenth of the rate that the same rows have when they are spread evenly.
TEST(GpuTime, OneHotGroupTakesAsLongAsAnEvenSplit) {
    constexpr std::int64_t part = 256;
    for (std::int64_t parts_of_hot : {30, 100}) {
        std::vector<std::int64_t> hot(8, part);
        hot[0] = parts_of_hot * part;
        const std::vector<std::int64_t> even(8, (parts_of_hot + 7) * part / 8);
        const double skewed = seconds_of_groups(hot, 4096, 7168), balanced = seconds_of_groups(even, 4096, 7168);
        fmt::print("{}:1:1:1:1:1:1:1 of {} rows: {:.1f} us, {:.3f} of the even split's rate\n", parts_of_hot, part,
                   skewed * 1e6, balanced / skewed);
        EXPECT_GE(balanced / skewed, 0.90);
    }
}

TEST(GpuTime, SkewedMasksTakeLittleLongerThanEvenOnes) {
    const double skewed = seconds_of_masked({2048, 16, 16, 16, 16, 16, 16, 16}, 270);
    const double balanced = seconds_of_masked(std::vector<std::int64_t>(8, 270), 270);
    fmt::print("masked 2048 and 7 x 16: {:.1f} us, 8 x 270: {:.1f} us\n", skewed * 1e6, balanced * 1e6);
    EXPECT_LE(skewed, 1.3 * balanced);
}

// One warp of each block reads all sizes before the block knows that no more tiles follow.
TEST(GpuTime, OneRowInManyGroupsCostsLittleMoreThanTheRow) {
    const auto seconds = [](const std::vector<std::int64_t>& rows, std::int64_t expected) {
        return seconds_of({.grouping = Grouping::m_grouped_masked,
                           .recipe = recipe_of("1x128:128x128"),
                           .m = 16,
                           .n = 1024,
                           .k = 2048,
                           .groups = static_cast<std::int64_t>(rows.size()),
                           .expected_m = expected},
                          rows);
    };
    std::vector<std::int64_t> sparse(512, 0);
    sparse[300] = 1;
    for (const std::int64_t expected : {0, 1}) {
        const double among_many = seconds(sparse, expected), alone = seconds({1}, expected);
        fmt::print("one row in 512 groups: {:.1f} us, alone: {:.1f} us\n", among_many * 1e6, alone * 1e6);
        EXPECT_LE(among_many, alone + 5e-6);
    }
}

TEST(GpuTime, EmptyGroupsCostLittle) {
    std::vector<std::int64_t> sparse(60, 0);
    for (std::size_t i = 3; i < sparse.size(); i += 10) sparse[i] = 1024;
    const double spread = seconds_of_groups(sparse, 4096, 2048);
    const double compact = seconds_of_groups(std::vector<std::int64_t>(6, 1024), 4096, 2048);
    fmt::print("6 of 60 groups: {:.1f} us, 6 of 6: {:.1f} us\n", spread * 1e6, compact * 1e6);
    EXPECT_LE(spread, 1.1 * compact);
}

TEST(GpuTime, RowsWithoutAGroupBehindTheOthersCostLittle) {
    std::vector<std::int64_t> dense(6144);
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<std::int64_t>(i / 1024);
    std::vector<std::int64_t> sparse = dense;
    sparse.resize(10 * dense.size(), -1);
    const double spread = seconds_of_indices(sparse, 6), compact = seconds_of_indices(dense, 6);
    fmt::print("6144 rows of a buffer for ten times as many: {:.1f} us, these alone: {:.1f} us\n", spread * 1e6,
               compact * 1e6);
    EXPECT_LE(spread, 1.1 * compact);
}

// Eight groups of 1,024 rows in a buffer for twice as many: DeepGEMM's callers allocate for the worst case.
TEST(GpuTime, HalfOfABufferWithoutAGroupCostsNothing) {
    std::vector<std::int64_t> dense(8192);
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<std::int64_t>(i / 1024);
    std::vector<std::int64_t> sparse = dense;
    sparse.resize(2 * dense.size(), -1);
    const double spread = seconds_of_indices(sparse, 8), compact = seconds_of_indices(dense, 8);
    fmt::print("64 of 128 blocks of rows: {:.1f} us, these alone: {:.1f} us\n", spread * 1e6, compact * 1e6);
    EXPECT_LE(spread, 1.03 * compact);
}

TEST(GpuTime, OneGroupOfAllRowsTakesAsLongAsADenseCall) {
    const double group = seconds_of_groups({4096}, 4096, 4096);
    const double dense = seconds_of({.recipe = recipe_of("1x128:128x128"), .m = 4096, .n = 4096, .k = 4096}, {});
    fmt::print("one group of 4096 rows: {:.1f} us, dense: {:.1f} us\n", group * 1e6, dense * 1e6);
    EXPECT_LE(group, 1.04 * dense);
}

TEST(GpuTime, BlocksOfRowsWithoutAGroupCostLittle) {
    constexpr std::int64_t block = 128, blocks = 480;
    std::vector<std::int64_t> sparse, dense;
    for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t group = i % 80 < 8 ? i / 80 : -1;
        sparse.insert(sparse.end(), block, group);
        if (group >= 0) dense.insert(dense.end(), block, group);
    }
    const double spread = seconds_of_indices(sparse, 6), compact = seconds_of_indices(dense, 6);
    fmt::print("8 of each 80 blocks of rows: {:.1f} us, these alone: {:.1f} us\n", spread * 1e6, compact * 1e6);
    EXPECT_LE(spread, 1.1 * compact);
}

}  // namespace
}  // namespace tilewright::test
