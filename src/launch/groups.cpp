#include "launch/groups.h"

#include <algorithm>

#include "base/math.h"
#include "plan/tma.h"
#include "problem/axes.h"

namespace tilewright::launch {
namespace {

std::int64_t alignment_along_k(const Geometry& g) {
    if (g.grouping.grouping != Grouping::k_grouped_aligned_offsets) return 1;
    return std::clamp<std::int64_t>(g.grouping.alignment, 1, std::max<std::int64_t>(g.k, 1));
}

}  // namespace

hopper::GroupSizes group_sizes(const Geometry& g) {
    const Groups& groups = g.grouping;
    if (!takes_sizes(groups.grouping)) return {};
    const bool along_k = is_k_grouped(groups.grouping);
    const std::int64_t alignment = along_k ? alignment_along_k(g) : planner::group_alignment(g);
    hopper::GroupSizes sizes{.data = groups.sizes.data,
                             .stride = groups.sizes.strides[0],
                             .row_stride = groups.sizes.strides[0],
                             .alignment = static_cast<int>(alignment),
                             .blocks = 0,
                             .kind = hopper::SizeKind::ends,
                             .is_64_bit = groups.sizes.format == Format::i64};
    const bool counts = groups.grouping == Grouping::m_grouped_masked || groups.grouping == Grouping::k_grouped_flat;
    if (counts) sizes.kind = hopper::SizeKind::counts;
    if (groups.grouping == Grouping::m_grouped_indices) {
        sizes.kind = hopper::SizeKind::indices;
        sizes.stride *= alignment;
        sizes.blocks = static_cast<int>(ceil_div<std::int64_t>(g.m, alignment));
    }
    return sizes;
}

std::int64_t clamp_count(std::int64_t count) { return std::min<std::int64_t>(count, 1 << 19); }

std::int64_t row_tiles(const Geometry& g, int rows) {
    if (g.groups == 0) return 0;
    const std::int64_t whole = clamp_count(ceil_div<std::int64_t>(g.m, rows));
    if (!groups_share_a_matrix(g.grouping.grouping)) return clamp_count(g.groups) * whole;
    // Each run of rows may end in a tile that it does not fill.
    const bool any_order = g.grouping.grouping == Grouping::m_grouped_indices;
    const std::int64_t runs =
        any_order ? ceil_div<std::int64_t>(g.m, planner::group_alignment(g)) : std::min(g.groups, g.m);
    return whole + clamp_count(runs);
}

}  // namespace tilewright::launch
