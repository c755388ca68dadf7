// The main loop of a tile: clocks for each k-block, as measured on an H200 with synthetic loops.
#pragma once

#include "hopper/description/design.h"
#include "plan/model.h"

namespace tilewright::planner {

struct Loop {
    double tensor_clocks = 0;  // The tensor cores multiply.
    double stall_clocks = 0;   // The tensor cores wait for barriers, promotion and scales.
    double issue_clocks = 0;   // Part of the stall, where measured: instructions that blocks on one SM issue in turn.
    double energy = 1;         // Energy per tensor clock with what belongs to it, over that of an unpromoted fp8 loop.
};

/// Where only some warpgroups of a tile have rows, `warpgroups` says how many. The others load and multiply nothing.
Loop loop(const hopper::Design& tile, int warpgroups, const Model& model = fitted_model);

/// All warpgroups have rows.
inline Loop loop(const hopper::Design& tile, const Model& model = fitted_model) {
    return loop(tile, tile.shape.warpgroups, model);
}

/// Clocks between two tiles in addition to `Model::epilogue_clocks`: what kernels that decode weights do not overlap.
double switch_clocks(const hopper::Design& tile, double k_blocks);

}  // namespace tilewright::planner
