#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/tma.h"
#include "problem/canonical_order.h"
#include "problem/geometry.h"
#include "problem/hopper_rules.h"

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

/// The rows of all groups that the caller expects. Where it says nothing, that is the room for them.
std::int64_t expected_rows(const Problem& problem, const Geometry& g) {
    if (!is_m_grouped(g.grouping.grouping) || problem.expected_m <= 0) return g.m;
    return problem.expected_m < divide_up(g.m, g.groups) ? problem.expected_m * g.groups : g.m;
}

/// Whether the caller says how many rows groups have, and they are fewer than there is room for.
bool is_hinted(const Problem& problem, const Geometry& g) { return expected_rows(problem, g) != g.m; }

/// Groups that begin aligned have half an alignment of padding each, in the mean. Padded or not, the same rows are
/// expected, and the same tile is chosen. A single group is expected to have all rows.
void expect_rows(const Geometry& g, Workload& work) {
    const std::int64_t alignment = group_alignment(g);
    work.products = std::min(g.groups, divide_up(g.m, alignment));
    if (g.groups == 1) {
        work.rows = g.m;
        work.total_rows = static_cast<double>(g.m);
        return;
    }
    const std::int64_t rows = g.m - work.products * (alignment - 1) / 2;
    work.rows = divide_up(rows, work.products);
    work.total_rows = static_cast<double>(rows);
    // Rows of no group are computed with their block; rows after an end are not.
    if (work.grouping == Grouping::m_grouped_indices) work.padding = static_cast<double>(alignment - 1) / 2;
}

void expect_sizes(const Problem& problem, const Geometry& g, Workload& work) {
    work.products = g.groups;
    work.rows = g.m;
    work.columns = g.n;
    work.k = g.k;
    work.total_k = static_cast<double>(g.k);
    if (is_m_grouped(work.grouping)) {
        if (!is_hinted(problem, g)) return expect_rows(g, work);
        work.products = std::min(g.groups, divide_up(g.m, group_alignment(g)));
        work.rows = problem.expected_m;
        work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
        return;
    }
    if (work.grouping == Grouping::m_grouped_masked && problem.expected_m > 0) {
        work.rows = std::min(problem.expected_m, g.m);
        work.hinted = true;
    }
    if (is_k_grouped(work.grouping)) work.k = divide_up(g.k, g.groups);
    work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
}

/// A tuned row for FP8 weights has no meaning for the bits of expanded weights.
std::string key_of(const Problem& problem, const Geometry& g, const Workload& work) {
    std::string key = fmt::format("{} {} {} m={} n={} k={}", name(work.grouping), name(work.recipe), name(work.output),
                                  expected_rows(problem, g), g.n, g.k);
    if (work.grouping != Grouping::dense) key += fmt::format(" groups={}", g.groups);
    if (work.grouping == Grouping::m_grouped_masked && problem.expected_m > 0)
        key += fmt::format(" expected_m={}", problem.expected_m);
    const MnMajor order = mn_major(g);  // transposed views in layout nt are the other layouts
    if (order.a || order.b) key += fmt::format(" layout={}{}", order.a ? 't' : 'n', order.b ? 'n' : 't');
    if (g.b.packed.given) key += " packed";
    if (work.preparation.expansion) key += " expanded";
    if (work.accumulation != Accumulation::promoted) key += fmt::format(" accumulation={}", name(work.accumulation));
    if (work.sm_limit > 0) key += fmt::format(" sms={}", work.sm_limit);
    return key;
}

hopper::Storage storage(Format format) {
    if (format == Format::bf16) return hopper::Storage::bf16;
    return format == Format::e5m2 ? hopper::Storage::e5m2 : hopper::Storage::e4m3;
}

hopper::Storage packed_storage(const Recipe& recipe) {
    if (!is_bf16(recipe.a)) return hopper::Storage::packed_e2m1;
    return is_mxfp4(recipe.b) ? hopper::Storage::packed_mxfp4_bf16 : hopper::Storage::packed_nvfp4_bf16;
}

hopper::Scaling scaling(Granularity granularity) {
    switch (granularity) {
        case Granularity::none: return hopper::Scaling::none;
        case Granularity::tensor:
        case Granularity::row: return hopper::Scaling::epilogue;
        case Granularity::block_1x128: return hopper::Scaling::block_1x128;
        case Granularity::block_128x128: return hopper::Scaling::block_128x128;
        case Granularity::block_1x32: return hopper::Scaling::block_1x32;
        default: return hopper::Scaling::none;
    }
}

/// Next to 1x32 scales, other scales of fp8 multiply the sum of each step too.
hopper::Scaling next_to_steps(hopper::Scaling scaling) {
    const bool repeated = scaling == hopper::Scaling::epilogue || scaling == hopper::Scaling::block_1x128 ||
                          scaling == hopper::Scaling::block_128x128;
    return repeated ? hopper::Scaling::repeated : scaling;
}

hopper::Family family(Grouping grouping) {
    if (grouping == Grouping::k_grouped_aligned_offsets) return hopper::Family::k_grouped;
    if (is_k_grouped(grouping)) return hopper::Family::k_mapped;
    const bool grouped = is_m_grouped(grouping) || grouping == Grouping::m_grouped_masked;
    return grouped ? hopper::Family::m_grouped : hopper::Family::dense;
}

}  // namespace

Workload describe(const Problem& problem) { return describe(problem, geometry(problem)); }

namespace {

Workload describe(const Problem& problem, const Geometry& call, const Preparation& before) {
    Workload work;
    work.preparation = before;
    work.geometry = prepared(call, work.preparation, nullptr);
    const Geometry& g = work.geometry;
    work.recipe = {g.a.recipe, g.b.recipe};
    work.accumulation = problem.accumulation;
    work.layout = problem.layout;
    work.grouping = problem.groups.grouping;
    work.reproducibility = problem.reproducibility;
    work.output = g.output;
    work.adds_c = problem.c.given();
    work.sm_limit = problem.sm_limit;
    expect_sizes(problem, g, work);
    if (problem.bias.given()) {
        work.bias_bytes = static_cast<double>(work.products) * static_cast<double>(work.columns) * bits(g.addend()) / 8;
    }
    // A problem made from sizes has no address for C, but adds it nevertheless: assume an address that TMA can load.
    alignas(tma_alignment) static char some_memory = 0;
    const bool adds = problem.c.given() || problem.bias.given();
    if (adds && g.c.data == nullptr) work.geometry.c.data = &some_memory;
    work.key = key_of(problem, g, work);
    return work;
}

}  // namespace

Workload describe(const Problem& problem, const Geometry& call) {
    const bool expands = expands_weights(call);
    Workload work = describe(problem, call, preparation(call, expands));
    if (expands) work.unexpanded = std::make_shared<const Workload>(describe(problem, call, preparation(call, false)));
    return work;
}

hopper::Tile family_tile(const Workload& work) {
    hopper::Tile tile;
    tile.a = {storage(work.recipe.a.values), scaling(work.recipe.a.granularity)};
    tile.b = {storage(work.recipe.b.values), scaling(work.recipe.b.granularity)};
    if (is_bf16(work.recipe.a) && work.geometry.a.has_tensor_scale) tile.a.scaling = hopper::Scaling::alpha;
    // Operands without scales are multiplied by ones, as the kernels for epilogue scales do (launch.cpp).
    const bool b_is_folded = work.recipe.b.granularity == Granularity::none;
    if (b_is_folded && tile.a.scaling == hopper::Scaling::epilogue) tile.b.scaling = hopper::Scaling::epilogue;
    if (work.unexpanded != nullptr) {
        tile.b.scaling = work.geometry.b.has_tensor_scale ? hopper::Scaling::alpha : hopper::Scaling::factor;
    }
    // Their scales are decoded with the codes, except that factor.
    if (work.geometry.b.packed.given) {
        const hopper::Storage packed = packed_storage(work.recipe);
        tile.b = {packed, hopper::packed_scaling(packed)};
    }
    if (promotes_each_step(tile)) {
        tile.a.scaling = next_to_steps(tile.a.scaling);
        tile.b.scaling = next_to_steps(tile.b.scaling);
    }
    const MnMajor order = mn_major(work.geometry);
    if (order.a) tile.a.major = hopper::Major::mn;
    if (order.b) tile.b.major = hopper::Major::mn;
    tile.mma.promoted = work.accumulation == Accumulation::promoted && !multiplies_bf16(tile);
    tile.shape.k = stage_k(tile);
    tile.family = family(work.grouping);
    return tile;
}

}  // namespace tilewright::planner
