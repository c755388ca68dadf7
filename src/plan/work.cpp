#include "plan/work.h"

#include <fmt/format.h>

#include <algorithm>

#include "problem/geometry.h"

namespace tilewright::planner {
namespace {

/// value / by, rounded up; without overflow.
std::int64_t divide_up(std::int64_t value, std::int64_t by) {
    return by == 0 ? 0 : value / by + (value % by != 0 ? 1 : 0);
}

bool is_m_grouped(Grouping grouping) {
    return grouping == Grouping::m_grouped_indices || grouping == Grouping::m_grouped_offsets ||
           grouping == Grouping::m_grouped_aligned_offsets;
}

void spread(const Problem& problem, const Geometry& g, Work& work) {
    work.products = g.groups;
    work.rows = g.m;
    work.columns = g.n;
    work.k = g.k;
    work.total_k = static_cast<double>(g.k);
    if (is_m_grouped(work.grouping)) {
        work.products = std::min(g.groups, g.m);
        work.rows = divide_up(g.m, work.products);
        work.total_rows = static_cast<double>(g.m);
        return;
    }
    if (work.grouping == Grouping::m_grouped_masked && problem.expected_m > 0) {
        work.rows = std::min(problem.expected_m, g.m);
    }
    if (work.grouping == Grouping::k_grouped) work.k = divide_up(g.k, g.groups);
    work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
}

std::string key_of(const Problem& problem, const Geometry& g, const Work& work) {
    std::string key = fmt::format("{} {} {} m={} n={} k={}", name(work.grouping), name(work.recipe), name(work.output),
                                  g.m, g.n, g.k);
    if (work.grouping != Grouping::dense) key += fmt::format(" groups={}", g.groups);
    if (problem.expected_m > 0) key += fmt::format(" expected_m={}", problem.expected_m);
    if (work.layout != Layout::nt) key += fmt::format(" layout={}", name(work.layout));
    if (work.accumulation != Accumulation::promoted) key += fmt::format(" accumulation={}", name(work.accumulation));
    if (work.sm_limit > 0) key += fmt::format(" sms={}", work.sm_limit);
    return key;
}

hopper::Storage storage(Format format) {
    switch (format) {
        case Format::e5m2: return hopper::Storage::e5m2;
        case Format::e2m1: return hopper::Storage::e2m1;
        case Format::bf16: return hopper::Storage::bf16;
        default: return hopper::Storage::e4m3;
    }
}

hopper::Scaling scaling(Granularity granularity) {
    switch (granularity) {
        case Granularity::none: return hopper::Scaling::none;
        case Granularity::tensor:
        case Granularity::row: return hopper::Scaling::after;
        case Granularity::block_1x128: return hopper::Scaling::row_128;
        case Granularity::block_128x128: return hopper::Scaling::block_128;
        case Granularity::block_1x32: return hopper::Scaling::row_32;
        case Granularity::block_1x16: return hopper::Scaling::decoded;
    }
    return hopper::Scaling::none;
}

hopper::Family family(Grouping grouping) {
    if (is_m_grouped(grouping) || grouping == Grouping::m_grouped_masked) return hopper::Family::m_grouped;
    return grouping == Grouping::k_grouped ? hopper::Family::k_grouped : hopper::Family::dense;
}

}  // namespace

Work describe(const Problem& problem) {
    const Geometry g = geometry(problem);
    Work work;
    work.recipe = {g.a.recipe, g.b.recipe};
    work.accumulation = problem.accumulation;
    work.layout = problem.layout;
    work.grouping = problem.groups.grouping;
    work.reproducibility = problem.reproducibility;
    work.output = g.output;
    work.adds_c = problem.c.given();
    work.sm_limit = problem.sm_limit;
    spread(problem, g, work);
    work.key = key_of(problem, g, work);
    return work;
}

hopper::Tile family_tile(const Work& work) {
    hopper::Tile tile;
    tile.a = storage(work.recipe.a.values);
    tile.b = storage(work.recipe.b.values);
    tile.a_scaling = scaling(work.recipe.a.granularity);
    tile.b_scaling = scaling(work.recipe.b.granularity);
    tile.promoted = work.accumulation == Accumulation::promoted;
    tile.family = family(work.grouping);
    tile.k = tile.a == hopper::Storage::bf16 || tile.b == hopper::Storage::bf16 ? 64 : 128;
    return tile;
}

hopper::Tile device_tile(const PlannedTile& tile, const hopper::Tile& family) {
    hopper::Tile result = family;
    result.m = tile.m;
    result.n = tile.n;
    result.k = tile.k;
    result.stages = tile.stages;
    result.cluster = tile.cluster;
    result.multicast = static_cast<hopper::Multicast>(tile.multicast);
    result.swap_ab = tile.swap_ab;
    result.split_k = tile.split_k;
    result.warpgroups = tile.warpgroups;
    return result;
}

PlannedTile planned_tile(const hopper::Tile& tile) {
    return {.m = tile.m,
            .n = tile.n,
            .k = tile.k,
            .stages = tile.stages,
            .warpgroups = tile.warpgroups,
            .cluster = tile.cluster,
            .multicast = static_cast<Multicast>(tile.multicast),
            .swap_ab = tile.swap_ab,
            .split_k = tile.split_k};
}

}  // namespace tilewright::planner
