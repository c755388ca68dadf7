// Products in double, in small blocks that are decoded without scales. They serve scales that fp32 cannot hold, and
// sums that overflowed in fp32 although the result may not.
#include "cpu/fast/macro_kernel.h"
#include "problem/canonical_order.h"

#include <algorithm>
#include <cmath>

namespace tilewright::cpu {
namespace {

constexpr int scale_columns_limit = wide_k / 16;
constexpr int scale_stride = 32;  // at least the lanes of any level, and wide_columns
static_assert(scale_stride >= wide_columns);

/// The parts of ThreadMemory::wide.
struct WideMemory {
    WideMemory(const FastKernels& kernels, const ThreadMemory& memory)
        : rows(memory.wide.get()),
          columns(rows + wide_k * kernels.lanes),
          sums(columns + wide_columns * wide_k),
          scales(sums + wide_columns * kernels.lanes),
          decoded(reinterpret_cast<float*>(scales + scale_columns_limit * scale_stride)),
          gains(decoded + wide_k * std::max(kernels.lanes, wide_columns)),
          codes(memory.codes.get()) {}

    double* rows;     // [k, lanes]
    double* columns;  // [columns, k]
    double* sums;     // [columns, lanes]
    double* scales;   // [scale columns, scale_stride]
    float* decoded;   // [k, lanes] or [columns, k]
    float* gains;     // [scale_stride]
    std::byte* codes;
};

/// Decodes a block without its scales; `row_stride` or k_stride is 1.
void decode_unscaled(const FastKernels& kernels, const OperandBlock& block, const WideMemory& memory, bool along_rows) {
    const float gain = kernels.decode_gain(block.slice.operand->recipe.values);
    std::fill_n(memory.gains, scale_stride, gain);
    DecodeJob job = decode_job(block);
    job.scales = memory.gains;
    job.k_block = 0;
    job.out = memory.decoded;
    job.out_row_stride = along_rows ? 1 : wide_k;
    job.out_k_stride = along_rows ? kernels.lanes : 1;
    job.scratch = memory.codes;
    kernels.decode(job);
}

int scale_column(const OperandBlock& block, int k) {
    const int k_block = block.slice.operand->k_block();
    return k_block == 0 ? 0 : k / k_block;
}

void widen_rows(const FastKernels& kernels, const OperandBlock& block, const WideMemory& memory) {
    const int lanes = kernels.lanes;
    decode_unscaled(kernels, block, memory, true);
    exact_scales(block, memory.scales, scale_stride);
    for (int k = 0; k < block.k_count; ++k) {
        const double* scales = memory.scales + scale_column(block, k) * scale_stride;
        for (int r = 0; r < lanes; ++r) {
            memory.rows[k * lanes + r] = r < block.rows.count ? double{memory.decoded[k * lanes + r]} * scales[r] : 0;
        }
    }
}

void widen_columns(const FastKernels& kernels, const OperandBlock& block, const WideMemory& memory) {
    decode_unscaled(kernels, block, memory, false);
    exact_scales(block, memory.scales, scale_stride);
    for (int c = 0; c < block.rows.count; ++c) {
        for (int k = 0; k < block.k_count; ++k) {
            const double scale = memory.scales[c + scale_column(block, k) * scale_stride];
            memory.columns[c * block.k_count + k] = double{memory.decoded[c * wide_k + k]} * scale;
        }
    }
}

/// The scales that are applied outside of the values, per 32 k-elements.
struct OutsideScales {
    static constexpr int step = 32;

    explicit OutsideScales(const OperandBlock& block) {
        double scales[scale_columns_limit * scale_stride];
        const bool outside = scaled_outside(block.slice.operand->recipe.granularity);
        if (outside) exact_scales(block, scales, scale_stride);
        for (int k = 0; k < block.k_count; k += step) {
            for (int r = 0; r < block.rows.count; ++r) {
                const double scale = outside ? scales[scale_column(block, k) * scale_stride + r] : 1;
                at[k / step][r] = scale;
                largest = std::max(largest, std::fabs(scale));
            }
        }
    }

    double at[wide_k / step][scale_stride] = {};
    double largest = 0;
};

/// Sets sums to NaN if a product of scales overflows fp32. (A nonzero sum may be infinite as well.)
void spoil_overflows(const OperandBlock& rows, const OperandBlock& columns, int lanes, double* sums) {
    if (scales_apart({rows.slice.operand->recipe, columns.slice.operand->recipe})) return;
    const OutsideScales row_scales(rows);
    const OutsideScales column_scales(columns);
    const auto overflows = [](double x, double y) { return std::isinf(scale_product(x, y)); };
    if (!overflows(row_scales.largest, column_scales.largest)) return;
    for (int k = 0; k < rows.k_count; k += OutsideScales::step) {
        const int i = k / OutsideScales::step;
        for (int c = 0; c < columns.rows.count; ++c) {
            for (int r = 0; r < rows.rows.count; ++r) {
                if (overflows(row_scales.at[i][r], column_scales.at[i][c])) sums[c * lanes + r] = std::nan("");
            }
        }
    }
}

/// Sums of some rows with some columns, into memory.sums.
void multiply(const FastKernels& kernels, const Product& product, const Rows& rows, const Rows& columns,
              const WideMemory& memory) {
    std::fill_n(memory.sums, wide_columns * kernels.lanes, 0.0);
    for (std::int64_t k = 0; k < product.k_count; k += wide_k) {
        const auto count = static_cast<int>(std::min<std::int64_t>(wide_k, product.k_count - k));
        const OperandBlock row_block{.slice = product.row_operand, .rows = rows, .k = k, .k_count = count};
        const OperandBlock column_block{.slice = product.column_operand, .rows = columns, .k = k, .k_count = count};
        widen_rows(kernels, row_block, memory);
        widen_columns(kernels, column_block, memory);
        kernels.multiply_wide({.rows = memory.rows,
                               .columns = memory.columns,
                               .column_count = static_cast<int>(columns.count),
                               .k_count = count,
                               .sums = memory.sums});
        spoil_overflows(row_block, column_block, kernels.lanes, memory.sums);
    }
}

}  // namespace

std::size_t wide_doubles(const FastKernels& kernels) {
    const auto lanes = static_cast<std::size_t>(kernels.lanes);
    const std::size_t doubles =
        wide_k * lanes + wide_columns * wide_k + wide_columns * lanes + scale_columns_limit * scale_stride;
    return doubles + (std::max<std::size_t>(lanes, wide_columns) * wide_k + scale_stride + 1) / 2;
}

void write_wide(const Call& call, const MacroTile& tile, ThreadMemory& memory, const OutputJob& job) {
    const PackedBlock& packed = call.blocking.packed_blocks[static_cast<std::size_t>(tile.block)];
    const Product& product = call.blocking.products[static_cast<std::size_t>(packed.product)];
    const WideMemory wide(call.kernels, memory);
    for (std::int64_t r = 0; r < packed.rows.count; r += call.kernels.lanes) {
        const Rows rows = packed.rows.slice(r, std::min<std::int64_t>(call.kernels.lanes, packed.rows.count - r));
        for (int c = 0; c < tile.columns; c += wide_columns) {
            if (call.cancellation.requested()) return;
            const int count = std::min(wide_columns, tile.columns - c);
            multiply(call.kernels, product, rows, product.columns.slice(tile.first_column + c, count), wide);
            OutputJob some = job;
            some.rows = rows;
            some.first_column += c;
            some.columns = count;
            some.sums += r * job.row_stride + c * job.column_stride;
            some.row_scales += r;
            some.column_scales += c;
            some.wide = wide.sums;
            some.wide_stride = call.kernels.lanes;
            write_output(some);
        }
    }
}

}  // namespace tilewright::cpu
