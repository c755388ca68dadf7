#include "launch/groups.h"

#include <algorithm>

#include "problem/axes.h"

namespace tilewright::launch {
namespace {

/// Enough for any GPU, and three of them multiply without overflow.
std::int64_t few(std::int64_t count) { return std::min<std::int64_t>(count, 1 << 19); }

bool lie_in_one_matrix(const Geometry& g) {
    const Grouping grouping = g.grouping.grouping;
    return takes_sizes(grouping) && !has_group_dimension_a(grouping);
}

}  // namespace

std::int64_t matrices(const Geometry& g) { return lie_in_one_matrix(g) ? 1 : g.groups; }

hopper::GroupSizes group_sizes(const Geometry& g) {
    const Groups& groups = g.grouping;
    if (!takes_sizes(groups.grouping)) return {};
    hopper::GroupSizes sizes{.data = groups.sizes.data,
                             .stride = groups.sizes.strides[0],
                             .alignment = 1,
                             .kind = hopper::SizeKind::ends,
                             .is_64_bit = groups.sizes.format == Format::i64};
    if (groups.grouping == Grouping::m_grouped_masked) sizes.kind = hopper::SizeKind::counts;
    if (groups.grouping == Grouping::m_grouped_indices) sizes.kind = hopper::SizeKind::indices;
    if (groups.grouping == Grouping::m_grouped_aligned_offsets) {
        // Every multiple behind the last row does the same.
        const std::int64_t rows = std::max<std::int64_t>(g.m, 1);
        sizes.alignment = static_cast<int>(std::clamp<std::int64_t>(groups.alignment, 1, rows));
    }
    return sizes;
}

std::int64_t row_tiles(const Geometry& g, int rows) {
    if (g.groups == 0) return 0;
    const std::int64_t whole = few(g.m / rows + (g.m % rows != 0 ? 1 : 0));
    if (!lie_in_one_matrix(g)) return few(g.groups) * whole;
    // Each run of rows may end in a tile of its own.
    const bool any_row = g.grouping.grouping == Grouping::m_grouped_indices;
    return whole + few(any_row ? g.m : std::min(g.groups, g.m));
}

}  // namespace tilewright::launch
