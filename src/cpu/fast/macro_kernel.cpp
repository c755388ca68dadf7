#include "cpu/fast/macro_kernel.h"

#include "base/math.h"
#include "cpu/blas.h"

#include <algorithm>
#include <cmath>

namespace tilewright::cpu {
namespace {

/// k of the columns that are packed at a time. There are `gap` floats between two packed columns, so that they do not
/// share cache sets.
constexpr int panel_k = 256;
constexpr int dot_k = 512;
constexpr int gap = 16;
constexpr int dot_micro_columns = 8;
constexpr int scale_floats = output_columns * (decode_k_limit / 16);

/// A macro-tile with everything that it refers to, and its sums.
struct TileView {
    const Product& product;
    const PackedBlock& packed;
    Rows columns;
    const float* rows;        // decoded
    const float* row_scales;  // of blocks; null: none
    std::int64_t row_scale_stride;
    bool extreme;
    const float* sums = nullptr;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;

    const float* block_row_scales(std::int64_t k) const {
        return row_scales == nullptr ? nullptr : row_scales + k / scale_k * row_scale_stride;
    }
};

OperandBlock column_block(const TileView& view, const Rows& columns, std::int64_t k, int k_limit) {
    return {.slice = view.product.column_operand,
            .rows = columns,
            .k = k,
            .k_count = static_cast<int>(std::min<std::int64_t>(k_limit, view.product.k_count - k))};
}

/// Decodes columns along k, `stride` floats apart, and finds their block scales.
void pack_columns(const Call& call, const OperandBlock& block, TileView& view, ThreadMemory& memory, int stride) {
    float* scales = memory.scales.get();
    const float gain = call.kernels.decode_gain(block.slice.operand->recipe.values);
    if (!fold_scales(block, gain, scales, output_columns)) view.extreme = true;
    if (view.product.scaled) block_scales(block, memory.block_scales.get(), output_columns);
    DecodeJob job = decode_job(block);
    job.scales = scales;
    job.scale_stride = output_columns;
    job.out = memory.columns.get();
    job.out_row_stride = stride;
    job.out_k_stride = 1;
    job.scratch = memory.codes.get();
    call.kernels.decode(job);
}

void multiply_panels(const Call& call, TileView& view, ThreadMemory& memory) {
    const auto count = static_cast<int>(view.columns.count);
    const int padded = round_up(count, call.kernels.panel_columns);
    constexpr int stride = panel_k + gap;
    std::fill(memory.columns.get() + count * stride, memory.columns.get() + padded * stride, 0.0F);
    const auto lanes = static_cast<std::int64_t>(call.kernels.lanes);
    const std::int64_t sum_stride = padded_rows(view.packed, call.kernels);
    for (std::int64_t k = 0; k < view.product.k_count; k += panel_k) {
        if (call.cancellation.requested()) return;
        const OperandBlock block = column_block(view, view.columns, k, panel_k);
        pack_columns(call, block, view, memory, stride);
        const int step = view.product.scaled ? scale_k : panel_k;
        for (int i = 0; i < block.k_count; i += step) {
            call.kernels.multiply_panels({.panels = view.rows + (k + i) * lanes,
                                          .panel_stride = view.product.k_count * lanes,
                                          .rows = static_cast<int>(view.packed.rows.count),
                                          .columns = memory.columns.get() + i,
                                          .column_stride = stride,
                                          .column_count = padded,
                                          .k_count = std::min(step, block.k_count - i),
                                          .row_scales = view.block_row_scales(k + i),
                                          .column_scales = memory.block_scales.get() + i / scale_k * output_columns,
                                          .sums = memory.sums.get(),
                                          .sum_stride = sum_stride,
                                          .first = k + i == 0});
        }
    }
    view.sums = memory.sums.get();
    view.row_stride = 1;
    view.column_stride = sum_stride;
}

/// A few columns at a time, packed into the first-level cache.
void multiply_dots(const Call& call, TileView& view, ThreadMemory& memory) {
    constexpr int stride = dot_k + gap;
    const FastKernels& kernels = call.kernels;
    const auto rows = static_cast<int>(view.packed.rows.count);
    const std::int64_t lane_sums = std::int64_t{dot_micro_columns} * rows * kernels.width;
    for (std::int64_t c = 0; c < view.columns.count; c += dot_micro_columns) {
        const Rows columns = view.columns.slice(c, std::min<std::int64_t>(dot_micro_columns, view.columns.count - c));
        std::fill_n(memory.lane_sums.get(), lane_sums, 0.0F);
        std::fill_n(memory.columns.get() + columns.count * stride, (dot_micro_columns - columns.count) * stride, 0.0F);
        for (std::int64_t k = 0; k < view.product.k_count; k += dot_k) {
            if (call.cancellation.requested()) return;
            const OperandBlock block = column_block(view, columns, k, dot_k);
            pack_columns(call, block, view, memory, stride);
            const int padded = round_up(block.k_count, kernels.width);
            for (int i = 0; i < dot_micro_columns; ++i) {
                float* column = memory.columns.get() + i * stride;
                std::fill(column + block.k_count, column + padded, 0.0F);
            }
            kernels.multiply_dots({.rows = view.rows + k,
                                   .row_stride = row_floats(view.product, kernels),
                                   .row_count = rows,
                                   .columns = memory.columns.get(),
                                   .column_stride = stride,
                                   .column_count = dot_micro_columns,
                                   .k_count = padded,
                                   .row_scales = view.block_row_scales(k),
                                   .row_scale_stride = view.row_scale_stride,
                                   .column_scales = memory.block_scales.get(),
                                   .column_scale_stride = output_columns,
                                   .sums = memory.lane_sums.get()});
        }
        kernels.add_lanes(memory.lane_sums.get(), columns.count * rows, memory.sums.get() + c * rows);
    }
    view.sums = memory.sums.get();
    view.row_stride = 1;
    view.column_stride = rows;
}

/// sums += products times the scales of their block.
void add_block(const TileView& view, const ThreadMemory& memory, std::int64_t k, int i) {
    const float* row_scales = view.block_row_scales(k + i);
    const float* column_scales = memory.block_scales.get() + i / scale_k * output_columns;
    for (std::int64_t r = 0; r < view.packed.rows.count; ++r) {
        float* sums = memory.sums.get() + r * macro_columns_limit;
        const float* products = memory.products.get() + r * macro_columns_limit;
        for (std::int64_t c = 0; c < view.columns.count; ++c) {
            const float product = products[c] * (row_scales[r] * column_scales[c]);
            sums[c] = k + i == 0 ? product : sums[c] + product;
        }
    }
}

void multiply_sgemm(const Call& call, TileView& view, ThreadMemory& memory) {
    constexpr int stride = panel_k + gap;
    const bool scaled = view.product.scaled;
    const int step = scaled ? scale_k : panel_k;
    for (std::int64_t k = 0; k < view.product.k_count; k += panel_k) {
        if (call.cancellation.requested()) return;
        const OperandBlock block = column_block(view, view.columns, k, panel_k);
        pack_columns(call, block, view, memory, stride);
        for (int i = 0; i < block.k_count; i += step) {
            sgemm({.m = static_cast<int>(view.packed.rows.count),
                   .n = static_cast<int>(view.columns.count),
                   .k = std::min(step, block.k_count - i),
                   .a = view.rows + k + i,
                   .a_stride = static_cast<int>(row_floats(view.product, call.kernels)),
                   .b = memory.columns.get() + i,
                   .b_stride = stride,
                   .beta = scaled || k == 0 ? 0.0F : 1.0F,
                   .c = scaled ? memory.products.get() : memory.sums.get(),
                   .c_stride = macro_columns_limit});
            if (scaled) add_block(view, memory, k, i);
        }
    }
    view.sums = memory.sums.get();
    view.row_stride = macro_columns_limit;
    view.column_stride = 1;
}

bool all_finite(const TileView& view) {
    const bool along_rows = view.row_stride == 1;
    const std::int64_t outer = along_rows ? view.columns.count : view.packed.rows.count;
    const std::int64_t inner = along_rows ? view.packed.rows.count : view.columns.count;
    const std::int64_t stride = along_rows ? view.column_stride : view.row_stride;
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < outer; ++i) {
        for (std::int64_t j = 0; j < inner; ++j) {
            const auto bits = __builtin_bit_cast(std::uint32_t, view.sums[i * stride + j]) & 0x7FFF'FFFFU;
            largest = std::max(largest, bits);
        }
    }
    return largest < 0x7F80'0000U;
}

/// Whether a scale of a row (or column) may overflow with a block scale of the other slice.
bool may_overflow(const Product& product, const double* scales, std::int64_t count) {
    if (!varies_along_k(product.row_operand) && !varies_along_k(product.column_operand)) return false;
    return std::any_of(scales, scales + count, [](double scale) { return std::fabs(scale) > largest_row_scale; });
}

OutputPlace place(const OutputGeometry& output, const Product& product) {
    const std::int64_t first = product.columns.first;
    const std::int64_t base = output.group_stride * product.row_operand.group;
    if (product.swapped)
        return {output.data, base + first * output.row_stride, output.column_stride, output.row_stride};
    return {output.data, base, output.row_stride, output.column_stride};
}

/// Computes D from the sums: the remaining scales, alpha and C.
void write_tile(const Call& call, const MacroTile& tile, TileView& view, ThreadMemory& memory) {
    const PackedBlock& packed = view.packed;
    const Product& product = view.product;
    double row_scales[packed_rows_limit];
    double column_scales[output_columns];
    for (std::int64_t r = 0; r < packed.rows.count; ++r)
        row_scales[r] = remaining_scale(product.row_operand, packed.rows[r]);
    for (int c = 0; c < tile.columns; ++c) column_scales[c] = remaining_scale(product.column_operand, view.columns[c]);
    if (may_overflow(product, row_scales, packed.rows.count) || may_overflow(product, column_scales, tile.columns)) {
        view.extreme = true;
    }
    const OutputJob job{.format = call.geometry.output,
                        .d = place(call.geometry.d, product),
                        .c = place(call.geometry.c, product),
                        .addend = call.geometry.addend(),
                        .rows = packed.rows,
                        .first_column = tile.first_column,
                        .columns = tile.columns,
                        .sums = view.sums,
                        .row_stride = view.row_stride,
                        .column_stride = view.column_stride,
                        .row_scales = row_scales,
                        .column_scales = column_scales,
                        .factor = product.factor,
                        .all_wide = view.extreme};
    if (product.method != Method::none && (view.extreme || !all_finite(view))) {
        write_wide(call, tile, memory, job);
    } else {
        write_output(job);
    }
}

}  // namespace

ThreadMemory::ThreadMemory(const FastKernels& kernels)
    : scales(new float[scale_floats]),
      block_scales(new float[std::size_t{output_columns} * (decode_k_limit / scale_k)]),
      columns(new float[std::size_t{macro_columns_limit} * (dot_k + gap)]),
      sums(new float[std::size_t{macro_columns_limit} * packed_rows_limit]),
      lane_sums(new float[std::size_t{dot_micro_columns} * dot_rows_limit * static_cast<std::size_t>(kernels.width)]),
      products(new float[std::size_t{macro_columns_limit} * packed_rows_limit]),
      wide(new double[wide_doubles(kernels)]),
      codes(new std::byte[decode_scratch_bytes]) {}

void multiply_tile(const Call& call, const MacroTile& tile, ThreadMemory& memory) {
    const PackedBlock& packed = call.blocking.packed_blocks[static_cast<std::size_t>(tile.block)];
    const Product& product = call.blocking.products[static_cast<std::size_t>(packed.product)];
    TileView view{.product = product,
                  .packed = packed,
                  .columns = product.columns.slice(tile.first_column, tile.columns),
                  .rows = call.buffer + packed.offset,
                  .row_scales = product.scaled ? call.buffer + packed.scale_offset : nullptr,
                  .row_scale_stride = padded_rows(packed, call.kernels),
                  .extreme = packed.extreme};
    switch (product.method) {
        case Method::none: break;
        case Method::dots: multiply_dots(call, view, memory); break;
        case Method::panels: multiply_panels(call, view, memory); break;
        case Method::sgemm: multiply_sgemm(call, view, memory); break;
    }
    if (!call.cancellation.requested()) write_tile(call, tile, view, memory);
}

}  // namespace tilewright::cpu
