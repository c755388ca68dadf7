// The scheduler of grouped kernels, for thousands of mixes of sizes, sensible or not. The blocks of a grid take every
// tile of every group once and no other, with the groups as src/problem defines them.
#include "hopper/schedule/grouped.h"

#include "hopper/description/design.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "emulator/emulator.h"
#include "emulator/primitives.h"
#include "launch/launch.h"
#include "sample.h"

namespace tilewright::tests {
namespace {

using hopper::Design;
using hopper::Groups;
using hopper::Kernel;
using hopper::WorkTile;

constexpr std::array groupings{Grouping::m_grouped_offsets, Grouping::m_grouped_masked,
                               Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_indices};

struct Mix {
    Geometry geometry{};
    std::vector<std::int64_t> entries{};
    std::vector<std::int32_t> narrow_entries{};
    int blocks = 1;
    int raster_width = 1;
};

/// Batch, group, row, column, end of the rows that are stored.
using Taken = std::multiset<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>>;

/// The part of a kernel's arguments that the schedule reads.
hopper::Arguments arguments_of(const Mix& mix, hopper::KernelReport& report) {
    const Geometry& g = mix.geometry;
    hopper::Arguments arguments{};
    arguments.m = static_cast<int>(g.m);
    arguments.n = static_cast<int>(g.n);
    arguments.batch = static_cast<int>(g.groups);
    arguments.raster_width = mix.raster_width;
    arguments.sizes = launch::group_sizes(g);
    arguments.report = &report;
    return arguments;
}

/// Calls take(work) for each tile that a block takes.
template <Design tile, class Take>
void run_schedule(const Mix& mix, Take take) {
    hopper::KernelReport report{};
    const hopper::Arguments arguments = arguments_of(mix, report);
    emulator::launch({.blocks = mix.blocks, .cluster = tile.cluster.size(), .threads = hopper::warp_threads}, [&] {
        hopper::GroupedSchedule<tile> schedule(arguments, hopper::block_index(), hopper::block_count());
        for (WorkTile work = schedule.next(); work.exists != 0; work = schedule.next()) {
            if (hopper::lane_index() == 0) take(work);
        }
    });
    EXPECT_EQ(report.mixed.word, 0U);
}

template <Design tile>
Taken tiles_of(const Mix& mix) {
    Taken taken;
    run_schedule<tile>(
        mix, [&](const WorkTile& work) { taken.emplace(work.batch, work.group, work.row, work.column, work.row_end); });
    return taken;
}

template <Design tile>
Taken expected(const Mix& mix) {
    const Geometry& g = mix.geometry;
    constexpr int wide = tile.shape.n * tile.cluster.size();
    const std::int64_t columns = (g.n + wide - 1) / wide * wide;
    Taken taken;
    for (const GroupGemm& gemm : group_gemms(g)) {
        const std::int64_t end = gemm.row_begin + gemm.rows;
        for (std::int64_t row = gemm.row_begin; row < end; row += tile.shape.m) {
            const std::int64_t batch = g.grouping.grouping == Grouping::m_grouped_masked ? gemm.group : 0;
            for (std::int64_t column = 0; column < columns; column += tile.shape.n) {
                taken.emplace(batch, gemm.group, row, column, end);
            }
        }
    }
    return taken;
}

/// Long runs are cut where a raster ends, which changes no tile: only where rows that are stored end is said otherwise.
template <Design tile>
Taken without_raster_ends(const Taken& taken, const Mix& mix) {
    Taken joined;
    for (auto [batch, group, row, column, end] : taken) {
        for (const GroupGemm& gemm : group_gemms(mix.geometry)) {
            const bool within = gemm.group == group && gemm.row_begin <= row && row < gemm.row_begin + gemm.rows;
            if (within && (end - gemm.row_begin) % (std::int64_t{mix.raster_width} * tile.shape.m) == 0) {
                end = gemm.row_begin + gemm.rows;
            }
        }
        joined.emplace(batch, group, row, column, end);
    }
    return joined;
}

std::int64_t any_size(std::mt19937_64& random, std::int64_t rows) {
    constexpr std::array odd{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(),
                             std::int64_t{-1}, std::int64_t{1} << 32};
    if (random() % 16 == 0) return odd[random() % odd.size()];
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows + 2));
}

/// As 32 bits each, side by side or not, and often at no multiple of 16 bytes.
void narrow_entries(Mix& mix, std::mt19937_64& random) {
    const std::size_t count = mix.entries.size(), stride = 1 + random() % 4 / 3, first = random() % 2 * (random() % 4);
    mix.narrow_entries.resize(first + count * stride + 4);
    for (std::size_t i = 0; i < count; ++i) {
        mix.narrow_entries[first + i * stride] = static_cast<std::int32_t>(mix.entries[i]);
    }
    Tensor& sizes = mix.geometry.grouping.sizes;
    sizes = row_major(mix.narrow_entries.data() + first, Format::i32, {static_cast<std::int64_t>(count)});
    sizes.strides[0] = static_cast<std::int64_t>(stride);
}

/// All rows of a block have the first one's group.
void make_blocks(Mix& mix, std::mt19937_64& random) {
    const std::int64_t rows = std::array{1, 1, 4, 7, 128, 3000}[random() % 6];
    mix.geometry.grouping.index_alignment = rows;
    for (std::size_t i = 0; i < mix.entries.size(); ++i) {
        mix.entries[i] = mix.entries[i - i % static_cast<std::size_t>(rows)];
    }
}

void fill_entries(Mix& mix, std::mt19937_64& random) {
    Geometry& g = mix.geometry;
    const bool by_row = g.grouping.grouping == Grouping::m_grouped_indices;
    const std::int64_t count = by_row ? g.m : g.groups;
    const std::uint64_t longest = std::array{1, 5, 70, 2000}[random() % 4];
    while (static_cast<std::int64_t>(mix.entries.size()) < count) {
        const std::int64_t size = any_size(random, by_row ? g.groups : g.m / (1 + random() % 8));
        for (std::uint64_t i = by_row ? 1 + random() % longest : 1; i > 0; --i) mix.entries.push_back(size);
    }
    mix.entries.resize(static_cast<std::size_t>(count));
    if (!by_row && random() % 4 != 0) std::ranges::sort(mix.entries);
    if (by_row) make_blocks(mix, random);
    g.grouping.sizes = row_major(mix.entries.data(), Format::i64, {count});
    if (random() % 2 == 0) narrow_entries(mix, random);
}

/// `ends`: also where rasters end.
template <Design tile>
void expect_tiles(const Mix& mix, int number, bool ends = false) {
    const Geometry& g = mix.geometry;
    const Taken taken = tiles_of<tile>(mix), wanted = expected<tile>(mix);
    const bool same =
        ends ? taken == wanted : without_raster_ends<tile>(taken, mix) == without_raster_ends<tile>(wanted, mix);
    ASSERT_TRUE(same) << name(g.grouping.grouping) << ", " << g.groups << " groups, m " << g.m << ", n " << g.n << ", "
                      << mix.blocks << " blocks, mix " << number;
}

constexpr Design tile_of(int m, int n, int warpgroups, const hopper::Cluster& cluster = {}) {
    return hopper::Design(
        Kernel{.shape = {.m = m, .n = n, .warpgroups = warpgroups}, .cluster = cluster, .groups = Groups::rows});
}

template <Design tile>
void expect_every_tile_once(int mixes) {
    std::mt19937_64 random(static_cast<std::uint64_t>(tile.shape.m));
    for (int i = 0; i < mixes; ++i) {
        Mix mix;
        Geometry& g = mix.geometry;
        g.grouping.grouping = groupings[static_cast<std::size_t>(i) % groupings.size()];
        g.grouping.alignment = 1 + static_cast<std::int64_t>(random() % 200);
        g.groups = 1 + static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 300 : 40));
        g.m = static_cast<std::int64_t>(random() % 1500);
        g.n = 1 + static_cast<std::int64_t>(random() % (3 * tile.shape.n));
        mix.blocks = tile.cluster.size() * (1 + static_cast<int>(random() % 7));
        mix.raster_width = 1 + static_cast<int>(random() % 3);
        fill_entries(mix, random);
        expect_tiles<tile>(mix, i);
    }
}

TEST(GroupedSchedule, TakesEveryTileOnce) {
    expect_every_tile_once<tile_of(64, 128, 1)>(sampled(200, 8));
    expect_every_tile_once<tile_of(192, 64, 3)>(sampled(100, 8));
    expect_every_tile_once<tile_of(128, 32, 2, {.columns = 2})>(sampled(100, 8));
}

/// For contiguous indices, hundreds of rows are skipped at once.
TEST(GroupedSchedule, FindsTheEndsOfLongRuns) {
    constexpr Design tile = tile_of(64, 128, 1);
    std::mt19937_64 random(1);
    for (int i = 0; i < 20; ++i) {
        Mix mix{.blocks = 2, .raster_width = 20 + static_cast<int>(random() % 80)};
        Geometry& g = mix.geometry;
        g.grouping.grouping = Grouping::m_grouped_indices;
        g.groups = 3;
        g.m = 2000 + static_cast<std::int64_t>(random() % 6000);
        g.n = tile.shape.n;
        while (static_cast<std::int64_t>(mix.narrow_entries.size()) < g.m) {
            mix.narrow_entries.insert(mix.narrow_entries.end(), 1 + random() % 2500,
                                      static_cast<std::int32_t>(random() % 4) - 1);
        }
        g.grouping.sizes = row_major(mix.narrow_entries.data(), Format::i32, {g.m});
        expect_tiles<tile>(mix, i);
    }
}

/// The warp that reads the sizes skips 32 empty groups at a time.
TEST(GroupedSchedule, SkipsEmptyGroups) {
    constexpr Design tile = tile_of(64, 128, 1);
    std::mt19937_64 random(2);
    for (int i = 0; i < 60; ++i) {
        Mix mix{.blocks = 2, .raster_width = 1 + static_cast<int>(random() % 3)};
        Geometry& g = mix.geometry;
        g.grouping.grouping = groupings[static_cast<std::size_t>(i) % 3];  // those with a size for each group
        g.grouping.alignment = 1 + static_cast<std::int64_t>(random() % 200);
        g.groups = 1 + static_cast<std::int64_t>(random() % 700);
        g.m = 1 + static_cast<std::int64_t>(random() % 5000);
        g.n = tile.shape.n;
        mix.entries.resize(static_cast<std::size_t>(g.groups));
        const std::uint64_t sparsity = std::array{40, 200, 1000}[random() % 3];
        const bool is_count = g.grouping.grouping == Grouping::m_grouped_masked;
        std::int64_t last = 0;
        for (std::int64_t& entry : mix.entries) {
            if (random() % sparsity == 0) last += 1 + static_cast<std::int64_t>(random() % 100);
            entry = last;
            if (is_count) last = 0;
        }
        g.grouping.sizes = row_major(mix.entries.data(), Format::i64, {g.groups});
        if (random() % 2 == 0) narrow_entries(mix, random);
        expect_tiles<tile>(mix, i, true);
    }
}

/// Every block takes as many tiles as any other, give or take one, and of a strict alternation of two kinds both.
TEST(GroupedSchedule, BlocksTakeTheTailsOfGroupsInTurn) {
    constexpr Design tile = tile_of(64, 64, 1);
    constexpr int blocks = 16;
    Mix mix{.blocks = blocks, .raster_width = 8};
    Geometry& g = mix.geometry;
    g.groups = 32;
    g.m = 32 * 80;
    g.n = 64 * 8;
    g.grouping.grouping = Grouping::m_grouped_offsets;
    for (int group = 1; group <= 32; ++group) mix.entries.push_back(group * 80);
    g.grouping.sizes = row_major(mix.entries.data(), Format::i64, {32});
    std::array<int, blocks> tails{};
    run_schedule<tile>(mix, [&](const WorkTile& work) {
        if (work.row_end - work.row < tile.shape.m) ++tails[hopper::block_index()];
    });
    for (const int count : tails) {
        EXPECT_GE(count, 14);
        EXPECT_LE(count, 18);
    }
}

/// The report of a block with rows of two groups.
TEST(MixedRow, KeepsRowAndGroups) {
    for (const auto& [row, group, first] : {std::tuple{0, 0, -1}, {2147483646, 7, 65533}, {5, 65533, 0}}) {
        const hopper::MixedRow packed{hopper::MixedRow::pack(row, group, first)};
        EXPECT_NE(packed.word, 0U);
        EXPECT_EQ(packed.row(), row);
        EXPECT_EQ(packed.group(), group);
        EXPECT_EQ(packed.first_group(), first);
    }
    EXPECT_EQ(hopper::MixedRow{hopper::MixedRow::pack(1, 2000000000, 3)}.group(), 65534);
}

}  // namespace
}  // namespace tilewright::tests
