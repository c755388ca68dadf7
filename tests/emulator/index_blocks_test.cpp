// Blocks of row indices with rows of two groups, on the emulator. They are reported, and their D is that of the first
// row's group. Blocks with rows of one group are in matrix/schedule.txt.
#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <algorithm>
#include <vector>

#include "cpu/exact/exact.h"
#include "emulator/kernel_case.h"
#include "emulator/row_call.h"
#include "plan/variant.h"

namespace tilewright::tests {
namespace {

/// `entries` in blocks of 16, and `computed`, the group that each row's D belongs to.
struct Broken {
    const char* what = "";
    std::vector<std::int64_t> entries{};
    std::vector<std::int64_t> computed{};
    std::int64_t row = 0;  // that is reported, and what is said of it
    int group = 0;
    int first_group = 0;
};

Broken broken(const char* what, const std::vector<std::int64_t>& block, std::int64_t row, int group, int first_group) {
    Broken result{.what = what, .row = row, .group = group, .first_group = first_group};
    for (const std::int64_t around : {0, 1}) {
        result.entries.insert(result.entries.end(), 32, around);
        if (around == 0) result.entries.insert(result.entries.end(), block.begin(), block.end());
    }
    for (std::size_t i = 0; i < result.entries.size(); ++i) result.computed.push_back(result.entries[i - i % 16]);
    return result;
}

std::vector<Broken> broken_promises() {
    std::vector<std::int64_t> mixed(16, 2), late(16, -1), last(16, 2);
    mixed[5] = 1;
    std::fill(late.begin() + 3, late.end(), 2);
    std::fill(late.begin() + 4, late.end(), -1);
    last[15] = 0;
    return {broken("a block of two groups", mixed, 37, 1, 2), broken("a group that begins off", late, 35, 2, -1),
            broken("the next group's first row", last, 47, 0, 2)};
}

void expect_report(const RowKernel& of, const Broken& call) {
    const EmulatedKernel& kernel = of.kernel;
    check::CaseSpec spec = spec_of(of.row, "indices n=columns+8 k=400");
    spec.m = static_cast<std::int64_t>(call.entries.size());
    spec.size_entries = call.computed;
    check::Case honest(spec);
    cpu::run_exact(honest.geometry(), cpu::ExactOptions{.threads = 1});
    spec.size_entries = call.entries;
    check::Case test(spec);
    const std::vector<std::byte> untouched = test.output();
    test.problem().groups.index_alignment = 16;
    EXPECT_THROW(cpu::run_exact(test.geometry(), cpu::ExactOptions{.threads = 1}), Error);
    EXPECT_EQ(test.output(), untouched) << "written by the CPU before the error";
    ASSERT_TRUE(planner::can_run(test.geometry(), kernel.tile));
    const hopper::KernelReport report =
        run_on_emulator(kernel, test.geometry(), {.sms = 4, .wgmma = emulator::Timing::late});
    EXPECT_NE(report.mixed.word, 0U);
    EXPECT_EQ(report.mixed.row(), call.row);
    EXPECT_EQ(report.mixed.group(), call.group);
    EXPECT_EQ(report.mixed.first_group(), call.first_group);
    EXPECT_EQ(report.producer.word | report.consumer.word, 0U);
    EXPECT_EQ(test.output(), honest.output());
    EXPECT_EQ(test.damage(), "");
}

TEST(IndexBlocks, RowsOfTwoGroupsAreReported) {
    for (const RowKernel& of : emulated({"1x128:128x128 m_grouped | 64x16x128 stages=3 warpgroups=1 | bf16",
                                         "1x128:128x128 m_grouped | 128x48x128 stages=4 | bf16",
                                         "1x128:128x128 m_grouped | 192x32x128 stages=3 warpgroups=3 | bf16",
                                         "1x128:128x128 m_grouped | 128x32x128 stages=3 cluster=2 multicast=a | bf16",
                                         "1x128:128x128 m_grouped | 128x48x128 stages=4 | bf16_copies",
                                         "1x128:128x128 m_grouped | 64x16x128 stages=3 warpgroups=1 | any"})) {
        for (const Broken& call : broken_promises()) {
            SCOPED_TRACE(of.row.text + ", " + call.what);
            expect_report(of, call);
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
