// Every kernel that the emulator runs: those of the pack, and a few that only this test has. A program of this build
// (list_kernels.cpp) writes the list of instantiations, so that no tile of the pack can be forgotten.
#pragma once

#include "hopper/arguments.h"
#include "hopper/tile/tile.h"

#include <vector>

namespace tilewright::tests {

struct Kernel {
    hopper::Tile tile;
    void (*run)(hopper::Arguments);
};

/// Sanitizers make a kernel many times slower, and its compilation: every TILEWRIGHT_KERNEL_STEP-th is built and run
/// there.
inline constexpr int kernel_step = TILEWRIGHT_KERNEL_STEP;

/// The pack, then others: e5m2, and cuts that the pack lacks.
std::vector<hopper::Tile> emulated_tiles();

/// The kernels of all those tiles, from one of the generated files.
template <int part>
void add_kernels(std::vector<Kernel>& list);

}  // namespace tilewright::tests
