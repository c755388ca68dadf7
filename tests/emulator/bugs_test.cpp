// The test of the tests: mistakes planted in a small kernel, each caught, and by what.
#include "emulator/primitives.h"
#include "emulator/ring_case.h"

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

/// What is found under each of `all_timings`; nothing: the mistake went unnoticed.
template <Bug bug>
std::vector<std::string> outcomes() {
    std::vector<std::string> list;
    for (const Timings& timings : all_timings()) list.push_back(outcome(&ring_gemm<bug>, timings));
    return list;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// In every mode, whatever the order of the threads.
template <Bug bug>
void expect_always(const std::string& by) {
    const std::vector<std::string> found = outcomes<bug>();
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(contains(found[i], by))
            << text_of(all_timings()[i]) << "\nexpected: " << by << "\nfound: " << found[i];
    }
}

/// Whenever `where` holds.
template <Bug bug>
void expect_where(bool (*where)(const Timings&), const std::string& by) {
    const std::vector<std::string> found = outcomes<bug>();
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (!where(all_timings()[i])) continue;
        EXPECT_TRUE(contains(found[i], by))
            << text_of(all_timings()[i]) << "\nexpected: " << by << "\nfound: " << found[i];
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

bool is_late(const Timings& t) { return t.tma == Timing::late; }
bool is_wgmma_late(const Timings& t) { return t.wgmma == Timing::late; }

TEST(PlantedBugs, TheKernelWithoutAnyIsRightInEveryMode) {
    EXPECT_EQ(outcomes<Bug::none>(), std::vector<std::string>(all_timings().size()));
}

// What only adversarial timing shows

TEST(PlantedBugs, EarlyReleaseOfAStage) {
    for (const Timing tma : {Timing::early, Timing::late}) {
        for (const Timing wgmma : {Timing::early, Timing::late}) {
            const std::string found = outcome(&ring_gemm<Bug::early_release>, {tma, wgmma, 0});
            const bool shows = wgmma == Timing::late;  // whoever reads late finds the stage overwritten
            EXPECT_EQ(contains(found, "wrong result"), shows) << text_of({tma, wgmma, 0}) << ": " << found;
        }
    }
}
TEST(PlantedBugs, SumsReadBeforeTheWait) { expect_where<Bug::read_before_wait>(is_wgmma_late, "wrong result"); }
TEST(PlantedBugs, StagingAreaWrittenBeforeItWasStored) { expect_where<Bug::no_store_wait>(is_late, "wrong result"); }

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
    expect_where<Bug::touched_accumulator>(is_wgmma_late, "wrote d[5] before wgmma_wait");
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
