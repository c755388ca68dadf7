// Many groups, one hot group, rows in any order; the same bits from run to run and for any number of threads; the
// process's OpenBLAS left as it was.
#include "cpu/fast/blocking.h"
#include "cpu/fast/cases.h"
#include "cpu/fast/micro_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilewright {
namespace {

using check::Case;
using check::CaseSpec;
using check::Distribution;

/// Exact data, so that every way gives the bits that one of them is judged by.
void expect_right_in_every_way(const CaseSpec& spec) {
    ASSERT_EQ(check::impossible(spec), "");
    ASSERT_TRUE(check::is_exact(spec.distribution));
    Case test_case(spec);
    std::vector<std::byte> judged;
    for (const cpu::FastOptions& way : test::ways()) {
        if (judged.empty()) {
            EXPECT_EQ(test::failure(test_case, way), "");
            judged = test_case.output();
            continue;
        }
        test_case.reset_output();
        cpu::run_fast(test_case.geometry(), way);
        EXPECT_TRUE(test_case.output() == judged) << test::text(way);
        EXPECT_EQ(test_case.damage(), "") << test::text(way);
    }
}

TEST(FastGroups, Thousands) {
    for (Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::batched}) {
        expect_right_in_every_way({.grouping = grouping,
                                   .recipe = *parse_recipe("1x128:128x128"),
                                   .m = grouping == Grouping::m_grouped_offsets ? 4000 : 3,
                                   .n = 10,
                                   .k = 40,
                                   .groups = 3000,
                                   .distribution = Distribution::exact_grid});
    }
    expect_right_in_every_way({.grouping = Grouping::k_grouped,
                               .recipe = *parse_recipe("row:row"),
                               .layout = Layout::tn,
                               .m = 10,
                               .n = 12,
                               .k = 9000,
                               .groups = 2000,
                               .distribution = Distribution::exact_grid});
}

TEST(FastGroups, OneHot) {
    std::vector<std::int64_t> sizes(256);
    sizes[100] = 80;
    expect_right_in_every_way({.grouping = Grouping::m_grouped_offsets,
                               .recipe = *parse_recipe("mxfp8:mxfp4"),
                               .m = 80,
                               .n = 130,
                               .k = 96,
                               .groups = 256,
                               .group_sizes = sizes,
                               .distribution = Distribution::exact_grid});
}

/// Rows of all groups in turn, and rows of none in between.
TEST(FastGroups, AlternatingIndices) {
    for (std::int64_t m : {40, 300}) {
        std::vector<std::int64_t> entries;
        for (std::int64_t row = 0; row < m; ++row) entries.push_back(row % 7 == 6 ? -1 : row * row % 5);
        for (Layout layout : {Layout::nt, Layout::tn}) {
            expect_right_in_every_way({.grouping = Grouping::m_grouped_indices,
                                       .recipe = *parse_recipe("1x128:128x128"),
                                       .layout = layout,
                                       .m = m,
                                       .n = 20,
                                       .k = 200,
                                       .groups = 5,
                                       .size_entries = entries,
                                       .distribution = Distribution::exact_grid,
                                       .with_c = true});
        }
    }
}

/// The work of one hot group is cut finely enough for many cores, and that of many groups into one parallel loop.
TEST(FastGroups, WorkIsCutForManyCores) {
    std::vector<std::int64_t> entries(256, 0);
    std::fill(entries.begin() + 77, entries.end(), 32);
    Problem problem{
        .a = {.values = row_major(static_cast<void*>(nullptr), Format::bf16, {32, 512})},
        .b = {.values = row_major(static_cast<void*>(nullptr), Format::bf16, {256, 4096, 512})},
        .d = row_major(static_cast<void*>(nullptr), Format::bf16, {32, 4096}),
        .groups = {.grouping = Grouping::m_grouped_offsets, .sizes = row_major(entries.data(), Format::i64, {256})}};
    const Geometry g = geometry(problem);
    const cpu::Blocking hot = cpu::plan_blocking(g, cpu::baseline::fast_kernels(), cpu::Method::panels);
    ASSERT_EQ(hot.passes.size(), 1U);
    EXPECT_GE(hot.passes[0].tiles.size(), 64U);

    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int64_t>(i / 8);
    const cpu::Blocking many = cpu::plan_blocking(g, cpu::baseline::fast_kernels(), cpu::Method::panels);
    EXPECT_EQ(many.passes.size(), 1U);
}

TEST(FastRepeats, SameBitsFromRunToRunAndForAnyNumberOfThreads) {
    for (const char* recipe : {"1x128:128x128", "mxfp4:mxfp4", "f32:f32"}) {
        for (std::int64_t m : {3, 70}) {
            Case test_case({.grouping = Grouping::m_grouped_offsets,
                            .recipe = *parse_recipe(recipe),
                            .output = Format::f32,
                            .m = m,
                            .n = 250,
                            .k = 700,
                            .groups = 3});
            for (cpu::FastOptions way : test::ways()) {
                std::vector<std::byte> first;
                for (int threads : {1, 1, 2, 3, 7, 0}) {
                    way.threads = threads;
                    test_case.reset_output();
                    cpu::run_fast(test_case.geometry(), way);
                    if (first.empty()) first = test_case.output();
                    EXPECT_TRUE(test_case.output() == first) << recipe << " " << test::text(way) << " " << threads;
                }
            }
        }
    }
}

TEST(FastBlas, StatusSaysWhatWasFoundOrWhatToDo) {
    const cpu::BlasStatus& status = cpu::blas_status();
    EXPECT_EQ(status.found, !status.file.empty());
    EXPECT_EQ(status.found, status.advice.empty());
    if (status.found) return;
    EXPECT_NE(status.advice.find("apt-get install libopenblas0-pthread"), std::string::npos);
}

TEST(FastBlas, ThreadsAreLeftAsTheyWere) {
    if (!cpu::blas_found()) GTEST_SKIP() << cpu::blas_status().advice;
    const int before = cpu::blas_threads();
    cpu::set_blas_threads(2);
    Case test_case({.recipe = *parse_recipe("row:row"), .m = 40, .n = 40, .k = 40});
    cpu::run_fast(test_case.geometry(), {.multiplier = cpu::Multiplier::openblas});
    EXPECT_EQ(cpu::blas_threads(), 2);
    cpu::set_blas_threads(before);
}

}  // namespace
}  // namespace tilewright
