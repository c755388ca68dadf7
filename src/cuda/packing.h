// Packing FP4 weights that are in memory of a GPU: two rounds of kernels with a look of the host at each row between
// them, for how long the packed weights are follows from the weights.
#pragma once

#include <tilewright/packed.h>
#include <tilewright/problem.h>

namespace tilewright::cuda {

/// For weights in which `check_packable` finds nothing. Waits for all work of the device before.
std::int64_t packed_bytes(const Operand& weights, PackedFor activations);

/// Into memory of the same GPU, aligned to 128 bytes; throws Error if it is not as long as the packed weights. Returns
/// when they are written.
PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes, void* stream);

}  // namespace tilewright::cuda
