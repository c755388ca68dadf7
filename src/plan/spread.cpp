#include "plan/spread.h"

#include <algorithm>
#include <cmath>

namespace tilewright::planner {
namespace {

double tiles_of(std::int64_t size, int step, int multiple) {
    return std::ceil(static_cast<double>(size) / (static_cast<double>(step) * multiple)) * multiple;
}

/// Groups differ in size: beside its whole tiles each has a last one that is half full in the mean.
double tiles_of_groups(std::int64_t rows, int step) {
    return rows == 0 ? 0 : std::max(1.0, static_cast<double>(rows) / step + 0.5);
}

}  // namespace

int usable_sms(const Work& work, const DeviceDescription& device) {
    return work.sm_limit > 0 ? std::min(work.sm_limit, device.sms) : device.sms;
}

Spread spread(const hopper::Tile& tile, const Work& work, const DeviceDescription& device) {
    const int pair_rows = tile.multicast == hopper::Multicast::b ? tile.cluster : 1;
    const int pair_columns = tile.multicast == hopper::Multicast::a ? tile.cluster : 1;
    const int sms = usable_sms(work, device);
    Spread result;
    result.row_tiles =
        tile.grouped() ? tiles_of_groups(work.rows, tile.rows()) : tiles_of(work.rows, tile.rows(), pair_rows);
    result.column_tiles = tiles_of(work.columns, tile.columns(), pair_columns);
    result.tiles = static_cast<double>(work.products) * result.row_tiles * result.column_tiles;
    result.units = result.tiles * tile.split_k;
    result.k_blocks = std::ceil(tiles_of(work.k, tile.k, 1) / tile.split_k);
    result.slots = tile.cluster == 1 ? sms : std::min(sms, device.cluster_2_sms) / tile.cluster * tile.cluster;
    result.rounds = result.slots == 0 ? 0 : std::ceil(result.units / result.slots);
    return result;
}

}  // namespace tilewright::planner
