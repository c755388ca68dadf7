// The canonical order of a GEMM written out for one element, with the scalar model of the tensor core: simple, slow and
// independent of the vectorised code and of its rule (docs/numerics.md).
#pragma once

#include "problem/geometry.h"

#include <cstdint>
#include <span>

namespace tilewright::tests {

/// The bits of D at (row, column) of the GEMM, in the output's format. `k_splits` as in cpu::ExactOptions.
std::uint32_t canonical_bits(const Geometry& geometry, const GroupGemm& gemm, std::int64_t row, std::int64_t column,
                             std::span<const std::int64_t> k_splits = {});

}  // namespace tilewright::tests
