// The main loop of a tile: clocks for each k-block, as measured on an H200 with synthetic loops.
#pragma once

#include "hopper/tile/tile.h"
#include "plan/model.h"

namespace tilewright::planner {

struct Loop {
    double tensor_clocks = 0;  // the tensor cores multiply
    double stall_clocks = 0;   // they wait for barriers, promotion and scales
    double issue_clocks = 0;   // of it: instructions that blocks on one SM issue in turn, where this was measured
    double energy = 1;         // of one tensor clock with what belongs to it, over that of an unpromoted fp8 loop
};

Loop loop(const hopper::Tile& tile, const Model& model = fitted_model);

}  // namespace tilewright::planner
