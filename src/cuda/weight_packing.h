// Packs FP4 weights in memory of a GPU. There are two rounds of kernels. In between, the host reads a byte per row,
// because the length of the packed weights depends on the weights.
#pragma once

#include <tilewright/packed.h>
#include <tilewright/problem.h>

namespace tilewright::cuda {

/// For weights without findings of `check_packable`. First waits for all work of the device.
std::int64_t packed_bytes(const Operand& weights, PackedFor activations);

/// Packs into memory of the same GPU, aligned to 128 bytes. Throws Error if its length is not that of the packed
/// weights. Returns when they are written.
PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes, void* stream);

}  // namespace tilewright::cuda
