// What a Hopper GPU writes into a call's workspace before it multiplies: operands that no kernel reads as they are.
#pragma once

#include "formats/packed_layout.h"
#include "problem/expansion.h"
#include "problem/geometry.h"

#include <cstdint>
#include <optional>

namespace tilewright {

/// An operand that is contiguous along its rows, copied so that it is contiguous along k.
struct CopyAlongK {
    OperandGeometry from{};
    std::int64_t matrices = 0;  // one that all groups share is copied once
    std::int64_t rows = 0;
    std::int64_t k = 0;
    std::int64_t at = 0;  // in the workspace
    Strides to{};         // strides of the copy

    std::int64_t bytes() const { return matrices * rows * to.row; }
};

/// An operand in the format that the tensor core multiplies, along k, in rows of 16 bytes: NVFP4's codes times their
/// block scales and fp8 in bf16, MXFP4's codes in e4m3, all exactly. NVFP4's tensor scale and the scales of others stay
/// where they are.
struct DecodedOperand {
    OperandGeometry from{};
    Format values = Format::bf16;
    std::int64_t matrices = 0;  // one that all groups share is decoded once
    std::int64_t rows = 0;
    std::int64_t k = 0;
    std::int64_t at = 0;  // in the workspace
    Strides to{};
    Tensor row_counts{};  // of a masked call: how many of a matrix's rows there are, on the device; others are left out

    std::int64_t bytes() const { return matrices * rows * to.row * bits(values) / 8; }
};

/// FP4 weights that are packed for the call's activations. Which rows of MXFP4 are wide and how many windows they need
/// is known on the device alone: all tiles have room for the most, and for bf16 the first row counts as wide.
///
/// MXFP4 next to fp8 that TMA loads as it is has raw codes: they stay where they are, and tiles have what follows
/// them.
struct WeightPacking {
    Operand weights{};
    PackedWeights packed{};  // without memory
    bool raw = false;
    std::int64_t at = 0;             // of the packed weights in the workspace, of which rows and tiles are written
    std::int64_t judgements_at = 0;  // a byte for each row; raw codes: none
};

struct Preparation {
    std::optional<CopyAlongK> a{};
    std::optional<CopyAlongK> b{};
    std::optional<DecodedOperand> decoding{};    // of a
    std::optional<DecodedOperand> decoding_b{};  // MXFP8 weights
    std::optional<WeightPacking> packing{};
    std::optional<ExpandedWeights> expansion{};
    std::int64_t bytes = 0;  // of the workspace

    bool empty() const { return !a && !b && !decoding && !decoding_b && !packing && !expansion; }
};

/// wgmma takes fp8 along k from shared memory, but one operand may pass through registers, and is transposed on the way
/// (layouts nn and tt). What is along its rows beyond that is copied: of both operands the smaller one, A of groups
/// (whose rows begin anywhere, and TMA at multiples of 16 bytes only) and next to packed weights, for groups of k each
/// one, what is in steps that TMA does not take, and weights of groups with many rows. FP4 weights are packed, but for
/// the codes that kernels take as they are, and FP4 activations decoded, as are fp8 ones next to NVFP4 and MXFP8
/// weights next to bf16 and NVFP4. Packed weights without wide rows are expanded where a group has many rows
/// (expansion.cpp has the limits).
Preparation preparation(const Geometry& geometry);
/// The same where packed weights are expanded or not, whether it is worth it or not.
Preparation preparation(const Geometry& geometry, bool expands);

/// The sections of the weights that are packed.
formats::PackedSections packed_sections(const WeightPacking& packing);

/// The product as the kernel is given it, with the copies in `workspace`; the geometry itself where there are none.
Geometry prepared(const Geometry& geometry, const Preparation& preparation, const void* workspace);

}  // namespace tilewright
