// How a call of the fast backend is cut: pieces into products, products into parts whose row side is decoded and kept,
// parts into chunks that fit the memory we allow ourselves, and each part into items, the unit of parallel work.
// Nothing here depends on the number of threads, and so no result does.
#pragma once

#include "cpu/fast/micro_kernels.h"
#include "cpu/fast/operand.h"

#include <vector>

namespace tilewright::cpu {

enum class Method : std::uint8_t {
    none,    // no k: D is C, or zeros
    dots,    // few rows: both sides along k
    panels,  // the built-in kernel: rows in panels of `lanes`
    sgemm,   // OpenBLAS: both sides along k
};

/// One plain product. Rows are those of A and columns those of B, or the other way round where B has few.
struct Product {
    Side row_side;
    Side column_side;
    Rows rows;
    Rows columns;
    std::int64_t k_count = 0;
    bool swapped = false;
    Method method = Method::none;
    bool scaled = false;  // sums of 128 k are multiplied by block scales
    double factor = 1;    // alpha and tensor scales
};

struct Part {
    int product = 0;
    Rows rows;
    std::int64_t offset = 0;        // of its decoded rows, in floats from the chunk's buffer
    std::int64_t scale_offset = 0;  // of their block scales, [blocks of k, rows up to a multiple of lanes]
    bool extreme = false;           // has a scale that is not moderate; set while decoding
};

/// Rows of a part that one thread decodes.
struct DecodeUnit {
    int part = 0;
    int first_row = 0;
    int rows = 0;
};

/// Columns of a part that one thread multiplies.
struct Item {
    int part = 0;
    std::int64_t first_column = 0;
    int columns = 0;
};

/// Parts that are decoded together, then multiplied together.
struct Chunk {
    std::vector<DecodeUnit> units;
    std::vector<Item> items;
    std::int64_t floats = 0;
};

struct Work {
    std::vector<std::int64_t> row_numbers;
    std::vector<Product> products;
    std::vector<Part> parts;
    std::vector<Chunk> chunks;

    std::int64_t buffer_floats() const;
    std::int64_t item_count() const;
};

/// `large` is what multiplies products of more than a few rows.
Work plan_work(const Geometry& geometry, const FastKernels& kernels, Method large);

/// Floats between the decoded rows (dots, sgemm) of a product.
std::int64_t row_floats(const Product& product, const FastKernels& kernels);

inline constexpr int dot_rows_limit = 8;
inline constexpr int part_rows_limit = 512;

}  // namespace tilewright::cpu
