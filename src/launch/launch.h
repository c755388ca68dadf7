// What a kernel is launched with: a tile that the planner decided on, lowered to arguments, tensor maps and a grid. No
// CUDA: the GPU and the emulator each encode the tensor maps in their own way.
#pragma once

#include <optional>

#include "hopper/arguments.h"
#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Tiles along m that are taken before n advances.
int raster_width(const Geometry& geometry, const hopper::Tile& tile);

struct Launch {
    hopper::Arguments arguments{};  // tensor maps and the report are filled in by who launches
    hopper::TensorMapDescription a{};
    hopper::TensorMapDescription b{};
    std::optional<hopper::TensorMapDescription> a_last{};    // for the last row of tiles, if it loads fewer rows
    std::optional<hopper::TensorMapDescription> d{};         // if stored_by_tma
    std::optional<hopper::TensorMapDescription> a_scales{};  // if scales_by_tma and A has scales of rows in the loop
    std::optional<hopper::TensorMapDescription> a_scales_last{};  // the same, of scales by row; stores_f32: C
    std::optional<hopper::TensorMapDescription> b_scales{};       // the same of B
    bool has_packed_weights = false;                              // arguments.b has them, and no map
    bool maps_groups = false;  // the kernel writes maps of A and B itself, from these and what a_last holds
    int blocks = 0;            // persistent; 0: nothing to launch
    int cluster = 1;
    int threads = 0;
    int shared_bytes = 0;
};

/// For a problem in which `validate` finds nothing for the backend hopper, the tile in a variant that serves it
/// (planner::variant), and as many SMs as the call may use. Throws std::logic_error where the variant contradicts the
/// call.
Launch lower(const Geometry& geometry, const hopper::Tile& tile, int sms);

/// Thread blocks of that launch.
int blocks(const Geometry& geometry, const hopper::Tile& tile, int sms);

}  // namespace tilewright::launch
