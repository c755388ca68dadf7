// A tile has several kernels. Here it is decided which of them runs a call, and what TMA copies for it. The planner,
// the launch, the runtime and Python's drop-in all ask here.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hopper/description/design.h"
#include "problem/geometry.h"

namespace tilewright::planner {

/// The tile's kernel for this call. All kernels of a tile return the same bits:
/// - for D of bf16 or f32 by TMA, where the call allows it. The order of A's scales decides which one for bf16.
///   The kernel for scales along k also takes all scales that TMA cannot load;
/// - otherwise `general_kernel`;
/// - packed weights with wide rows: the kernel for wide rows.
hopper::Design variant(const Geometry& geometry, const hopper::Kernel& tile);

/// The tiles of a kind of calls. Addresses and alpha are not a part of the kind, and decide which of both a call takes.
struct TileChoice {
    hopper::Kernel usual;
    /// Where `usual` has no kernel for the call's output. It splits k alike, so that the bits are equal.
    hopper::Kernel general;
};

/// The tile that the call takes.
hopper::Kernel tile_of(const TileChoice& choice, const Geometry& geometry);

/// The tile's kernels for weights with wide rows, packed and read in place; none if no row can be wide.
std::vector<hopper::Kernel> wide_kernels(const hopper::Kernel& tile);

/// Whether a launch may run this very kernel for the call.
bool can_run(const Geometry& geometry, const hopper::Design& kernel);
bool can_run(const Geometry& geometry, const hopper::Kernel& kernel);

/// A kernel for one product. The addresses, strides and alpha of the call decide what TMA can do. `launch::lower` turns
/// it into the parameters of a launch.
struct KernelPlan {
    hopper::Design tile;         // with its variant
    bool stores_by_tma = false;  // TMA stores D, and loads C where there is one.
    bool scales_by_tma = false;  // TMA loads all 1x128 scales; false where there are none.
};

/// The kernel that runs this product, of the tile or of the one that the product takes.
KernelPlan kernel_plan(const Geometry& product, const hopper::Kernel& tile);
KernelPlan kernel_plan(const Geometry& product, const TileChoice& choice);

/// Exactly this kernel. Throws std::logic_error if it does not run this product.
KernelPlan given_kernel(const Geometry& product, const hopper::Kernel& kernel);

/// "general", "fast", "fast, k-major scales" or "fast, f32".
std::string_view variant_name(const hopper::Kernel& kernel);

}  // namespace tilewright::planner
