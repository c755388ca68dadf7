#include "cpu/fast/blocking.h"

#include "base/math.h"
#include "problem/canonical_order.h"

#include <algorithm>
#include <numeric>

namespace tilewright::cpu {
namespace {

/// The buffer of packed blocks, in floats: 16 MiB.
constexpr std::int64_t buffer_limit = std::int64_t{4} << 20;

constexpr int dot_macro_columns = 32;
constexpr int sgemm_macro_columns = 128;

/// Merges the GEMMs of one group (its rows may be in many places) into one, so that its weights are decoded once.
std::vector<GroupGemm> merged_gemms(const Geometry& g, std::vector<std::int64_t>& row_numbers) {
    std::vector<GroupGemm> list = group_gemms(g);
    const auto by_group = [](const GroupGemm& x, const GroupGemm& y) { return x.group < y.group; };
    const auto same_group = [](const GroupGemm& x, const GroupGemm& y) { return x.group == y.group; };
    std::stable_sort(list.begin(), list.end(), by_group);
    if (std::adjacent_find(list.begin(), list.end(), same_group) == list.end()) return list;

    std::vector<GroupGemm> merged;
    for (const GroupGemm& gemm : list) {
        if (merged.empty() || merged.back().group != gemm.group) {
            merged.push_back(gemm);
            merged.back().row_begin = static_cast<std::int64_t>(row_numbers.size());
            merged.back().rows = 0;
        }
        for (std::int64_t r = 0; r < gemm.rows; ++r) row_numbers.push_back(gemm.row_begin + r);
        merged.back().rows += gemm.rows;
    }
    return merged;
}

Product make_product(const Geometry& g, const GroupGemm& gemm, const std::vector<std::int64_t>& row_numbers) {
    const bool listed = !row_numbers.empty();
    Product p{.row_operand = {&g.a, gemm.group, gemm.a},
              .column_operand = {&g.b, gemm.group, gemm.b},
              .rows = {.list = listed ? row_numbers.data() + gemm.row_begin : nullptr,
                       .first = listed ? 0 : gemm.row_begin,
                       .count = gemm.rows},
              .columns = {.count = g.n},
              .k_count = gemm.k_count};
    p.scaled = has_block_scales(p.row_operand) || has_block_scales(p.column_operand);
    p.factor = output_factor(g.alpha, tensor_scale(p.row_operand), tensor_scale(p.column_operand));
    if (!listed && p.columns.count < p.rows.count && p.columns.count <= dot_rows_limit) {
        std::swap(p.row_operand, p.column_operand);
        std::swap(p.rows, p.columns);
        p.swapped = true;
    }
    return p;
}

int macro_columns(const Product& product, const FastKernels& kernels) {
    switch (product.method) {
        case Method::none: return 128;
        case Method::dots: return dot_macro_columns;
        case Method::sgemm: return sgemm_macro_columns;
        // Fewer columns if there are few rows, so that a narrow product still uses many cores.
        case Method::panels:
            return (product.rows.count <= 64 ? 56 : 112) / kernels.panel_columns * kernels.panel_columns;
    }
    return 1;
}

/// Rows of a packed block: whole panels, as many as fit into the buffer.
std::int64_t packed_rows(const Product& product, const FastKernels& kernels) {
    const std::int64_t fitting = buffer_limit / std::max<std::int64_t>(row_floats(product, kernels), 1);
    return std::clamp<std::int64_t>(fitting / kernels.lanes * kernels.lanes, kernels.lanes, packed_rows_limit);
}

/// Partitions the products into blocks, passes and macro-tiles.
class Partitioner {
public:
    Partitioner(Blocking& blocking, const FastKernels& kernels) : blocking_(blocking), kernels_(kernels) {}

    void add(int index) {
        const Product& product = blocking_.products[static_cast<std::size_t>(index)];
        const std::int64_t step = packed_rows(product, kernels_);
        for (std::int64_t row = 0; row < product.rows.count; row += step) {
            add_block(index, product.rows.slice(row, std::min(step, product.rows.count - row)));
        }
    }

private:
    void add_block(int index, const Rows& rows) {
        const Product& product = blocking_.products[static_cast<std::size_t>(index)];
        const bool decoded = product.method != Method::none;
        const std::int64_t padded = round_up<std::int64_t>(rows.count, kernels_.lanes);
        const std::int64_t values = decoded ? padded * row_floats(product, kernels_) : 0;
        const std::int64_t scales = product.scaled ? padded * ceil_div<std::int64_t>(product.k_count, scale_k) : 0;
        const std::int64_t floats = values + scales;
        if (blocking_.passes.empty() || blocking_.passes.back().floats + floats > buffer_limit)
            blocking_.passes.emplace_back();
        Pass& pass = blocking_.passes.back();
        const int block = static_cast<int>(blocking_.packed_blocks.size());
        blocking_.packed_blocks.push_back(
            {.product = index, .rows = rows, .offset = pass.floats, .scale_offset = pass.floats + values});
        pass.floats += floats;
        for (int row = 0; decoded && row < rows.count; row += kernels_.lanes) {
            const auto count = static_cast<int>(std::min<std::int64_t>(kernels_.lanes, rows.count - row));
            pass.pack_tasks.push_back({.block = block, .first_row = row, .rows = count});
        }
        const int columns = macro_columns(product, kernels_);
        for (std::int64_t column = 0; column < product.columns.count; column += columns) {
            const auto count = static_cast<int>(std::min<std::int64_t>(columns, product.columns.count - column));
            pass.tiles.push_back({.block = block, .first_column = column, .columns = count});
        }
    }

    Blocking& blocking_;
    const FastKernels& kernels_;
};

}  // namespace

std::int64_t Blocking::buffer_floats() const {
    std::int64_t most = 0;
    for (const Pass& pass : passes) most = std::max(most, pass.floats);
    return most;
}

std::int64_t Blocking::tile_count() const {
    std::int64_t count = 0;
    for (const Pass& pass : passes) count += static_cast<std::int64_t>(pass.tiles.size());
    return count;
}

std::int64_t row_floats(const Product& product, const FastKernels& kernels) {
    return product.method == Method::panels ? product.k_count : round_up<std::int64_t>(product.k_count, kernels.width);
}

std::int64_t padded_rows(const PackedBlock& block, const FastKernels& kernels) {
    return round_up<std::int64_t>(block.rows.count, kernels.lanes);
}

Blocking plan_blocking(const Geometry& g, const FastKernels& kernels, Method large) {
    Blocking blocking;
    Partitioner partitioner(blocking, kernels);
    if (g.n == 0) return blocking;
    const std::vector<GroupGemm> list = merged_gemms(g, blocking.row_numbers);
    blocking.products.reserve(list.size());
    for (const GroupGemm& gemm : list) {
        Product product = make_product(g, gemm, blocking.row_numbers);
        product.method = product.rows.count <= dot_rows_limit ? Method::dots : large;
        if (product.k_count == 0) product.method = Method::none;
        blocking.products.push_back(product);
        partitioner.add(static_cast<int>(blocking.products.size()) - 1);
    }
    return blocking;
}

}  // namespace tilewright::cpu
