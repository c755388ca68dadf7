// Runs the ring kernel on its data and returns the outcome: nothing, a wrong result, or the emulator's error.
#pragma once

#include "emulator/emulator.h"
#include "emulator/ring_kernel.h"

#include <functional>
#include <string>

namespace tilewright::tests {

struct Timings {
    emulator::Timing tma = emulator::Timing::early;
    emulator::Timing wgmma = emulator::Timing::early;
    std::uint64_t seed = 0;
};

/// Empty: the result has the expected bits. "wrong result: ..." or the error's text otherwise.
std::string outcome(void (*kernel)(RingArguments), const Timings& timings);

}  // namespace tilewright::tests
