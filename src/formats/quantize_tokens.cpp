// The quantizers of a training step on the CPU, with the arithmetic of the GPU kernels: strip by strip of 128 tokens of
// one group.
#include <tilewright/quantize_tokens.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/math.h"
#include "formats/block_scale.h"
#include "formats/element.h"
#include "formats/quantize_cpu.h"
#include "formats/recipe_of.h"
#include "formats/runner.h"
#include "formats/scale_view.h"
#include "formats/token_source.h"

namespace tilewright {
namespace {

using namespace formats;

/// A tile of h as one of the two operands has it: rows, blocks of k, and where they are in the operand.
struct Place {
    std::int64_t group = 0;
    Region region{};  // in the operand; group 0
};

/// One of the two operands.
class Side {
public:
    Side(const TokenOperand& given, bool columns, bool round_up)
        : given_(given),
          columns_(columns),
          rule_{recipe_of(given.operand), round_up, false},
          values_(matrix_view(given.operand.values)),
          scales_(given.operand.scales, given.operand.granularity),
          groups_(columns && scales_.group_stride != 0 ? given.operand.scales.shape[0] : 1) {
        if (needs_peaks()) peaks_.resize(static_cast<std::size_t>(groups_ * peak_rows()));
    }

    bool needs_peaks() const { return scales_.k_block == 0; }

    /// Scales of the tensor and of rows: all of them, from the peaks.
    void write_scales() const {
        for (std::int64_t i = 0; i < std::ssize(peaks_); ++i) {
            const std::int32_t peak = peaks_[static_cast<std::size_t>(i)];
            scales_.set(i / peak_rows(), i % peak_rows(), 0, rule_.scale({.all = peak, .finite = peak}, 1));
        }
    }

    /// own: memory for the side's copy of h.
    void include_peaks(const TokenStrip& strip, const Region& tile, const Tile& h, Tile& own) {
        const Place place = take(strip, tile, h, own);
        for (std::int64_t i = 0; i < place.region.rows; ++i) {
            Peak peak;
            peak.include(own.row(i), place.region.columns);
            const std::int64_t row = scales_.row_block == 0 ? 0 : place.region.row + i;
            const std::int64_t group = scales_.group_stride == 0 ? 0 : place.group;
            const std::atomic_ref highest(peaks_[static_cast<std::size_t>(group * peak_rows() + row)]);
            std::int32_t known = highest.load(std::memory_order_relaxed);
            while (known < peak.finite && !highest.compare_exchange_weak(known, peak.finite)) {
            }
        }
    }

    void write(const TokenStrip& strip, const Region& tile, const Tile& h, Tile& own) const {
        Place place = take(strip, tile, h, own);
        const std::int64_t rows = scales_.row_block == token_block ? place.region.rows : 1;
        for (std::int64_t i = 0; i < place.region.rows; i += rows) {
            if (scales_.k_block > 0) {
                Peak peak;
                for (std::int64_t r = i; r < i + rows; ++r) peak.include(own.row(r), place.region.columns);
                scales_.set(0, place.region.row + i, place.region.column, rule_.scale(peak, 1));
            }
            const double scale = scales_.get(place.group, place.region.row + i, place.region.column);
            for (std::int64_t r = i; r < i + rows; ++r) rule_.divide(own.row(r), place.region.columns, scale, 1);
        }
        if (columns_ && place.region.rows > 0) pad(place.region, own);
        store(own, place.region, values_, Overflow::saturate_finite);
    }

private:
    std::int64_t peak_rows() const { return scales_.row_block == 0 ? 1 : values_.rows; }

    /// Zeros up to the multiple of 128 at which the next group begins.
    void pad(Region& region, Tile& tile) const {
        const std::int64_t all = std::min(token_block, values_.columns - region.column);
        for (std::int64_t i = 0; i < region.rows; ++i) std::fill(tile.row(i) + region.columns, tile.row(i) + all, 0.0F);
        region.columns = all;
    }

    float factor(const TokenStrip& strip, std::int64_t feature) const {
        const Tensor& factors = given_.feature_factors;
        const bool grouped = factors.shape.rank() == 2;
        const std::int64_t stride = factors.strides[factors.shape.rank() - 1];
        const std::int64_t index = (grouped ? strip.group * factors.strides[0] : 0) + feature * stride;
        return static_cast<const float*>(factors.data)[index];
    }

    /// The tile with the side's factors, transposed if the side is; tokens without columns are left out.
    Place take(const TokenStrip& strip, const Region& tile, const Tile& h, Tile& own) const {
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t j = 0; j < tile.columns; ++j) {
                float number = h.row(i)[j];
                if (given_.token_factors.given()) {
                    number *= static_cast<const float*>(
                        given_.token_factors.data)[(tile.row + i) * given_.token_factors.strides[0]];
                }
                if (given_.feature_factors.given()) number *= factor(strip, tile.column + j);
                (columns_ ? own.row(j)[i] : own.row(i)[j]) = number;
            }
        }
        if (!columns_) return {.group = 0, .region = tile};
        const bool exists = strip.column < values_.columns;
        return {.group = strip.group,
                .region = {.row = tile.column,
                           .column = strip.column,
                           .rows = exists ? tile.columns : 0,
                           .columns = exists ? tile.rows : 0}};
    }

    const TokenOperand& given_;
    bool columns_;
    ScaleRule rule_;
    MatrixView values_;
    ScaleView scales_;
    std::int64_t groups_;
    std::vector<std::int32_t> peaks_{};  // bits of the largest finite magnitudes
};

struct TokenTiles {
    Tile h;
    Tile own;
    TokenReader::Scratch reading;
};

}  // namespace

void formats::quantize_tokens_on_cpu(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                                     bool round_up, const ConversionOptions& how) {
    const TokenReader reader(source);
    std::vector<Side> sides;
    if (rows.operand.values.given()) sides.emplace_back(rows, false, round_up);
    if (columns.operand.values.given()) sides.emplace_back(columns, true, round_up);

    const std::vector<TokenStrip> strips = token_strips(source.ends, reader.tokens());
    const std::int64_t tiles = ceil_div(reader.features(), token_block);
    Runner runner({.rows = reader.tokens(), .columns = reader.features()}, how);
    const auto for_each_tile = [&](auto use) {
        runner.for_each<TokenTiles>(std::ssize(strips) * tiles, [&](std::int64_t item, TokenTiles& scratch) {
            const TokenStrip& strip = strips[static_cast<std::size_t>(item / tiles)];
            const std::int64_t first = item % tiles * token_block;
            const Region region{.row = strip.token,
                                .column = first,
                                .rows = strip.tokens,
                                .columns = std::min(token_block, reader.features() - first)};
            reader.load(region, scratch.h, scratch.reading);
            use(strip, region, scratch.h, scratch.own);
        });
    };
    if (std::any_of(sides.begin(), sides.end(), [](const Side& side) { return side.needs_peaks(); })) {
        for_each_tile([&](const TokenStrip& strip, const Region& region, const Tile& h, Tile& own) {
            for (Side& side : sides) {
                if (side.needs_peaks()) side.include_peaks(strip, region, h, own);
            }
        });
        for (const Side& side : sides) {
            if (side.needs_peaks()) side.write_scales();
        }
    }
    for_each_tile([&](const TokenStrip& strip, const Region& region, const Tile& h, Tile& own) {
        for (const Side& side : sides) side.write(strip, region, h, own);
    });
}

}  // namespace tilewright
