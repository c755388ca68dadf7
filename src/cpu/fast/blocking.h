// The blocking of a call, in the words of BLIS: each GEMM is a product; blocks of its rows are packed (decoded into
// micro-panels and kept); macro-tiles are a packed block times some columns, and what one thread computes at a time. A
// pass packs as many blocks as the buffer holds, then computes their macro-tiles. Nothing here depends on the number of
// threads, and so no result does.
#pragma once

#include "cpu/fast/micro_kernels.h"
#include "cpu/fast/operand.h"

#include <vector>

namespace tilewright::cpu {

enum class Method : std::uint8_t {
    none,    // no k: D is C, or zeros
    dots,    // few rows: rows and columns both along k
    panels,  // the built-in micro-kernel: rows in panels of `lanes`
    sgemm,   // OpenBLAS: rows and columns both along k
};

/// One GEMM. Rows are those of A and columns those of B; exchanged where B has few.
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

/// Rows of a product whose decoded values, all of k, are in the buffer.
struct PackedBlock {
    int product = 0;
    Rows rows;
    std::int64_t offset = 0;        // of its decoded rows, in floats from the buffer's beginning
    std::int64_t scale_offset = 0;  // of their block scales, [blocks of k, rows up to a multiple of lanes]
    bool extreme = false;           // has a scale that is not moderate; set while packing
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
    std::vector<std::int64_t> row_numbers;  // of products whose rows are not neighbours
    std::vector<Product> products;
    std::vector<PackedBlock> packed_blocks;
    std::vector<Pass> passes;

    std::int64_t buffer_floats() const;
    std::int64_t tile_count() const;
};

/// `large` is what multiplies products of more than a few rows.
Blocking plan_blocking(const Geometry& geometry, const FastKernels& kernels, Method large);

/// Floats between the decoded rows (dots, sgemm) of a product.
std::int64_t row_floats(const Product& product, const FastKernels& kernels);

/// Rows of a packed block, up to whole panels.
std::int64_t padded_rows(const PackedBlock& block, const FastKernels& kernels);

inline constexpr int dot_rows_limit = 8;
inline constexpr int packed_rows_limit = 512;

}  // namespace tilewright::cpu
