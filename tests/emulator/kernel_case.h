// A problem run by one kernel on the emulator, and by the CPU's arithmetic `bit_exact`: the same bits or a difference.
#pragma once

#include "check/case.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

#include <cstdint>
#include <string>

namespace tilewright::tests {

struct Conditions {
    int sms = 3;
    emulator::Timing tma = emulator::Timing::early;
    emulator::Timing wgmma = emulator::Timing::early;
    std::uint64_t seed = 0;
};

std::string describe(const Conditions& run);

/// Whether the kernel serves this call: fast variants do not serve all.
bool serves(const Kernel& kernel, const check::CaseSpec& spec);

/// What the kernel reports to the host.
hopper::KernelReport run_on_emulator(const Kernel& kernel, const Geometry& geometry, const Conditions& run);

/// Empty: all of D's bytes agree, and nothing else was written. Otherwise what is wrong.
std::string difference(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run);

}  // namespace tilewright::tests
