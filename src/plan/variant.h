// A tile ships in up to four kernels; this is where it is decided which of them runs a call. The planner, the launch,
// the runtime and Python's drop-in all ask here.
#pragma once

#include <cstdint>
#include <string_view>

#include "hopper/tile/tile.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// The kernels of a tile, which return the same bits.
enum class KernelVariant : std::uint8_t {
    general,              // Any call.
    fast,                 // D is bf16 and stored by TMA, alpha is 1, no C, 1x128 scales are loaded by TMA.
    fast_k_major_scales,  // As `fast`, but the 1x128 scales of A are K-major (k-blocks adjacent in memory), or f32 in
                          // any strides.
    fast_f32,  // D is f32 and stored by TMA, C (if given) is loaded by TMA; any alpha; f32 scales in any strides.
};
std::string_view name(KernelVariant variant);

/// The tile specialised for this call:
/// - the fast variant where the call allows it. The order of A's scales decides which one; the variant for K-major
///   scales also takes all scales that TMA cannot load;
/// - otherwise the general variant, without multicast, because pairs of blocks ship only in fast variants;
/// - packed weights with wide rows: the kernel for exponent windows.
hopper::Tile variant(const Geometry& geometry, const hopper::Tile& tile);

/// Whether a launch may run this very kernel for the call.
bool serves(const Geometry& geometry, const hopper::Tile& tile);

KernelVariant variant_of(const hopper::Tile& tile);

}  // namespace tilewright::planner
