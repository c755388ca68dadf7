// One output of Hopper's tensor core (wgmma), bit for bit: the definition of the arithmetic `bit_exact`. It is scalar
// integer code, to be read and to check faster code. tests/data/hopper_mma.bin, measured on an H200, is its proof.
#pragma once

#include <tilewright/formats.h>

#include <cstddef>

namespace tilewright::cpu {

/// The formats of the two operands: both e4m3 or e5m2 (32 products per step), or both bf16 (16 products).
struct TensorCore {
    Format a = Format::e4m3;
    Format b = Format::e4m3;

    /// Products per step; they take 32 bytes of each operand in every format.
    constexpr int step() const { return 256 / bits(a); }

    /// c + the sum of a step's products. a and b have 32 bytes each, in ascending k.
    float add_products(const void* a_bytes, const void* b_bytes, float c) const;

    /// `steps` steps, one after another, into the same accumulator, beginning with c.
    float chain(const void* a_bytes, const void* b_bytes, std::size_t steps, float c) const;
};

}  // namespace tilewright::cpu
