#include "cpu/fast/blocking.h"

#include "problem/canonical_order.h"

#include <algorithm>
#include <numeric>

namespace tilewright::cpu {
namespace {

/// Decoded rows in memory at a time, in floats: 16 MiB.
constexpr std::int64_t buffer_limit = std::int64_t{4} << 20;

constexpr int dot_item_columns = 32;
constexpr int sgemm_item_columns = 128;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Rows of one group in many runs (indices in any order) become one product, so that its weights are decoded once.
std::vector<Piece> merged_pieces(const Geometry& g, std::vector<std::int64_t>& row_numbers) {
    std::vector<Piece> list = pieces(g);
    const auto by_group = [](const Piece& x, const Piece& y) { return x.group < y.group; };
    const auto same_group = [](const Piece& x, const Piece& y) { return x.group == y.group; };
    if (g.grouping.grouping != Grouping::m_grouped_indices) return list;
    std::stable_sort(list.begin(), list.end(), by_group);
    if (std::adjacent_find(list.begin(), list.end(), same_group) == list.end()) return list;

    std::vector<Piece> merged;
    for (const Piece& piece : list) {
        if (merged.empty() || merged.back().group != piece.group) {
            merged.push_back(piece);
            merged.back().row_begin = static_cast<std::int64_t>(row_numbers.size());
            merged.back().rows = 0;
        }
        for (std::int64_t r = 0; r < piece.rows; ++r) row_numbers.push_back(piece.row_begin + r);
        merged.back().rows += piece.rows;
    }
    return merged;
}

Product make_product(const Geometry& g, const Piece& piece, const std::vector<std::int64_t>& row_numbers) {
    const bool listed = !row_numbers.empty();
    Product p{.row_side = {&g.a, piece.group, piece.k_begin, piece.a_block_begin},
              .column_side = {&g.b, piece.group, piece.k_begin, piece.b_block_begin},
              .rows = {.list = listed ? row_numbers.data() + piece.row_begin : nullptr,
                       .first = listed ? 0 : piece.row_begin,
                       .count = piece.rows},
              .columns = {.count = g.n},
              .k_count = piece.k_count};
    p.scaled = has_block_scales(p.row_side) || has_block_scales(p.column_side);
    p.factor = output_factor(g.alpha, tensor_scale(p.row_side), tensor_scale(p.column_side));
    if (!listed && p.columns.count < p.rows.count && p.columns.count <= dot_rows_limit) {
        std::swap(p.row_side, p.column_side);
        std::swap(p.rows, p.columns);
        p.swapped = true;
    }
    return p;
}

int item_columns(const Product& product, const FastKernels& kernels) {
    switch (product.method) {
        case Method::none: return 128;
        case Method::dots: return dot_item_columns;
        case Method::sgemm: return sgemm_item_columns;
        // Fewer columns where there are few rows, so that a narrow product still feeds many cores.
        case Method::panels:
            return (product.rows.count <= 64 ? 56 : 112) / kernels.panel_columns * kernels.panel_columns;
    }
    return 1;
}

/// Rows of a part: as many as fit the buffer, whole panels of them.
std::int64_t part_rows(const Product& product, const FastKernels& kernels) {
    const std::int64_t fitting = buffer_limit / std::max<std::int64_t>(row_floats(product, kernels), 1);
    return std::clamp<std::int64_t>(fitting / kernels.lanes * kernels.lanes, kernels.lanes, part_rows_limit);
}

class Cutter {
public:
    Cutter(Work& work, const FastKernels& kernels) : work_(work), kernels_(kernels) {}

    void cut(int index) {
        const Product& product = work_.products[static_cast<std::size_t>(index)];
        const std::int64_t step = part_rows(product, kernels_);
        for (std::int64_t row = 0; row < product.rows.count; row += step) {
            add_part(index, product.rows.part(row, std::min(step, product.rows.count - row)));
        }
    }

private:
    void add_part(int index, const Rows& rows) {
        const Product& product = work_.products[static_cast<std::size_t>(index)];
        const bool decoded = product.method != Method::none;
        const std::int64_t padded = round_up(rows.count, kernels_.lanes);
        const std::int64_t row_side = decoded ? padded * row_floats(product, kernels_) : 0;
        const std::int64_t scales = product.scaled ? padded * (round_up(product.k_count, scale_k) / scale_k) : 0;
        const std::int64_t floats = row_side + scales;
        if (work_.chunks.empty() || work_.chunks.back().floats + floats > buffer_limit) work_.chunks.emplace_back();
        Chunk& chunk = work_.chunks.back();
        const int part = static_cast<int>(work_.parts.size());
        work_.parts.push_back(
            {.product = index, .rows = rows, .offset = chunk.floats, .scale_offset = chunk.floats + row_side});
        chunk.floats += floats;
        for (int row = 0; decoded && row < rows.count; row += kernels_.lanes) {
            const auto count = static_cast<int>(std::min<std::int64_t>(kernels_.lanes, rows.count - row));
            chunk.units.push_back({.part = part, .first_row = row, .rows = count});
        }
        const int columns = item_columns(product, kernels_);
        for (std::int64_t column = 0; column < product.columns.count; column += columns) {
            const auto count = static_cast<int>(std::min<std::int64_t>(columns, product.columns.count - column));
            chunk.items.push_back({.part = part, .first_column = column, .columns = count});
        }
    }

    Work& work_;
    const FastKernels& kernels_;
};

}  // namespace

std::int64_t Work::buffer_floats() const {
    std::int64_t most = 0;
    for (const Chunk& chunk : chunks) most = std::max(most, chunk.floats);
    return most;
}

std::int64_t Work::item_count() const {
    std::int64_t count = 0;
    for (const Chunk& chunk : chunks) count += static_cast<std::int64_t>(chunk.items.size());
    return count;
}

std::int64_t row_floats(const Product& product, const FastKernels& kernels) {
    return product.method == Method::panels ? product.k_count : round_up(product.k_count, kernels.width);
}

Work plan_work(const Geometry& g, const FastKernels& kernels, Method large) {
    Work work;
    Cutter cutter(work, kernels);
    if (g.n == 0) return work;
    const std::vector<Piece> list = merged_pieces(g, work.row_numbers);
    work.products.reserve(list.size());
    for (const Piece& piece : list) {
        Product product = make_product(g, piece, work.row_numbers);
        product.method = product.rows.count <= dot_rows_limit ? Method::dots : large;
        if (product.k_count == 0) product.method = Method::none;
        work.products.push_back(product);
        cutter.cut(static_cast<int>(work.products.size()) - 1);
    }
    return work;
}

}  // namespace tilewright::cpu
