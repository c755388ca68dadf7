// Which dimensions the tensors of a call have, for every grouping and layout: said once, for geometry and validation.
#pragma once

#include <tilewright/problem.h>

#include <array>
#include <cstdint>
#include <initializer_list>

namespace tilewright {

/// k-grouped: k is the sum over groups.
enum class Axis : std::uint8_t { groups, m, n, k };

constexpr bool has_group_dimension_a(Grouping grouping) {
    return grouping == Grouping::batched || grouping == Grouping::m_grouped_masked;
}
constexpr bool has_group_dimension_b(Grouping grouping) {
    return grouping != Grouping::dense && !is_k_grouped(grouping);
}
constexpr bool has_group_dimension_d(Grouping grouping) {
    return has_group_dimension_a(grouping) || is_k_grouped(grouping);
}
constexpr bool takes_sizes(Grouping grouping) { return grouping != Grouping::dense && grouping != Grouping::batched; }
/// Whether groups are ranges of rows of one matrix of A, and of D.
constexpr bool groups_share_a_matrix(Grouping grouping) {
    return takes_sizes(grouping) && !has_group_dimension_d(grouping);
}

/// Up to three axes, outermost first.
class Axes {
public:
    constexpr Axes() = default;
    constexpr Axes(std::initializer_list<Axis> axes) {
        for (Axis axis : axes) axes_[static_cast<std::size_t>(rank_++)] = axis;
    }
    constexpr int rank() const { return rank_; }
    constexpr Axis operator[](int i) const { return axes_[static_cast<std::size_t>(i)]; }

private:
    std::array<Axis, 3> axes_{};
    int rank_ = 0;
};

constexpr Axes matrix_axes(bool grouped, Axis first, Axis second) {
    return grouped ? Axes{Axis::groups, first, second} : Axes{first, second};
}
constexpr Axes axes_of_a(const Problem& p) {
    const bool transposed = a_is_transposed(p.layout);
    return matrix_axes(has_group_dimension_a(p.groups.grouping), transposed ? Axis::k : Axis::m,
                       transposed ? Axis::m : Axis::k);
}
constexpr Axes axes_of_b(const Problem& p) {
    const bool transposed = b_is_transposed(p.layout);
    return matrix_axes(has_group_dimension_b(p.groups.grouping), transposed ? Axis::k : Axis::n,
                       transposed ? Axis::n : Axis::k);
}
constexpr Axes axes_of_d(const Problem& p) {
    return matrix_axes(has_group_dimension_d(p.groups.grouping), Axis::m, Axis::n);
}
/// None for a grouping without sizes.
constexpr Axes axes_of_sizes(const Problem& p) {
    if (!takes_sizes(p.groups.grouping)) return {};
    return {p.groups.grouping == Grouping::m_grouped_indices ? Axis::m : Axis::groups};
}

}  // namespace tilewright
