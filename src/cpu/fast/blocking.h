// The blocking of a call, in the terms of BLIS:
//
// - Each GEMM is a product.
// - Blocks of its rows are packed: decoded into micro-panels and kept.
// - A macro-tile is a packed block times some columns. One thread computes one macro-tile at a time.
// - A pass packs as many blocks as the buffer holds, then computes their macro-tiles.
//
// Nothing here depends on the number of threads, so no result does.
#pragma once

#include "cpu/fast/micro_kernels.h"
#include "cpu/fast/operand.h"

#include <vector>

namespace tilewright::cpu {

enum class Method : std::uint8_t {
    none,    // No k: D is C, or zeros.
    dots,    // Few rows: rows and columns both K-major.
    panels,  // The built-in micro-kernel: rows in panels of `lanes`.
    sgemm,   // OpenBLAS: rows and columns both K-major.
};

/// One GEMM. Rows are rows of A and columns are rows of B, or the reverse if B has few.
struct Product {
    OperandSlice row_operand;
    OperandSlice column_operand;
    Rows rows;
    Rows columns;
    std::int64_t k_count = 0;
    bool swapped = false;
    Method method = Method::none;
    bool scaled = false;  // sums of 128 k are multiplied by block scales
    double factor = 1;    // alpha and tensor scales
};

/// Rows of a product whose decoded values, for all of k, are in the buffer.
struct PackedBlock {
    int product = 0;
    Rows rows;
    // The place of its decoded rows, in floats from the buffer's beginning.
    std::int64_t offset = 0;
    // The place of their block scales, [blocks of k, rows up to a multiple of lanes].
    std::int64_t scale_offset = 0;
    bool extreme = false;  // has a scale that is not moderate; set while packing
};

/// Rows of a block that one thread packs.
struct PackTask {
    int block = 0;
    int first_row = 0;
    int rows = 0;
};

/// A packed block times some columns.
struct MacroTile {
    int block = 0;
    std::int64_t first_column = 0;
    int columns = 0;
};

/// Blocks that are packed together, then multiplied together.
struct Pass {
    std::vector<PackTask> pack_tasks;
    std::vector<MacroTile> tiles;
    std::int64_t floats = 0;  // of the buffer
};

struct Blocking {
    std::vector<std::int64_t> row_numbers;  // of products whose rows are not adjacent
    std::vector<Product> products;
    std::vector<PackedBlock> packed_blocks;
    std::vector<Pass> passes;

    std::int64_t buffer_floats() const;
    std::int64_t tile_count() const;
};

/// `large` is the method for products of more than a few rows.
Blocking plan_blocking(const Geometry& geometry, const FastKernels& kernels, Method large);

/// Floats from one decoded row of a product to the next (dots, sgemm).
std::int64_t row_floats(const Product& product, const FastKernels& kernels);

/// Rows of a packed block, up to whole panels.
std::int64_t padded_rows(const PackedBlock& block, const FastKernels& kernels);

inline constexpr int dot_rows_limit = 8;
inline constexpr int packed_rows_limit = 512;

}  // namespace tilewright::cpu
