// Quantising and dequantising whole matrices: tile by tile, in parallel, whatever the strides.
#include "formats/block_scale.h"
#include "formats/matrix_view.h"
#include "formats/packed_layout.h"
#include "formats/quantize_check.h"
#include "formats/quantize_cpu.h"
#include "formats/runner.h"
#include "formats/scale_view.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <algorithm>
#include <vector>

namespace tilewright {
namespace {

using namespace formats;

/// Tall tiles where a scale, or a run in memory, spans many rows; else flat ones, which stay in the nearest cache.
std::int64_t strip_rows(Granularity granularity, const MatrixView& in) {
    const bool turned = in.has_contiguous_rows() && !in.has_contiguous_columns();
    return turned || granularity == Granularity::block_128x128 ? 128 : 32;
}

// ---- scales that need a look at all of k first ----

/// The peak of each row of each group.
std::vector<Peak> row_peaks(const MatrixView& source, Runner& runner) {
    std::vector<Peak> peaks(static_cast<std::size_t>(source.groups * source.rows));
    const Regions regions(source, strip_rows(Granularity::row, source));
    const std::int64_t strips = regions.groups * regions.strips();
    runner.for_each<Tile>(strips, [&](std::int64_t strip, Tile& tile) {
        for (std::int64_t chunk = 0; chunk < regions.chunks(); ++chunk) {
            const Region region = regions[strip * regions.chunks() + chunk];
            load(source, region, tile);
            for (std::int64_t i = 0; i < region.rows; ++i) {
                const std::int64_t row = region.group * source.rows + region.row + i;
                peaks[static_cast<std::size_t>(row)].include(tile.row(i), region.columns);
            }
        }
    });
    return peaks;
}

/// The peak of each group, or of all of them as if they were one.
std::vector<Peak> group_peaks(const MatrixView& source, bool shared, Runner& runner) {
    const std::vector<Peak> rows = row_peaks(source, runner);
    std::vector<Peak> groups(static_cast<std::size_t>(shared ? 1 : source.groups));
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
        groups[static_cast<std::size_t>(shared ? 0 : i / source.rows)].include(rows[static_cast<std::size_t>(i)]);
    }
    return groups;
}

void write_row_scales(const MatrixView& source, const ScaleRule& rule, const ScaleView& scales, Runner& runner) {
    const std::vector<Peak> peaks = row_peaks(source, runner);
    for (std::int64_t i = 0; i < std::ssize(peaks); ++i) {
        scales.set(i / source.rows, i % source.rows, 0, rule.scale(peaks[static_cast<std::size_t>(i)], 1));
    }
}

void write_tensor_scales(const MatrixView& source, const ScaleRule& rule, const Tensor& out, Runner& runner) {
    const ScaleView scales(out, Granularity::tensor);
    const std::vector<Peak> peaks = group_peaks(source, out.shape[0] == 1, runner);
    for (std::int64_t group = 0; group < std::ssize(peaks); ++group) {
        const Peak& peak = peaks[static_cast<std::size_t>(group)];
        const bool two_levels = rule.recipe.granularity == Granularity::block_1x16;
        scales.set(group, 0, 0, two_levels ? rule.tensor_scale(peak) : rule.scale(peak, 1));
    }
}

// ---- quantising ----

struct Quantizer {
    MatrixView source;
    MatrixView values;
    ScaleRule rule;
    ScaleView scales;
    ScaleView tensor_scale;

    /// One block within the tile: its scale is found, or read where it was written before.
    void divide_block(const Region& block, const Region& region, Tile& tile) const {
        const float over = static_cast<float>(tensor_scale.get(block.group, 0, 0));
        const std::int64_t i = block.row - region.row;
        const std::int64_t j = block.column - region.column;
        if (scales.k_block > 0) {
            Peak peak;
            for (std::int64_t r = i; r < i + block.rows; ++r) peak.include(tile.row(r) + j, block.columns);
            scales.set(block.group, block.row, block.column, rule.scale(peak, over));
        }
        const double scale = scales.get(block.group, block.row, block.column);
        for (std::int64_t r = i; r < i + block.rows; ++r) rule.divide(tile.row(r) + j, block.columns, scale, over);
    }

    void quantize(const Region& region, Tile& tile) const {
        load(source, region, tile);
        if (scales.data == nullptr) {
            return store(tile, region, values, is_fp8(values.format) ? Overflow::saturate_finite : Overflow::propagate);
        }
        const std::int64_t rows = std::max(scales.row_block, 1);
        const std::int64_t columns = scales.k_block > 0 ? scales.k_block : Tile::max_columns;
        for (std::int64_t i = 0; i < region.rows; i += rows) {
            for (std::int64_t j = 0; j < region.columns; j += columns) {
                divide_block({.group = region.group,
                              .row = region.row + i,
                              .column = region.column + j,
                              .rows = std::min(rows, region.rows - i),
                              .columns = std::min(columns, region.columns - j)},
                             region, tile);
            }
        }
        store(tile, region, values, Overflow::saturate_finite);
    }
};

// ---- dequantising ----

/// value * scale, in double exact, rounded to f32 to nearest; or, where a second rounding to a narrower format
/// follows, to odd, which makes the two together one correct rounding.
template <bool to_odd>
void multiply(float* numbers, std::int64_t count, double scale) {
    for (std::int64_t i = 0; i < count; ++i) {
        const double exact = double{numbers[i]} * scale;
        const auto rounded = static_cast<float>(exact);
        if constexpr (!to_odd) {
            numbers[i] = rounded;
        } else {
            const double back = rounded;
            auto bits = __builtin_bit_cast(std::uint32_t, rounded);
            bits -= std::abs(back) > std::abs(exact) ? 1U : 0U;
            bits |= back != exact ? 1U : 0U;
            numbers[i] = __builtin_bit_cast(float, bits);
        }
    }
}

struct Dequantizer {
    MatrixView values;
    MatrixView out;
    ScaleView scales;
    ScaleView tensor_scale;

    void dequantize(const Region& region, Tile& tile) const {
        load(values, region, tile);
        const std::int64_t columns = scales.k_block > 0 ? scales.k_block : Tile::max_columns;
        const double over = tensor_scale.get(region.group, 0, 0);
        for (std::int64_t i = 0; scales.data != nullptr && i < region.rows; ++i) {
            for (std::int64_t j = 0; j < region.columns; j += columns) {
                const double scale = scales.get(region.group, region.row + i, region.column + j) * over;
                const std::int64_t count = std::min(columns, region.columns - j);
                if (out.format == Format::f32) {
                    multiply<false>(tile.row(i) + j, count, scale);
                } else {
                    multiply<true>(tile.row(i) + j, count, scale);
                }
            }
        }
        store(tile, region, out, Overflow::propagate);
    }
};

}  // namespace

void formats::quantize_on_cpu(const Tensor& source, const QuantizeOptions& options, const Operand& out,
                              const ConversionOptions& how) {
    const Granularity granularity = options.recipe.granularity;
    const Quantizer quantizer{.source = matrix_view(source),
                              .values = matrix_view(out.values),
                              .rule = {options.recipe, options.round_up, options.deep_gemm},
                              .scales = ScaleView(out.scales, granularity),
                              .tensor_scale = ScaleView(out.tensor_scale, Granularity::tensor)};
    Runner runner(quantizer.source, how);
    if (granularity == Granularity::row) write_row_scales(quantizer.source, quantizer.rule, quantizer.scales, runner);
    if (granularity == Granularity::tensor) write_tensor_scales(quantizer.source, quantizer.rule, out.scales, runner);
    if (granularity == Granularity::block_1x16)
        write_tensor_scales(quantizer.source, quantizer.rule, out.tensor_scale, runner);

    const Regions regions(quantizer.source, strip_rows(granularity, quantizer.source));
    runner.for_each<Tile>(regions.count(), [&](std::int64_t i, Tile& tile) { quantizer.quantize(regions[i], tile); });
}

namespace {

/// The weights as they were before.
OwnedOperand unpacked(const Operand& operand, const ConversionOptions& how) {
    if (operand.values.given() || operand.scales.given() || operand.tensor_scale.given()) {
        throw Error({{.operand = "operand.packed",
                      .given = "packed weights together with values or scales",
                      .expected = "only one of them",
                      .advice = {}}});
    }
    checked_header(operand.packed);
    const PackedWeights packed = packed_weights(operand.packed.data, operand.packed.bytes);
    OwnedOperand out(packed.shape(), packed.recipe);
    unpack_weights(packed, out, how);
    return out;
}

}  // namespace

void dequantize(const Operand& operand, const Tensor& out, const ConversionOptions& how) {
    if (operand.packed.given()) {
        const OwnedOperand owned = unpacked(operand, how);
        return dequantize(owned, out, how);
    }
    std::vector<Finding> findings = check_dequantize(operand, out);
    if (!findings.empty()) throw Error(std::move(findings));
    const Dequantizer dequantizer{.values = matrix_view(operand.values),
                                  .out = matrix_view(out),
                                  .scales = ScaleView(operand.scales, operand.granularity),
                                  .tensor_scale = ScaleView(operand.tensor_scale, Granularity::tensor)};
    const Regions regions(dequantizer.values, strip_rows(operand.granularity, dequantizer.values));
    Runner(dequantizer.values, how).for_each<Tile>(regions.count(), [&](std::int64_t i, Tile& tile) {
        dequantizer.dequantize(regions[i], tile);
    });
}

}  // namespace tilewright
