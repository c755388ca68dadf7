// Compiled once per instruction level; see the rule in vector.h.
#include "cpu/fast/micro_kernels.h"

#include "cpu/fast/vector.h"

namespace tilewright::cpu::TILEWRIGHT_ISA {
namespace {

// Accumulators, two vectors of rows and a broadcast fill the registers: 32 registers with AVX-512, otherwise 16.
constexpr int panel_vectors = 2;
constexpr int panel_columns = width == 16 ? 14 : 6;
constexpr int lanes = panel_vectors * width;
constexpr int dot_columns = width == 16 ? 4 : 2;
constexpr int dot_rows = 4;

template <int vectors>
using Sums = Vector[panel_columns][vectors];

/// Adds the finished sums to the sums in memory.
template <int vectors>
void add_panel(const PanelJob& job, int row, int column, const Sums<vectors>& sum) {
    for (int c = 0; c < panel_columns; ++c) {
        float* to = job.sums + (column + c) * job.sum_stride + row;
        for (int v = 0; v < vectors; ++v) {
            const Vector before = job.first ? zero() : load(to + v * width);
            if (job.row_scales == nullptr) {
                store(to + v * width, add(sum[c][v], before));
            } else {
                const Vector scale =
                    multiply(load(job.row_scales + row + v * width), broadcast(job.column_scales[column + c]));
                store(to + v * width, fma(sum[c][v], scale, before));
            }
        }
    }
}

template <int vectors>
void multiply_panel(const PanelJob& job, int row, int column) {
    const float* panel = job.panels + row / lanes * job.panel_stride;
    const float* columns = job.columns + column * job.column_stride;
    const std::int64_t stride = job.column_stride;
    Sums<vectors> sum;
#pragma GCC unroll 16
    for (int c = 0; c < panel_columns; ++c) {
        for (int v = 0; v < vectors; ++v) sum[c][v] = zero();
    }
    for (int k = 0; k < job.k_count; ++k) {
        Vector rows[vectors];
        for (int v = 0; v < vectors; ++v) rows[v] = load(panel + v * width);
#pragma GCC unroll 16
        for (int c = 0; c < panel_columns; ++c) {
            const Vector value = broadcast(columns[c * stride + k]);
            for (int v = 0; v < vectors; ++v) sum[c][v] = fma(rows[v], value, sum[c][v]);
        }
        panel += lanes;
    }
    add_panel<vectors>(job, row, column, sum);
}

void multiply_panels(const PanelJob& job) {
    for (int c = 0; c < job.column_count; c += panel_columns) {
        for (int r = 0; r < job.rows; r += lanes) {
            if (job.rows - r > width) {
                multiply_panel<panel_vectors>(job, r, c);
            } else {
                multiply_panel<1>(job, r, c);
            }
        }
    }
}

/// Sums of one block of k, beginning with zero.
template <int rows>
void sum_block(const DotJob& job, const float* a, const float* b, int k_count, Vector (&sum)[dot_columns][rows]) {
    for (int c = 0; c < dot_columns; ++c) {
        for (int r = 0; r < rows; ++r) sum[c][r] = zero();
    }
    for (int k = 0; k < k_count; k += width) {
        Vector left[rows];
        for (int r = 0; r < rows; ++r) left[r] = load(a + r * job.row_stride + k);
        for (int c = 0; c < dot_columns; ++c) {
            const Vector right = load(b + c * job.column_stride + k);
            for (int r = 0; r < rows; ++r) sum[c][r] = fma(left[r], right, sum[c][r]);
        }
    }
}

template <int rows>
void multiply_dot(const DotJob& job, int row, int column) {
    const bool scaled = job.row_scales != nullptr;
    const int block = scaled ? scale_k : job.k_count;
    for (int k = 0; k < job.k_count; k += block) {
        const int count = k + block < job.k_count ? block : job.k_count - k;
        Vector sum[dot_columns][rows];
        sum_block<rows>(job, job.rows + row * job.row_stride + k, job.columns + column * job.column_stride + k, count,
                        sum);
        for (int c = 0; c < dot_columns; ++c) {
            for (int r = 0; r < rows; ++r) {
                float* to = job.sums + (std::int64_t{column + c} * job.row_count + row + r) * width;
                if (scaled) {
                    const float scale = job.row_scales[k / scale_k * job.row_scale_stride + row + r] *
                                        job.column_scales[k / scale_k * job.column_scale_stride + column + c];
                    store(to, fma(sum[c][r], broadcast(scale), load(to)));
                } else {
                    store(to, add(sum[c][r], load(to)));
                }
            }
        }
    }
}

void multiply_dots(const DotJob& job) {
    for (int column = 0; column < job.column_count; column += dot_columns) {
        int row = 0;
        for (; row + dot_rows <= job.row_count; row += dot_rows) multiply_dot<dot_rows>(job, row, column);
        switch (job.row_count - row) {
            case 1: multiply_dot<1>(job, row, column); break;
            case 2: multiply_dot<2>(job, row, column); break;
            case 3: multiply_dot<3>(job, row, column); break;
            default: break;
        }
    }
}

void add_lanes(const float* from, std::int64_t count, float* sums) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = sum(load(from + i * width));
}

void multiply_wide(const WideJob& job) {
    for (int c = 0; c < job.column_count; ++c) {
        double sum[lanes];
        for (int lane = 0; lane < lanes; ++lane) sum[lane] = job.sums[c * lanes + lane];
        for (int k = 0; k < job.k_count; ++k) {
            const double value = job.columns[c * job.k_count + k];
            for (int lane = 0; lane < lanes; ++lane) sum[lane] += job.rows[k * lanes + lane] * value;
        }
        for (int lane = 0; lane < lanes; ++lane) job.sums[c * lanes + lane] = sum[lane];
    }
}

}  // namespace

const FastKernels& fast_kernels() {
    static constexpr FastKernels kernels{.width = width,
                                         .lanes = lanes,
                                         .panel_columns = panel_columns,
                                         .dot_columns = dot_columns,
                                         .decode = decode,
                                         .decode_gain = decode_gain,
                                         .multiply_panels = multiply_panels,
                                         .multiply_dots = multiply_dots,
                                         .add_lanes = add_lanes,
                                         .multiply_wide = multiply_wide};
    return kernels;
}

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
