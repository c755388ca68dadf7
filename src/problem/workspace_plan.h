// The operands that a Hopper GPU writes into a call's workspace before it multiplies, because no kernel reads the
// originals.
#pragma once

#include "formats/packed_layout.h"
#include "problem/expansion.h"
#include "problem/geometry.h"

#include <cstdint>
#include <optional>

namespace tilewright {

/// Why an operand that is contiguous along its rows is copied along k before the product.
enum class CopyReason : std::uint8_t {
    strides,          // TMA does not support its strides.
    groups_of_rows,   // Groups of A begin at any row, and TMA loads only from multiples of 16 bytes.
    groups_of_k,      // k-grouped kernels read fp8 only along k.
    scales_of_32,     // So do kernels for 1x32 scales.
    packed_weights,   // Packed weights already pass through registers.
    both_along_rows,  // Both operands are, and only one may pass through registers: this is the smaller one.
    many_rows,        // One copy costs less than a transposition for each tile of D.
};

/// An operand that is contiguous along its rows, copied so that it is contiguous along k.
struct CopyAlongK {
    OperandGeometry from{};
    std::int64_t matrices = 0;  // one that all groups share is copied once
    std::int64_t rows = 0;
    std::int64_t k = 0;
    std::int64_t at = 0;  // in the workspace
    Strides to{};         // strides of the copy
    CopyReason why = CopyReason::strides;

    std::int64_t bytes() const { return matrices * rows * to.row; }
};

/// An operand in the format that the tensor core multiplies, K-major, with rows that are multiples of 16 bytes. All are
/// exact: NVFP4 values times their block scales in bf16, fp8 in bf16, MXFP4 values in e4m3. NVFP4's tensor scale and
/// the scales of the other formats stay in place.
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

/// FP4 weights that are packed for the call's activations. Only the device knows which rows of MXFP4 are wide and how
/// many windows they need. All tiles therefore reserve the maximum, and for bf16 the first row counts as wide.
///
/// MXFP4 weights with fp8 activations have raw codes if TMA can load them. Raw codes stay in place, and tiles have only
/// the sections after the codes.
struct WeightPacking {
    Operand weights{};
    PackedWeights packed{};  // without memory
    bool raw = false;
    std::int64_t at = 0;             // of the packed weights in the workspace, of which rows and tiles are written
    std::int64_t judgements_at = 0;  // a byte for each row; raw codes: none
};

/// The parts of a call's workspace, in the order of their places.
struct WorkspacePlan {
    std::optional<CopyAlongK> copy_a{};
    std::optional<CopyAlongK> copy_b{};
    std::optional<DecodedOperand> decode_a{};
    std::optional<DecodedOperand> decode_b{};  // MXFP8 weights
    std::optional<WeightPacking> pack_b{};
    std::optional<ExpandedWeights> expand_b{};
    std::int64_t bytes = 0;  // of the workspace

    bool empty() const { return !copy_a && !copy_b && !decode_a && !decode_b && !pack_b && !expand_b; }
};

/// The plan of a call, with the places of its parts in the workspace.
///
/// wgmma reads fp8 from shared memory only K-major. One operand may pass through registers instead and is transposed on
/// the way (layouts nn and tt). Other MN-major operands are copied along k (`CopyReason`).
///
/// gpu_routes.h says which operands are decoded and which FP4 weights are packed or read in place. Packed weights
/// without wide rows are expanded where a group has many rows (expansion.cpp has the limits).
WorkspacePlan workspace_plan(const Geometry& geometry);
/// The same where packed weights are expanded or not, whether it is worth it or not.
WorkspacePlan workspace_plan(const Geometry& geometry, bool expands);
/// The same call if its packed weights were not expanded.
WorkspacePlan without_expansion(WorkspacePlan plan);

/// The sections of the weights that are packed.
formats::PackedSections packed_sections(const WeightPacking& packing);

/// The product as the kernel is given it, with the plan's parts in `workspace`; the geometry itself where there are
/// none.
Geometry after_workspace(const Geometry& geometry, const WorkspacePlan& plan, const void* workspace);

}  // namespace tilewright
