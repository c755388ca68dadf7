// The learning kernel, or a copy of it with a bug, on the emulator, compared with the CPU's arithmetic `bit_exact`.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "check/case.h"
#include "emulator/emulator.h"

namespace tilewright::tests {

struct Timings {
    int sms = 2;
    emulator::Timing tma = emulator::Timing::early;
    emulator::Timing wgmma = emulator::Timing::early;
    std::uint64_t seed = 0;
    int lost_load = -1;  // of emulator::Launch
};

/// Early and late, with the threads in order and in others.
const std::vector<Timings>& all_timings();
std::string describe(const Timings& timings);

/// A call that the kernel serves. Rows of D begin at multiples of 16 bytes, columns of A's scales too.
check::CaseSpec learning_call(std::int64_t m, std::int64_t n, std::int64_t k);

/// A kernel that takes its arguments from there.
using LearningKernel = std::function<void(const void* arguments)>;

/// Each copy of the kernel has its own type of arguments, with the same members.
template <class Arguments>
LearningKernel kernel_of(void (*kernel)(Arguments)) {
    return [kernel](const void* from) {
        Arguments arguments;
        std::memcpy(&arguments, from, sizeof(arguments));
        kernel(arguments);
    };
}

LearningKernel learning_kernel();

/// Throws std::invalid_argument for calls that the kernel does not serve. Empty if all of D's bytes agree and nothing
/// else was written. Otherwise "wrong result: ...", "report: " and the name of a barrier, or the emulator's error.
std::string outcome(const LearningKernel& kernel, const check::CaseSpec& spec, const Timings& timings);

}  // namespace tilewright::tests
