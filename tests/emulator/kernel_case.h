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
    emulator::Counts* counts = nullptr;
    int lost_load = -1;
};

std::string describe(const Conditions& run);

/// The kernel, the call and the conditions, for messages.
std::string describe(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run);

/// Others for each of the first twelve numbers, on `sms` SMs or up to two more.
Conditions mixed_conditions(int mix, int sms = 4);

/// Those of a random number, on so many SMs.
Conditions seeded_conditions(std::uint64_t seed, int sms);

/// Groups of rows in each way to say them by turns, where the kernel is one for groups; else dense calls and batches.
Grouping grouping_of_turn(const hopper::Tile& tile, int turn);

/// Whether the kernel serves this call: fast variants do not serve all.
bool serves(const Kernel& kernel, const check::CaseSpec& spec);

/// Whether the call's weights, if the kernel takes packed ones, have wide rows where it is one for them, and none where
/// it is not.
bool takes(const Kernel& kernel, const check::CaseSpec& spec);

/// What the kernel reports to the host.
hopper::KernelReport run_on_emulator(const Kernel& kernel, const Geometry& geometry, const Conditions& run,
                                     emulator::Counts* counts = nullptr);

/// Empty: all of D's bytes agree, nothing else was written, and a dense kernel asked TMA for no row of A that does not
/// exist (where blocks share A, for fewer than 16 in a k-block). Otherwise what is wrong.
std::string difference(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run);
/// The same of a case whose operands a test has changed.
std::string difference(const Kernel& kernel, check::Case& test, const Conditions& run);

/// The same with the kernel, the call and the conditions in front; also where there can be no such call, or the kernel
/// does not serve it.
std::string wrong(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run);

}  // namespace tilewright::tests
