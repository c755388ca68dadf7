// What the tests of the emulator's checks share: a block's memory, launches, and the error that a kernel ends with.
#pragma once

#include "emulator/emulator.h"
#include "emulator/ring_kernel.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <string>

namespace tilewright::tests {
using emulator::Launch;
using emulator::Timing;
using namespace hopper;

struct Shared {
    alignas(1024) u8 bytes[64 * 128];
    alignas(1024) u8 more[8 * 128];
    Barrier barrier;
};

inline const Launch one_warp{.threads = 32, .shared_bytes = sizeof(Shared)};
inline const Launch one_warpgroup{.threads = 128, .shared_bytes = sizeof(Shared)};
inline const Launch pair{.blocks = 2, .cluster = 2, .threads = 32, .shared_bytes = sizeof(Shared)};

inline std::string error(const Launch& launch, void (*kernel)(Shared&)) {
    try {
        emulator::launch(launch, [&] { kernel(shared_memory<Shared>()); });
    } catch (const emulator::Error& found) {
        return found.what();
    }
    return "none";
}

inline void expect_error(const Launch& launch, const std::string& text, void (*kernel)(Shared&)) {
    const std::string found = error(launch, kernel);
    EXPECT_NE(found.find(text), std::string::npos) << "expected: " << text << "\nfound: " << found;
}

inline bool first() { return thread_index() == 0; }

inline void open(Shared& shared, int arrivals) {
    if (first()) {
        barrier_init(shared.barrier, arrivals);
        barrier_init_fence();
    }
    sync_block();
}

}  // namespace tilewright::tests
