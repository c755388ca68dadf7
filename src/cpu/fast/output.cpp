#include "cpu/fast/output.h"

#include "formats/convert.h"
#include "problem/canonical_order.h"

#include <cmath>
#include <cstring>

namespace tilewright::cpu {
namespace {

/// Rounds to f32 ahead of a second rounding to fewer bits. An inexact result gets an odd last bit, which keeps the
/// second rounding from taking it for a tie. Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded
/// sums", 2008.
float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    const auto bits = __builtin_bit_cast(std::uint32_t, nearest);
    const bool settled = static_cast<double>(nearest) == value || (bits & 1) != 0 || std::isnan(value);
    const bool beyond = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    const std::uint32_t neighbour = beyond ? bits - 1 : bits + 1;
    return settled ? nearest : __builtin_bit_cast(float, neighbour);
}

std::byte* address(const OutputJob& job, const OutputPlace& place, Format format, std::int64_t row, int column) {
    const std::int64_t index = place.base + row * place.row_stride + (job.first_column + column) * place.column_stride;
    return static_cast<std::byte*>(place.data) + index * (bits(format) / 8);
}

void read_c(const OutputJob& job, std::int64_t row, float* values) {
    const auto at = [&](int column) { return address(job, job.c, job.addend, row, column); };
    if (job.c.column_stride == 1) return formats::decode(job.addend, at(0), job.columns, values);
    std::uint32_t codes[output_columns];
    const int size = bits(job.addend) / 8;
    for (int i = 0; i < job.columns; ++i) {
        std::memcpy(reinterpret_cast<std::byte*>(codes) + i * size, at(i), size);
    }
    formats::decode(job.addend, codes, job.columns, values);
}

void write_d(const OutputJob& job, std::int64_t row, const float* values) {
    constexpr auto overflow = formats::Overflow::propagate;
    const auto at = [&](int column) { return address(job, job.d, job.format, row, column); };
    if (job.d.column_stride == 1) return formats::encode(job.format, values, job.columns, at(0), overflow);
    std::uint32_t codes[output_columns];
    formats::encode(job.format, values, job.columns, codes, overflow);
    const int size = bits(job.format) / 8;
    for (int i = 0; i < job.columns; ++i) {
        std::memcpy(at(i), reinterpret_cast<const std::byte*>(codes) + i * size, size);
    }
}

/// The sums of row `r` with every scale except the factor.
void scaled_sums(const OutputJob& job, std::int64_t r, double* values) {
    float sums[output_columns];
    for (int i = 0; i < job.columns; ++i) sums[i] = job.sums[r * job.row_stride + i * job.column_stride];
    for (int i = 0; i < job.columns; ++i)
        values[i] = double{sums[i]} * scale_product(job.row_scales[r], job.column_scales[i]);
    if (job.wide == nullptr) return;
    for (int i = 0; i < job.columns; ++i) {
        if (job.all_wide || !std::isfinite(sums[i])) values[i] = job.wide[i * job.wide_stride + r];
    }
}

}  // namespace

void write_output(const OutputJob& job) {
    double values[output_columns];
    float c[output_columns] = {};
    float results[output_columns];
    for (std::int64_t r = 0; r < job.rows.count; ++r) {
        const std::int64_t row = job.rows[r];
        const bool has_c = job.c.data != nullptr;
        if (has_c) read_c(job, row, c);
        if (job.sums == nullptr) {
            write_d(job, row, c);
            continue;
        }
        scaled_sums(job, r, values);
        for (int i = 0; i < job.columns; ++i) values[i] = job.factor * values[i] + double{c[i]};
        for (int i = 0; i < job.columns; ++i) {
            results[i] = job.format == Format::f32 ? static_cast<float>(values[i]) : round_to_odd(values[i]);
        }
        write_d(job, row, results);
    }
}

}  // namespace tilewright::cpu
