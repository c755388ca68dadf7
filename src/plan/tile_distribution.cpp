#include "plan/tile_distribution.h"

#include <algorithm>
#include <cmath>

#include "hopper/schedule/dense.h"
#include "plan/model.h"

namespace tilewright::planner {
namespace {

double tiles_of(std::int64_t size, int step) { return std::ceil(static_cast<double>(size) / step); }

/// The share of a distribution around a mean that is beyond a limit. (A logistic curve in place of the normal one.)
double share_beyond(double limit, double mean, double deviation) {
    constexpr double logistic = 1.702;
    return 1 / (1 + std::exp(std::clamp(logistic * (limit - mean) / deviation, -700.0, 700.0)));
}

/// The share of groups that have more rows than `rows`. Routing makes sizes differ by about a third of their mean.
/// Sizes of masked groups, whose mean is itself a guess, are anything from a tenth of it to nineteen tenths. With these
/// assumptions the choices for measured shapes of each kind are best (docs/experiments/015-group-size-distribution.md).
double share_of_larger_groups(const Workload& work, double rows, double mean) {
    constexpr double deviation = 0.3, masked_deviation = 0.9;
    if (work.grouping != Grouping::m_grouped_masked) return share_beyond(rows, mean, deviation * mean);
    return std::clamp((mean * (1 + masked_deviation) - rows) / (2 * masked_deviation * mean), 0.0, 1.0);
}

/// Tiles along the rows of a group, over all groups of the same mean.
struct RowTiles {
    double mean = 0;
    double variance = 0;
    double most = HUGE_VAL;
};

/// One tile, and one more for each multiple of a tile's rows that a group exceeds; or the tiles of its padding, if
/// these are more. Some groups of a few rows are empty, as if tokens chose them at random. Masked groups have at most
/// the rows of their tensor. The size of a single contiguous group is known.
RowTiles tiles_of_group(const Workload& work, int step) {
    if (work.rows == 0) return {};
    const bool masked = work.grouping == Grouping::m_grouped_masked;
    const double mean = static_cast<double>(work.rows), in_tiles = mean / step;
    if (!masked && work.geometry.groups == 1) return {std::ceil(in_tiles), 0, HUGE_VAL};
    const double room = masked ? tiles_of(work.geometry.m, step) : HUGE_VAL;
    // Sizes that differ by many tiles end anywhere in the last one: the sums below without their many steps.
    if (in_tiles > 16) return {std::min(in_tiles + 0.5, room), in_tiles * in_tiles / 8, room};
    const double not_empty = 1 - std::exp(-mean);
    RowTiles tiles{not_empty, not_empty, room};
    for (double count = 1; count < std::min(room, 3 * in_tiles); ++count) {
        const double share = share_of_larger_groups(work, count * step, mean);
        tiles.mean += share;
        tiles.variance += (2 * count + 1) * share;
    }
    tiles.variance = std::max(0.0, tiles.variance - tiles.mean * tiles.mean);
    if (!masked) tiles.mean = std::max(tiles.mean, (mean + work.padding) / step);
    return tiles;
}

/// Rounds of units of groups whose sizes are not known: the mean over all calls of the same mean. Four equal groups may
/// fill one round; with one tile more in one of them they take two.
double rounds_of_groups(const Workload& work, const RowTiles& of_group, const TileDistribution& over, int k_slices) {
    const double groups = static_cast<double>(work.products);
    const double rows = groups * of_group.mean;  // of tiles
    const double deviation = std::max(1e-3, std::sqrt(groups * of_group.variance));
    const double units_of_row = over.column_tiles * k_slices;
    const double rows_of_round = over.resident_blocks / units_of_row;
    // The last one of many rounds is half full.
    if (deviation >= rows_of_round) return std::max(1.0, rows / rows_of_round + 0.5);
    double rounds = std::max(1.0, std::floor((rows - 4 * deviation) / rows_of_round));  // nearly certain
    const double end = std::min(rows + 4 * deviation, groups * of_group.most);
    for (double next = rounds; next * rows_of_round < end; ++next) {
        rounds += share_beyond(std::floor(next * rows_of_round) + 0.5, rows, deviation);
    }
    return rounds;
}

/// Corrects a count that has the cheap units in full. The full ones go to all blocks in turn, then the cheap ones, from
/// the first block that has one full unit less.
void count_cheap_units(const hopper::Design& tile, const Workload& work, TileDistribution& over) {
    const int blocks = over.resident_blocks / tile.cluster.size();  // clusters of them
    const int rows = tile.d_rows * tile.cluster.rows;
    const double warpgroups = tiles_of(work.rows % rows, tile.rows_per_warpgroup);
    const double share = warpgroups / tile.shape.warpgroups;
    const double cost = relative_time(tile, static_cast<int>(warpgroups));
    const double cheap =
        static_cast<double>(work.products) * tiles_of(work.columns, tile.d_columns * tile.cluster.columns);
    const std::int64_t full_rows = work.rows / rows;
    const double full = cheap * static_cast<double>(full_rows);
    const double rounds = std::floor(full / blocks), rest_of_full = full - rounds * blocks;
    const double of_others = rounds + cost * std::ceil(cheap / blocks);
    const double again = std::max(0.0, std::ceil((cheap - (blocks - rest_of_full)) / blocks));
    over.rounds = rest_of_full == 0 ? of_others : std::max(of_others, rounds + 1 + cost * again);
    over.full_units = (full + share * cheap) * tile.cluster.size();
}

}  // namespace

double relative_time(const hopper::Design& tile, int warpgroups) {
    const auto clocks = [&](int count) {
        const Loop part = loop(tile, fitted_model, count);
        return part.tensor_clocks + part.stall_clocks;
    };
    const double share = static_cast<double>(warpgroups) / tile.shape.warpgroups;
    return std::clamp(clocks(warpgroups) / clocks(tile.shape.warpgroups), share, 1.0);
}

int usable_sms(const Workload& work, const DeviceDescription& device) {
    return work.sm_limit > 0 ? std::min(work.sm_limit, device.sms) : device.sms;
}

int resident_blocks(const hopper::Design& tile, int sms) {
    // One H200: with one block per SM, clusters of 2 fill all 132 SMs. 30 clusters of 4 or 15 of 8 run at once and fill
    // 120. With two blocks per SM, 62 and 30 clusters run at once.
    const int blocks = sms * tile.blocks_per_sm, size = tile.cluster.size();
    const int most = (size > 2 ? blocks * 10 / 11 : blocks) / size * size;
    return blocks < size ? 0 : std::max(most, size);  // the eleventh is of a whole GPU: one cluster always runs
}

TileDistribution tile_distribution(const hopper::Design& tile, const Workload& work, const DeviceDescription& device) {
    const int rows = tile.d_rows * tile.cluster.rows;
    const int columns = tile.d_columns * tile.cluster.columns;
    const int sms = usable_sms(work, device);
    TileDistribution result;
    const bool grouped = tile.groups == hopper::Groups::rows;
    const RowTiles of_group = grouped ? tiles_of_group(work, rows) : RowTiles{};
    result.row_tiles = grouped ? of_group.mean : tiles_of(work.rows, rows) * tile.cluster.rows;
    result.column_tiles = tiles_of(work.columns, columns) * tile.cluster.columns;
    result.tiles = static_cast<double>(work.products) * result.row_tiles * result.column_tiles;
    result.units = result.tiles * tile.cluster.k_slices;
    result.k_blocks = std::ceil(tiles_of(work.k, tile.stage_k) / tile.cluster.k_slices);
    result.resident_blocks =
        planner::resident_blocks(tile, tile.cluster.size() == 2 ? std::min(sms, device.cluster_2_sms) : sms);
    result.sharing = sms == 0 ? 1 : std::max(1.0, std::min<double>(result.units, result.resident_blocks) / sms);
    result.full_units = result.units;
    result.rounds = result.resident_blocks == 0 ? 0 : std::ceil(result.units / result.resident_blocks);
    if (result.rounds == 0) return result;
    if (grouped) {
        result.rounds = rounds_of_groups(work, of_group, result, tile.cluster.k_slices);
        return result;
    }
    // One column of tiles, because the planner also prices products with more tiles than a kernel can count.
    const hopper::SchedulerParams column =
        hopper::scheduler_params(tile, {.m = static_cast<int>(work.rows), .n = 1, .batch = 1, .raster_width = 1});
    if (column.tiles_in_rasters < column.tiles) count_cheap_units(tile, work, result);
    return result;
}

}  // namespace tilewright::planner
