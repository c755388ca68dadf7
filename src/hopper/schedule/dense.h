// The tiles of dense and batched problems. The host knows their sizes, and every role of a block computes the tiles
// itself.
#pragma once

#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// Parameters that the host computes.
struct SchedulerParams {
    int tiles = 0;  // one tile per cluster
    int tiles_in_rasters = 0;
    int rows = 0;            // of D
    FastDivmod per_matrix;   // tiles in rasters
    FastDivmod per_raster;   // tiles
    FastDivmod raster;       // rows of tiles
    FastDivmod last_raster;  // rows of tiles
    int full_rasters = 0;
    int last_row = 0;    // of tiles
    FastDivmod columns;  // of tiles
};

/// The last row of tiles is taken after all others if D ends so early in it that a warpgroup has no row. Its tiles are
/// then cheap, and should go to the blocks that have one full tile less. Other last rows cost as much as full rows.
/// Taken last, they would only read B again. (Blocks that share B wait for the first of them, which has the most rows.)
constexpr SchedulerParams scheduler_params(const Design& design, const Extent& extent) {
    const int rows = tiles_along(extent.m, design.d_rows * design.cluster.rows),
              n = tiles_along(extent.n, design.d_columns * design.cluster.columns);
    const int rest_of_d = extent.m % (design.d_rows * design.cluster.rows);
    const bool is_cheap = rest_of_d != 0 && rest_of_d <= design.shape.m - design.rows_per_warpgroup;
    const int m = design.skips_rows && is_cheap && rows > 1 ? rows - 1 : rows;
    const int width = min(extent.raster_width, m);
    if (m * n * extent.batch == 0) return {};
    const int rest = m % width;
    return {.tiles = rows * n * extent.batch,
            .tiles_in_rasters = m * n * extent.batch,
            .rows = extent.m,
            .per_matrix = FastDivmod(m * n),
            .per_raster = FastDivmod(width * n),
            .raster = FastDivmod(width),
            .last_raster = FastDivmod(rest == 0 ? width : rest),
            .full_rasters = m / width,
            .last_row = m,
            .columns = FastDivmod(n)};
}

/// The tiles of one block of a persistent grid: every `blocks`-th tile from `block` on. Blocks of a cluster take
/// neighbours that share an operand's tile.
template <Design design>
class Schedule {
public:
    constexpr Schedule(const SchedulerParams& params, int block, int blocks)
        : params_(params),
          rank_(block % design.cluster.size()),
          next_(block / design.cluster.size()),
          step_(blocks / design.cluster.size()) {}

    constexpr WorkTile next() {
        if (next_ >= params_.tiles) return {};
        const int index = next_;
        next_ += step_;
        if (!design.skips_rows || index < params_.tiles_in_rasters) return in_raster(index);
        return in_last_row(index - params_.tiles_in_rasters);
    }

private:
    constexpr WorkTile in_raster(int tile_index) const {
        const int batch = params_.per_matrix.quotient(tile_index);
        const int index = tile_index - batch * params_.per_matrix.value;
        const int raster = params_.per_raster.quotient(index);
        const int rest = index - raster * params_.per_raster.value;
        const FastDivmod& rows = raster < params_.full_rasters ? params_.raster : params_.last_raster;
        const int n = rows.quotient(rest);
        return work_tile(raster * params_.raster.value + rest - n * rows.value, n, batch);
    }

    constexpr WorkTile in_last_row(int index) const {
        const int batch = params_.columns.quotient(index);
        return work_tile(params_.last_row, index - batch * params_.columns.value, batch);
    }

    constexpr WorkTile work_tile(int m, int n, int batch) const {
        if (design.cluster.rows > 1) m = m * design.cluster.rows + rank_;
        if (design.cluster.columns > 1) n = n * design.cluster.columns + rank_;
        return {.row = m * design.d_rows,
                .column = n * design.d_columns,
                .batch = batch,
                .group = batch,
                .row_end = params_.rows,
                .exists = 1};
    }

    const SchedulerParams& params_;
    int rank_;
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
