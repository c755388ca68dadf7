// What a kernel is launched with: from a validated problem and a tile, without a GPU. The GPU and the emulator encode
// the tensor maps each in their own way and run the rest as it stands.
#pragma once

#include <optional>

#include "hopper/arguments.h"
#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::launch {

/// Tiles along m that are taken before n advances.
inline constexpr int raster_width = 8;

struct Launch {
    hopper::Tile tile;  // as asked for; `plain` and `scales_by_row` where the call is, without its pair where it is not
    hopper::Arguments arguments{};  // tensor maps and the report are filled in by who launches
    hopper::TensorMapDescription a{};
    hopper::TensorMapDescription b{};
    std::optional<hopper::TensorMapDescription> d{};         // if stored_by_tma
    std::optional<hopper::TensorMapDescription> a_scales{};  // if scales_by_tma and A has scales of rows in the loop
    std::optional<hopper::TensorMapDescription> b_scales{};  // likewise
    int blocks = 0;                                          // persistent; 0: nothing to launch
    int cluster = 1;
    int threads = 0;
    int shared_bytes = 0;
};

/// For a problem in which `validate` finds nothing for the backend hopper, a tile of its formats and scaling, and a GPU
/// with `sms` SMs (or fewer, if the call may not use all).
Launch launch(const Geometry& geometry, const hopper::Tile& tile, int sms);

/// The blocks of `launch` alone.
int blocks(const Geometry& geometry, const hopper::Tile& tile, int sms);

}  // namespace tilewright::launch
