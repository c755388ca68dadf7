// The tiles of dense and batched problems, whose sizes the host knows: every role of a block computes them by itself.
#pragma once

#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// Computed by the host.
struct SchedulerParams {
    int tiles = 0;           // of a cluster each
    int rows = 0;            // of D
    FastDivmod per_matrix;   // tiles
    FastDivmod per_raster;   // tiles
    FastDivmod raster;       // rows of tiles
    FastDivmod last_raster;  // rows of tiles
    int full_rasters = 0;
};

constexpr SchedulerParams scheduler_params(const Tile& tile, const Extent& extent) {
    const int m = tiles_along(extent.m, cluster_rows(tile)), n = tiles_along(extent.n, cluster_columns(tile));
    const int width = min(extent.raster_width, m);
    if (m * n * extent.batch == 0) return {};
    const int rest = m % width;
    return {.tiles = m * n * extent.batch,
            .rows = extent.m,
            .per_matrix = FastDivmod(m * n),
            .per_raster = FastDivmod(width * n),
            .raster = FastDivmod(width),
            .last_raster = FastDivmod(rest == 0 ? width : rest),
            .full_rasters = m / width};
}

/// The tiles of one block of a persistent grid: every `blocks`-th from `block` on. Blocks of a cluster take neighbours
/// that share an operand's tile.
template <Tile tile>
class Schedule {
public:
    constexpr Schedule(const SchedulerParams& params, int block, int blocks)
        : params_(params),
          rank_(block % tile.cluster.size),
          next_(block / tile.cluster.size),
          step_(blocks / tile.cluster.size) {}

    constexpr WorkTile next() {
        if (next_ >= params_.tiles) return {};
        const int batch = params_.per_matrix.quotient(next_);
        const int index = next_ - batch * params_.per_matrix.value;
        next_ += step_;
        const int raster = params_.per_raster.quotient(index);
        const int rest = index - raster * params_.per_raster.value;
        const FastDivmod& rows = raster < params_.full_rasters ? params_.raster : params_.last_raster;
        int n = rows.quotient(rest);
        int m = raster * params_.raster.value + rest - n * rows.value;
        if (tile.cluster.use == ClusterUse::share_b) m = m * tile.cluster.size + rank_;
        if (tile.cluster.use == ClusterUse::share_a) n = n * tile.cluster.size + rank_;
        return {.row = m * d_rows(tile),
                .column = n * d_columns(tile),
                .batch = batch,
                .group = batch,
                .row_end = params_.rows,
                .exists = 1};
    }

private:
    const SchedulerParams& params_;
    int rank_;
    int next_;
    int step_;
};

}  // namespace tilewright::hopper
