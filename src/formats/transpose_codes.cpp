// The transpose of codes with power-of-two scales, on the CPU: codes are shifted to one scale for 128x128.
#include <tilewright/quantize_tokens.h>

#include <algorithm>

#include "base/math.h"
#include "formats/quantize_cpu.h"
#include "formats/runner.h"
#include "formats/scale_view.h"
#include "formats/token_source.h"

namespace tilewright {
namespace {

using namespace formats;

/// Codes as numbers, and their transpose.
struct TileAndTurned {
    Tile tile;
    Tile turned;
};

struct Transposition {
    MatrixView codes;
    ScaleView token_scales;
    MatrixView out;
    ScaleView scales;

    /// The largest scale of a token with a code other than zero; 1 if none has.
    double block_scale(const Region& region, const Tile& tile) const {
        double largest = 0;
        for (std::int64_t i = 0; i < region.rows; ++i) {
            const float* row = tile.row(i);
            const bool has_number = std::any_of(row, row + region.columns, [](float number) { return number != 0; });
            if (has_number) largest = std::max(largest, token_scales.get(0, region.row + i, region.column));
        }
        return largest == 0 ? 1 : largest;
    }

    void transpose(const TokenStrip& strip, const Region& region, TileAndTurned& scratch) const {
        if (strip.column >= out.columns) return;
        auto& [tile, turned] = scratch;
        load(codes, region, tile);
        const double scale = block_scale(region, tile);
        Region to{.row = region.column,
                  .column = strip.column,
                  .rows = region.columns,
                  .columns = std::min(token_block, out.columns - strip.column)};
        for (std::int64_t j = 0; j < to.rows; ++j) {
            for (std::int64_t i = 0; i < to.columns; ++i) {
                const bool exists = i < region.rows;
                const double own = exists ? token_scales.get(0, region.row + i, region.column) : 1;
                turned.row(j)[i] = exists ? tile.row(i)[j] * static_cast<float>(own / scale) : 0;
            }
            if (scales.data != nullptr) scales.set(0, to.row + j, to.column, scale);
        }
        store(turned, to, out, Overflow::saturate_finite);
        keep_unshifted(region, to, scale);
    }

    /// Codes of tokens that have the block's scale do not change, NaN of either sign included.
    void keep_unshifted(const Region& region, const Region& to, double scale) const {
        const std::int64_t tokens = std::min(region.rows, to.columns);
        for (std::int64_t i = 0; i < tokens; ++i) {
            if (token_scales.get(0, region.row + i, region.column) != scale) continue;
            for (std::int64_t j = 0; j < to.rows; ++j) {
                *out.at(0, to.row + j, to.column + i) = *codes.at(0, region.row + i, region.column + j);
            }
        }
    }
};

}  // namespace

void formats::transpose_codes_on_cpu(const Operand& rows, const Tensor& ends, const Operand& columns,
                                     const ConversionOptions& how) {
    const Transposition transposition{.codes = matrix_view(rows.values),
                                      .token_scales = ScaleView(rows.scales, rows.granularity),
                                      .out = matrix_view(columns.values),
                                      .scales = ScaleView(columns.scales, columns.granularity)};
    const std::int64_t features = transposition.codes.columns;
    const std::vector<TokenStrip> strips = token_strips(ends, transposition.codes.rows);
    const std::int64_t tiles = ceil_div(features, token_block);
    const auto transpose_tile = [&](std::int64_t item, TileAndTurned& scratch) {
        const TokenStrip& strip = strips[static_cast<std::size_t>(item / tiles)];
        const std::int64_t first = item % tiles * token_block;
        const Region region{.row = strip.token,
                            .column = first,
                            .rows = strip.tokens,
                            .columns = std::min(token_block, features - first)};
        transposition.transpose(strip, region, scratch);
    };
    Runner(transposition.codes, how).for_each<TileAndTurned>(std::ssize(strips) * tiles, transpose_tile);
}

}  // namespace tilewright
