// A validated problem without its names: the input of every backend. Layouts have become strides, groupings a list of
// GEMMs, each a product of some rows of A with one B.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tilewright {

/// Strides in elements over group, row (of the logical [rows, k] operand) and k. Zero where there is no such dimension.
struct Strides {
    std::int64_t group = 0;
    std::int64_t row = 0;
    std::int64_t k = 0;
};

/// Packed weights, whose sections formats/packed_layout.h describes. `scales` then mean nothing. `values` only have a
/// meaning with `raw`.
struct PackedGeometry {
    bool given = false;
    const void* rows = nullptr;            // factors of the sums of rows; null without memory, as below
    const void* tiles = nullptr;           // codes and scales
    const void* tensor_scales = nullptr;   // NVFP4 only
    std::int64_t tensor_scale_stride = 0;  // over groups
    std::int64_t row_tiles = 0;            // of a group
    std::int64_t k_blocks = 0;
    int windows = 0;             // of PackedWeights
    std::int64_t wide_row = -1;  // likewise
    std::int64_t tile_bytes = 0;
    bool raw = false;  // raw codes: they are at `values` of the operand, and tiles have only the sections after them
};

struct OperandGeometry {
    OperandRecipe recipe;
    const void* values = nullptr;
    Strides value_strides{};
    const void* scales = nullptr;  // null without scales; expanded weights: their factors of rows (ExpandedWeights)
    Strides scale_strides{};       // over group, row block, k block
    std::int64_t scale_columns = 0;
    bool scales_restart_per_group =
        false;  // k-grouped by any ends, or flat: each group's scales begin with a new column
    const void* tensor_scale = nullptr;
    std::int64_t tensor_scale_stride = 0;  // over groups
    bool has_tensor_scale = false;         // also where it is without memory
    bool flat = false;                     // k_grouped_flat: a group's rows follow one another, k_g elements apart
    PackedGeometry packed{};               // b only

    int row_block() const { return tilewright::row_block(recipe.granularity); }
    int k_block() const { return tilewright::k_block(recipe.granularity); }
};

struct OutputGeometry {
    bool given = false;    // false: there is no C and no bias
    void* data = nullptr;  // null also where the problem has only shapes
    std::int64_t group_stride = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;
};

struct Geometry {
    std::int64_t groups = 1;
    std::int64_t m = 0;  // rows of A and D; masked and batched: of one group
    std::int64_t n = 0;
    std::int64_t k = 0;  // k-grouped: the sum over groups
    OperandGeometry a;
    OperandGeometry b;
    Format output = Format::bf16;
    OutputGeometry d;
    OutputGeometry c;
    std::optional<Format> bias;  // given: c is a bias, one row for all rows, and its groups are those of b
    float alpha = 1;
    Accumulation accumulation = Accumulation::promoted;
    Groups grouping;
    std::int64_t expected_m = 0;  // rows of a group that the caller expects; 0: unknown

    /// The format of c.
    Format addend() const { return bias.value_or(output); }
};

/// Where a GEMM reads an operand.
struct Origin {
    std::int64_t value = 0;       // Place of row 0 of the operand and the GEMM's first k, in elements from `values`.
    std::int64_t row_stride = 0;  // Stride of values; k_grouped_flat: the group's own.
    std::int64_t block = 0;       // The scale column of its first k.
};

/// Rows row_begin .. row_begin + rows of A (and D) against group `group` of B, over k_begin .. k_begin + k_count.
/// Operands without a group dimension have a group stride of zero, so `group` may be applied to both.
struct GroupGemm {
    std::int64_t group = 0;
    std::int64_t row_begin = 0;
    std::int64_t rows = 0;
    std::int64_t k_begin = 0;
    std::int64_t k_count = 0;
    Origin a{};
    Origin b{};
};

/// Matrices of A, matrices of B, matrices of D and C. An operand without a group dimension has one.
std::int64_t matrices_of_a(const Geometry& geometry);
std::int64_t matrices_of_b(const Geometry& geometry);
std::int64_t matrices_of_d(const Geometry& geometry);

/// Whether groups share a matrix, and the caller expects fewer rows than there is room for.
bool expects_fewer_rows(const Geometry& geometry);

PackedGeometry packed_geometry(const PackedWeights& packed);

/// The geometry of a problem for which `validate` found nothing.
Geometry geometry(const Problem& problem);

/// The GEMMs, in ascending order of rows and groups; sizes are read from host memory and clamped into the buffers.
/// GEMMs without rows are left out; GEMMs without k stay (their D is C, or zeros). Throws Error for rows that break the
/// promise of Groups::index_alignment.
std::vector<GroupGemm> group_gemms(const Geometry& geometry);

/// Where element (row, k) is, in elements from `values`; row counts from the operand's beginning, k from the GEMM's.
inline std::int64_t value_index(const OperandGeometry& operand, const Origin& origin, std::int64_t row,
                                std::int64_t k) {
    return origin.value + row * origin.row_stride + k * operand.value_strides.k;
}

/// Where the scale of logical row `row` and scale column `k_block` is, in elements from `scales`.
inline std::int64_t scale_index(const OperandGeometry& operand, std::int64_t group, std::int64_t row,
                                std::int64_t k_block) {
    const int rows = operand.row_block();
    return group * operand.scale_strides.group + (rows == 0 ? 0 : row / rows) * operand.scale_strides.row +
           k_block * operand.scale_strides.k;
}

inline std::int64_t output_index(const OutputGeometry& output, std::int64_t group, std::int64_t row,
                                 std::int64_t column) {
    return group * output.group_stride + row * output.row_stride + column * output.column_stride;
}

}  // namespace tilewright
