// The test of the tests: mistakes planted in a small kernel, each caught, and by what.
#include "emulator/primitives.h"
#include "emulator/ring_kernel.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tilewright::tests {
namespace {

using emulator::Timing;

const std::vector<Timings>& all_timings() {
    static const std::vector<Timings> list = [] {
        std::vector<Timings> made;
        for (const Timing tma : {Timing::early, Timing::late}) {
            for (const Timing wgmma : {Timing::early, Timing::late}) {
                for (const std::uint64_t seed : {0, 1, 2, 3}) made.push_back({tma, wgmma, seed});
            }
        }
        return made;
    }();
    return list;
}

std::string text_of(const Timings& t) {
    return std::string("tma ") + (t.tma == Timing::early ? "early" : "late") + ", wgmma " +
           (t.wgmma == Timing::early ? "early" : "late") + ", seed " + std::to_string(t.seed);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool is_late(const Timings& t) { return t.tma == Timing::late; }
bool is_wgmma_late(const Timings& t) { return t.wgmma == Timing::late; }

/// In every mode in which `where` holds, whatever the order of the threads.
template <Bug bug>
void expect_always(
    const std::string& by, bool (*where)(const Timings&) = [](const Timings&) { return true; }) {
    for (const Timings& timings : all_timings()) {
        if (!where(timings)) continue;
        const std::string found = outcome(&ring_gemm<bug>, timings);
        EXPECT_TRUE(contains(found, by)) << text_of(timings) << "\nexpected: " << by << "\nfound: " << found;
    }
}

/// In some order of the threads.
template <Bug bug>
void expect_somewhere(const std::string& by) {
    std::string all;
    for (std::uint64_t seed = 0; seed < 32; ++seed) {
        const std::string found = outcome(&ring_gemm<bug>, {.seed = seed});
        if (contains(found, by)) return;
        all += found + "\n";
    }
    FAIL() << "expected: " << by << "\nfound: " << all;
}

TEST(PlantedBugs, TheKernelWithoutAnyIsRightInEveryMode) {
    for (const Timings& timings : all_timings()) EXPECT_EQ(outcome(&ring_gemm<Bug::none>, timings), "");
}

// Bugs that only adversarial timing shows

TEST(PlantedBugs, EarlyReleaseOfAStage) {
    for (const Timing tma : {Timing::early, Timing::late}) {
        for (const Timing wgmma : {Timing::early, Timing::late}) {
            const std::string found = outcome(&ring_gemm<Bug::early_release>, {tma, wgmma, 0});
            const bool shows = wgmma == Timing::late;  // whoever reads late finds the stage overwritten
            EXPECT_EQ(contains(found, "wrong result"), shows) << text_of({tma, wgmma, 0}) << ": " << found;
        }
    }
}
TEST(PlantedBugs, SumsReadBeforeTheWait) { expect_always<Bug::read_before_wait>("wrong result", is_wgmma_late); }
TEST(PlantedBugs, StagingAreaWrittenBeforeItWasStored) { expect_always<Bug::no_store_wait>("wrong result", is_late); }

// Barriers

TEST(PlantedBugs, TooFewArrivals) { expect_somewhere<Bug::too_few_arrivals>("in mid-phase: "); }
TEST(PlantedBugs, TooManyArrivals) {
    expect_always<Bug::too_many_arrivals>(
        "load: barrier_wait(empty[0], parity 0): 1 of 9 arrivals and 0 bytes are missing");
}
TEST(PlantedBugs, WrongPhase) {
    expect_always<Bug::wrong_phase>(
        ", 1 threads from 0 to 0, load: barrier_wait(empty[0], parity 0): 8 of 8 arrivals and 0");
}
TEST(PlantedBugs, TooManyBytes) {
    expect_always<Bug::too_many_bytes>("multiply: barrier_wait(full[0], parity 0): 0 of 1 arrivals and 16 bytes");
}
TEST(PlantedBugs, TooFewBytes) { expect_always<Bug::too_few_bytes>("16 bytes more than were expected"); }
TEST(PlantedBugs, NobodyWaitsForTheInitialisation) {
    expect_somewhere<Bug::no_init_sync>("is used before barrier_init");
}
TEST(PlantedBugs, NoFenceAfterTheInitialisation) {
    expect_always<Bug::no_init_fence>("is used before barrier_init_fence");
}

// Shared memory

TEST(PlantedBugs, NoProxyFence) { expect_always<Bug::no_proxy_fence>("without fence_async_proxy"); }
TEST(PlantedBugs, NoWarpSync) { expect_somewhere<Bug::no_warp_sync>("without fence_async_proxy"); }
TEST(PlantedBugs, TheBlockEndsBeforeItsStores) {
    expect_always<Bug::no_last_store_wait>("ended before its tma_store had read shared memory");
}

// wgmma

TEST(PlantedBugs, NoFenceBeforeTheProducts) { expect_always<Bug::no_wgmma_fence>("call wgmma_fence"); }
TEST(PlantedBugs, TheKernelEndsBeforeItsProducts) {
    expect_always<Bug::no_last_wgmma_wait>("ended with 1 wgmma in flight");
}
TEST(PlantedBugs, WarpsOfAWarpgroupDisagree) {
    expect_always<Bug::different_operands>("while another thread of the warpgroup calls wgmma<32>");
}
TEST(PlantedBugs, AccumulatorsWrittenBeforeTheWait) {
    expect_always<Bug::touched_accumulator>("wrote d[5] before wgmma_wait", is_wgmma_late);
}

TEST(PlantedBugs, TheSeedDecidesTheOrder) {
    const auto run = [](std::uint64_t seed) { return outcome(&ring_gemm<Bug::no_init_sync>, {.seed = seed}); };
    std::set<std::string> different;
    for (std::uint64_t seed = 1; seed <= 32; ++seed) {
        different.insert(run(seed));
        EXPECT_EQ(run(seed), run(seed));
    }
    EXPECT_GT(different.size(), 1U);
}

}  // namespace
}  // namespace tilewright::tests
