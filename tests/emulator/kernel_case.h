// A problem run by one kernel on the emulator, and by the CPU's arithmetic `bit_exact`: the same bits or a difference.
#pragma once

#include "check/case.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

#include <cstdint>
#include <functional>
#include <string>

namespace tilewright::tests {

struct Conditions {
    int sms = 3;
    emulator::Timing tma = emulator::Timing::early;
    emulator::Timing wgmma = emulator::Timing::early;
    std::uint64_t seed = 0;
    emulator::Counts* counts = nullptr;
    int lost_load = -1;
    std::function<void(bool ended)> earlier{};  // Launch::earlier; if given, the weights are ready
};

std::string describe(const Conditions& run);

/// The kernel, the call and the conditions, for messages.
std::string describe(const EmulatedKernel& kernel, const check::CaseSpec& spec, const Conditions& run);

/// Whether the kernel serves this call: fast variants do not serve all.
bool serves(const EmulatedKernel& kernel, const check::CaseSpec& spec);

/// Runs the kernel and returns its report to the host.
hopper::KernelReport run_on_emulator(const EmulatedKernel& kernel, const Geometry& geometry, const Conditions& run,
                                     emulator::Counts* counts = nullptr);

/// Empty if all of D's bytes agree, nothing else was written, and a dense kernel asked TMA for no missing row of A.
/// (Where blocks share A, for fewer than 16 in a k-block.) Otherwise the mistake.
std::string difference(const EmulatedKernel& kernel, const check::CaseSpec& spec, const Conditions& run);
/// The same of a case whose operands a test has changed. `fill_c` is called before each run: where C is D, a run
/// overwrites it. `any_nan`: one NaN is as good as another, because the host's sum of two infinities has another code.
std::string difference(const EmulatedKernel& kernel, check::Case& test, const Conditions& run,
                       const std::function<void()>& fill_c = {}, bool any_nan = false);

}  // namespace tilewright::tests
