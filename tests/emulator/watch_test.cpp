// A load that never arrives. The load warp times out and ends the waits of the consumers, which have no limit. The
// kernel ends with a report of the barrier that was waited for.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/kernel_case.h"
#include "emulator/row_call.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;

/// The kernel's report or, if the emulator finds a forbidden operation, that finding.
std::string outcome(const EmulatedKernel& kernel, const CaseSpec& spec, const Conditions& run) {
    const check::Case test(spec);
    try {
        const hopper::KernelReport report = run_on_emulator(kernel, test.geometry(), run);
        return report.producer.word == 0 ? "nothing" : name_of(report.producer.barrier());
    } catch (const emulator::Error& error) {
        return error.what();
    }
}

void expect_end(const RowKernel& of, std::string_view call) {
    const CaseSpec spec = spec_of(of.row, call);
    const int loads = static_cast<int>(spec.k / 128) * 2;  // of the first tile, at least
    for (const int lost : {0, loads - 1}) {
        const Timing timing = lost == 0 ? Timing::early : Timing::late;
        const Conditions run{.sms = of.row.tile.cluster.size(),
                             .tma = timing,
                             .wgmma = timing,
                             .seed = static_cast<std::uint64_t>(lost),
                             .lost_load = lost};
        EXPECT_EQ(outcome(of.kernel, spec, run), "empty")
            << describe(of.kernel, spec, run) << "\nwithout load " << lost;
    }
}

/// Each mainloop, way of loading scales, scheduler and kind of cluster; a k that fits into the ring, or does not.
TEST(Watch, EndsABlockThatWaitsForALostLoad) {
    for (const RowKernel& of : emulated(
             {"1x128:128x128 | 64x16x128 stages=3 warpgroups=1 | bf16", "1x128:128x128 | 128x48x128 stages=3 | bf16",
              "row:row | 256x32x128 stages=3 | bf16", "1x128:128x128 | 256x32x128 stages=3 | bf16_copies",
              "1x128:128x128 | 192x32x128 stages=3 warpgroups=3 | bf16_copies",
              "1x128:128x128 | 128x48x128 stages=3 | any", "1x128:128x128 | 128x24x128 stages=3 swap | bf16",
              "1x128:128x128 | 128x16x128 stages=3 split=2 | bf16",
              "1x128:128x128 | 128x32x128 stages=3 cluster=2 multicast=b | bf16",
              "1x128:128x128 m_grouped | 128x48x128 stages=4 | bf16",
              "tensor:tensor unpromoted | 128x32x128 stages=3 | any"})) {
        const bool grouped = of.row.groups == hopper::Groups::rows;
        const std::string call = std::string(grouped ? "masked " : "") + "m=cluster_rows n=2*cluster_columns k=";
        expect_end(of, call + "256");
        expect_end(of, call + "640");
    }
}

}  // namespace
}  // namespace tilewright::tests
