// The tile scheduler of dense problems, for any sizes, grid and cluster. Every tile is computed once, and blocks of a
// cluster get tiles with the operand that they share.
#include "hopper/schedule/dense.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "hopper/description/design.h"

namespace tilewright::hopper {
namespace {

template <Kernel tile>
std::vector<WorkTile> tiles_of(const Extent& extent, int block, int blocks) {
    constexpr Design design = Design(tile);
    const SchedulerParams ready = scheduler_params(design, extent);
    Schedule<design> schedule(ready, block, blocks);
    std::vector<WorkTile> list;
    for (WorkTile work = schedule.next(); work.exists != 0; work = schedule.next()) list.push_back(work);
    return list;
}

/// Tiles that begin inside D must be scheduled once; a pair may reach one tile beyond D, where nothing is stored.
template <Kernel tile>
void expect_every_tile_once(const Extent& extent, int blocks) {
    std::map<std::tuple<int, int, int>, int> counts;
    for (int block = 0; block < blocks; ++block) {
        for (const WorkTile& work : tiles_of<tile>(extent, block, blocks)) {
            EXPECT_EQ(work.row % tile.shape.m, 0);
            EXPECT_EQ(work.column % tile.shape.n, 0);
            EXPECT_LT(work.batch, extent.batch);
            EXPECT_EQ(work.row_end, extent.m);
            ++counts[{work.batch, work.row, work.column}];
        }
    }
    for (const auto& [place, times] : counts) EXPECT_EQ(times, 1);
    for (int batch = 0; batch < extent.batch; ++batch) {
        for (int row = 0; row < extent.m; row += tile.shape.m) {
            for (int column = 0; column < extent.n; column += tile.shape.n) {
                EXPECT_EQ((counts[{batch, row, column}]), 1) << extent.m << " x " << extent.n << ", " << blocks;
            }
        }
    }
}

template <Kernel tile>
void expect_for_many_sizes() {
    constexpr int size = tile.cluster.size();  // At run time clang 14 finds zeros in this template argument.
    for (int m : {1, 64, 65, 140, 300, 1025, 2112}) {
        for (int n : {1, 128, 129, 1000}) {
            for (int batch : {1, 3}) {
                for (int raster_width : {1, 2, 8}) {
                    for (int clusters : {1, 2, 7, 66}) {
                        expect_every_tile_once<tile>({.m = m, .n = n, .batch = batch, .raster_width = raster_width},
                                                     clusters * size);
                    }
                }
            }
        }
    }
}

constexpr Kernel pair_of(const Cluster& cluster) { return {.shape = {.m = 64, .n = 32}, .cluster = cluster}; }

TEST(Schedule, SchedulesEveryTileOnce) {
    expect_for_many_sizes<Kernel{.shape = {.m = 64, .n = 32}}>();
    expect_for_many_sizes<pair_of({.columns = 2})>();
    expect_for_many_sizes<pair_of({.rows = 2})>();
    expect_for_many_sizes<Kernel{.shape = {.m = 192, .n = 32, .warpgroups = 3}}>();
}

TEST(Schedule, HasNothingForEmptyOutputs) {
    for (const auto& [m, n] : {std::pair{0, 64}, std::pair{64, 0}}) {
        EXPECT_TRUE(tiles_of<Kernel{}>({.m = m, .n = n, .batch = 1, .raster_width = 8}, 0, 1).empty());
    }
}

TEST(Schedule, PairsShareWhatTheySay) {
    const Extent extent{.m = 300, .n = 200, .batch = 2, .raster_width = 2};
    const auto first = tiles_of<pair_of({.columns = 2})>(extent, 2, 6),
               second = tiles_of<pair_of({.columns = 2})>(extent, 3, 6);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(first[i].row, second[i].row);
        EXPECT_EQ(first[i].column + 32, second[i].column);
    }
    const auto upper = tiles_of<pair_of({.rows = 2})>(extent, 2, 6),
               lower = tiles_of<pair_of({.rows = 2})>(extent, 3, 6);
    ASSERT_EQ(upper.size(), lower.size());
    for (std::size_t i = 0; i < upper.size(); ++i) {
        EXPECT_EQ(upper[i].column, lower[i].column);
        EXPECT_EQ(upper[i].row + 64, lower[i].row);
    }
}

TEST(Schedule, TakesARasterBeforeTheNext) {
    const auto list = tiles_of<Kernel{}>({.m = 128 * 3, .n = 128 * 2, .batch = 1, .raster_width = 2}, 0, 1);
    std::vector<std::pair<int, int>> order;
    for (const WorkTile& work : list) order.emplace_back(work.row / 128, work.column / 128);
    EXPECT_EQ(order, (std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {2, 1}}));
}

/// Rows of tiles in the order in which one block takes them.
template <Kernel tile>
std::vector<int> row_order(const Extent& extent) {
    constexpr int size = tile.cluster.size();
    std::vector<int> order;
    for (const WorkTile& work : tiles_of<tile>(extent, 0, size)) order.push_back(work.row / Design(tile).d_rows);
    return order;
}

TEST(Schedule, TakesALastRowInWhichAWarpgroupHasNothingLast) {
    const Extent cheap{.m = 128 * 3 + 64, .n = 128 * 2, .batch = 1, .raster_width = 2};
    EXPECT_EQ(row_order<Kernel{}>(cheap), (std::vector{0, 1, 0, 1, 2, 2, 3, 3}));
    const Extent expensive{.m = 128 * 3 + 65, .n = 128 * 2, .batch = 1, .raster_width = 2};
    EXPECT_EQ(row_order<Kernel{}>(expensive), (std::vector{0, 1, 0, 1, 2, 3, 2, 3}))
        << "it would read B again for nothing";
    constexpr Kernel tall{.shape = {.m = 256}};
    EXPECT_EQ(row_order<tall>({.m = 256 + 128, .n = 128 * 2, .batch = 1, .raster_width = 2}),
              (std::vector{0, 0, 1, 1}));
    EXPECT_EQ(row_order<tall>({.m = 256 + 129, .n = 128 * 2, .batch = 1, .raster_width = 2}),
              (std::vector{0, 1, 0, 1}));
    constexpr Kernel one{.shape = {.m = 64, .warpgroups = 1}};
    EXPECT_EQ(row_order<one>({.m = 64 + 1, .n = 128 * 2, .batch = 1, .raster_width = 2}), (std::vector{0, 1, 0, 1}));
    constexpr Kernel split{.cluster = {.k_slices = 2}};
    EXPECT_EQ(row_order<split>({.m = 128 + 1, .n = 128 * 2, .batch = 1, .raster_width = 2}), (std::vector{0, 1, 0, 1}));
}

TEST(Schedule, ThatOfEveryMatrixComesAfterAllOthers) {
    std::vector<std::pair<int, int>> order;
    for (const WorkTile& work : tiles_of<Kernel{}>({.m = 129, .n = 256, .batch = 2, .raster_width = 2}, 0, 1)) {
        order.emplace_back(work.batch, work.row);
    }
    EXPECT_EQ(order, (std::vector<std::pair<int, int>>{
                         {0, 0}, {0, 0}, {1, 0}, {1, 0}, {0, 128}, {0, 128}, {1, 128}, {1, 128}}));
}

TEST(Schedule, BlocksThatShareBTakeThatOfTheirFirstLast) {
    constexpr Kernel pair{.cluster = {.rows = 2}};
    const Extent cheap{.m = 256 + 64, .n = 128 * 2, .batch = 1, .raster_width = 2};
    EXPECT_EQ(row_order<pair>(cheap), (std::vector{0, 0, 2, 2}));
    const Extent expensive{.m = 256 + 128, .n = 128 * 2, .batch = 1, .raster_width = 2};
    EXPECT_EQ(row_order<pair>(expensive), (std::vector{0, 2, 0, 2})) << "the first block has a full tile";
}

/// 777 rows: six full tiles and one of 9 rows, for each of 56 columns of tiles.
TEST(Schedule, CheapTilesGoToBlocksWithAFullOneLess) {
    constexpr int blocks = 132;
    for (int block = 0; block < blocks; ++block) {
        int full = 0, cheap = 0;
        for (const WorkTile& work :
             tiles_of<Kernel{}>({.m = 777, .n = 7168, .batch = 1, .raster_width = 8}, block, blocks)) {
            ++(work.row == 768 ? cheap : full);
        }
        EXPECT_TRUE((full == 3 && cheap == 0) || (full == 2 && cheap <= 1)) << full << " full tiles and " << cheap;
    }
}

}  // namespace
}  // namespace tilewright::hopper
