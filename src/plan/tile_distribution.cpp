#include "plan/tile_distribution.h"

#include <algorithm>
#include <cmath>

#include "hopper/schedule/dense.h"
#include "hopper/tile/budget.h"

namespace tilewright::planner {
namespace {

double tiles_of(std::int64_t size, int step) { return std::ceil(static_cast<double>(size) / step); }

/// How much of what is distributed around a mean is beyond a limit. (A logistic curve in place of the normal one.)
double share_beyond(double limit, double mean, double deviation) {
    constexpr double logistic = 1.702;
    return 1 / (1 + std::exp(std::min(logistic * (limit - mean) / deviation, 700.0)));
}

/// One tile, and one more for each multiple of a tile's rows that a group exceeds. Routing makes the sizes of groups
/// differ by about a quarter of their mean.
double tiles_of_routed_group(double mean, int step) {
    constexpr double deviation = 0.25;
    // Sizes that differ by many tiles end anywhere in the last one: the sum below without its many steps.
    if (mean > 16.0 * step) return mean / step + 0.5;
    double expected = std::max(1.0, std::floor(mean / 4 / step));  // nearly all groups have so many
    for (double tiles = expected; tiles * step < 3 * mean; ++tiles) {
        expected += share_beyond(tiles * step, mean, deviation * mean);
    }
    return expected;
}

/// The mean number of tiles of a group; or the tiles of its padding, if these are more. Of masked groups only a
/// caller's guess is known: besides whole tiles each has a last one that is half full. They have no more rows than
/// their tensor.
double tiles_of_groups(const Workload& work, int step) {
    if (work.rows == 0) return 0;
    const double mean = static_cast<double>(work.rows);
    if (work.grouping == Grouping::m_grouped_masked) {
        return std::min(std::max(1.0, mean / step + 0.5), tiles_of(work.geometry.m, step));
    }
    return std::max(tiles_of_routed_group(mean, step), (mean + work.padding) / step);
}

/// Rounds of units of groups whose sizes are not known: the mean over all numbers of units that calls of the same mean
/// have. A group has a tile more or less (0.7 of one is what measured shapes are chosen best with, 0.6 to 0.8 alike),
/// so few units in groups of like sizes fill whole rounds, and of many the last round is half full. Of masked groups a
/// caller's guess is known, so that theirs always is.
double rounds_of_groups(const Workload& work, const TileDistribution& over) {
    const double blocks = over.resident_blocks, units = over.units;
    const double deviation = 0.7 * over.column_tiles * std::sqrt(static_cast<double>(work.products));
    if (work.grouping == Grouping::m_grouped_masked || deviation >= blocks) {
        return units <= blocks ? 1 : units / blocks + 0.5;
    }
    double rounds = std::max(1.0, std::floor((units - 4 * deviation) / blocks));  // nearly certain
    for (double next = rounds; next * blocks < units + 4 * deviation; ++next) {
        rounds += share_beyond(next * blocks, units, deviation);
    }
    return rounds;
}

/// Corrects what counts the cheap units in full. The full ones go to all blocks in turn, then the cheap ones from the
/// first block that has one full unit less.
void count_cheap_units(const hopper::Tile& tile, const Workload& work, TileDistribution& over) {
    const int blocks = over.resident_blocks / tile.cluster.size;  // clusters of them
    const std::int64_t rest = work.rows % hopper::cluster_rows(tile);
    const double cost = tiles_of(rest, rows_per_warpgroup(tile)) / tile.shape.warpgroups;
    const double cheap = static_cast<double>(work.products) * tiles_of(work.columns, hopper::cluster_columns(tile));
    const std::int64_t full_rows = work.rows / hopper::cluster_rows(tile);
    const double full = cheap * static_cast<double>(full_rows);
    const double rounds = std::floor(full / blocks), rest_of_full = full - rounds * blocks;
    const double of_others = rounds + cost * std::ceil(cheap / blocks);
    const double again = std::max(0.0, std::ceil((cheap - (blocks - rest_of_full)) / blocks));
    over.rounds = rest_of_full == 0 ? of_others : std::max(of_others, rounds + 1 + cost * again);
    over.full_units = (full + cost * cheap) * tile.cluster.size;
}

}  // namespace

int usable_sms(const Workload& work, const DeviceDescription& device) {
    return work.sm_limit > 0 ? std::min(work.sm_limit, device.sms) : device.sms;
}

int resident_blocks(const hopper::Tile& tile, int sms) {
    // One H200: clusters of 2 fill all 132 SMs; 30 clusters of 4 or 15 of 8 run at once with a block on each SM, so on
    // 120 of them, and 62 and 30 with two.
    const int blocks = sms * blocks_per_sm(tile);
    return (tile.cluster.size > 2 ? blocks * 10 / 11 : blocks) / tile.cluster.size * tile.cluster.size;
}

TileDistribution tile_distribution(const hopper::Tile& tile, const Workload& work, const DeviceDescription& device) {
    const int rows = hopper::cluster_rows(tile);
    const int columns = hopper::cluster_columns(tile);
    const int blocks_along_rows = rows / d_rows(tile);
    const int blocks_along_columns = columns / d_columns(tile);
    const int sms = usable_sms(work, device);
    TileDistribution result;
    result.row_tiles = is_grouped(tile) ? tiles_of_groups(work, rows) : tiles_of(work.rows, rows) * blocks_along_rows;
    result.column_tiles = tiles_of(work.columns, columns) * blocks_along_columns;
    result.tiles = static_cast<double>(work.products) * result.row_tiles * result.column_tiles;
    result.units = result.tiles * k_slices(tile);
    result.k_blocks = std::ceil(tiles_of(work.k, tile.shape.k) / k_slices(tile));
    result.resident_blocks =
        planner::resident_blocks(tile, tile.cluster.size == 2 ? std::min(sms, device.cluster_2_sms) : sms);
    result.sharing = sms == 0 ? 1 : std::max(1.0, std::min<double>(result.units, result.resident_blocks) / sms);
    result.full_units = result.units;
    result.rounds = result.resident_blocks == 0 ? 0 : std::ceil(result.units / result.resident_blocks);
    if (is_grouped(tile) && result.rounds > 0) result.rounds = rounds_of_groups(work, result);
    if (!is_grouped(tile) && result.rounds > 0 && takes_last_row_last(tile, static_cast<int>(work.rows))) {
        count_cheap_units(tile, work, result);
    }
    return result;
}

}  // namespace tilewright::planner
