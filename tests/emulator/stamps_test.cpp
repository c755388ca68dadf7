// Kernels with time stamps: each warp's are in order, and those of a k-block show that it was loaded, then multiplied.
// Other kernels write nothing after the report.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "kernel_of_recipe.h"

namespace tilewright::tests {
namespace {

using hopper::Event;
using hopper::Kernel;
using hopper::Stamp;

constexpr Kernel stamped(bool stamps) {
    return of_recipe(blocks_of_both, {.shape = {.m = 128, .n = 48},
                                      .stages = 3,
                                      .output = hopper::Output::bf16_by_tma,
                                      .debug = {.stamps = stamps}});
}

constexpr int warps = 12;
constexpr int k_blocks = 5;
constexpr int tiles_of_d = 3;

/// The memory for a kernel's report.
std::vector<std::byte> memory;

template <Kernel tile>
void run_with_log(const hopper::AllArguments& given) {
    hopper::AllArguments arguments = given;
    arguments.report = reinterpret_cast<hopper::KernelReport*>(memory.data());
    hopper::gemm<tile>(arguments);
}

/// The stamps of one block with three tiles of D, warp after warp.
template <Kernel tile>
std::vector<Stamp> stamps(emulator::Timing timing) {
    memory.assign(sizeof(hopper::KernelReport) + sizeof(Stamp) * warps * Stamp::per_warp(), std::byte{});
    const check::CaseSpec spec{.recipe = parse_recipe("1x128:128x128").value(),
                               .m = 128,
                               .n = tiles_of_d * 48,
                               .k = k_blocks * 128,
                               .accumulation = Accumulation::promoted,
                               .a_scales_transposed = true};
    const EmulatedKernel kernel{.tile = hopper::Design(tile), .run = &run_with_log<tile>};
    EXPECT_EQ(difference(kernel, spec, {.sms = 1, .tma = timing, .wgmma = timing}), "");
    const auto* const first = reinterpret_cast<const Stamp*>(memory.data() + sizeof(hopper::KernelReport));
    return {first, first + warps * Stamp::per_warp()};
}

std::vector<Event> events(const std::vector<Stamp>& all, int warp) {
    const std::span<const Stamp> own(all.data() + warp * Stamp::per_warp(), Stamp::per_warp());
    std::vector<Event> list;
    for (const Stamp& stamp : own) {
        if (stamp.event() != Event::none) list.push_back(stamp.event());
    }
    return list;
}

TEST(Stamps, TellWhatEachWarpCameTo) {
    for (const emulator::Timing timing : {emulator::Timing::early, emulator::Timing::late}) {
        const std::vector<Stamp> all = stamps<stamped(true)>(timing);
        std::vector<Event> loads{Event::loads};  // the first k-block is loaded without a wait
        std::vector<Event> multiplies;
        for (int tile = 0; tile < tiles_of_d; ++tile) {
            for (int k_block = 0; k_block < k_blocks; ++k_block) {
                if (tile + k_block > 0) loads.insert(loads.end(), {Event::waits_empty, Event::loads});
                multiplies.insert(multiplies.end(), {Event::waits_full, Event::multiplies, Event::released});
            }
            multiplies.insert(multiplies.end(), {Event::epilogue, Event::staged});
        }
        EXPECT_EQ(events(all, 0), loads);
        for (int warp = 4; warp < warps; ++warp) EXPECT_EQ(events(all, warp), multiplies) << warp;
        for (int warp = 0; warp < warps; ++warp) {
            const auto* const first = all.data() + warp * Stamp::per_warp();
            const auto* const last = first + events(all, warp).size();
            EXPECT_TRUE(std::is_sorted(first, last, [](Stamp a, Stamp b) { return a.clock() < b.clock(); })) << warp;
        }
    }
}

TEST(Stamps, AreNotInOtherKernels) {
    const std::vector<Stamp> all = stamps<stamped(false)>(emulator::Timing::early);
    EXPECT_TRUE(std::ranges::all_of(all, [](Stamp stamp) { return stamp.word == 0; }));
}

}  // namespace
}  // namespace tilewright::tests
