// Integer arithmetic and a choice of types for every directory, device code included: constexpr, without standard
// headers.
#pragma once

namespace tilewright {

/// value / by, rounded up; without overflow. For value >= 0 and by > 0.
template <class Integer>
constexpr Integer ceil_div(Integer value, Integer by) {
    return value / by + (value % by != 0 ? 1 : 0);
}

/// The smallest multiple of `step` that is not less than `value`.
template <class Integer>
constexpr Integer round_up(Integer value, Integer step) {
    return ceil_div(value, step) * step;
}

template <class Number>
constexpr Number min(Number a, Number b) {
    return a < b ? a : b;
}

template <class Number>
constexpr Number max(Number a, Number b) {
    return a > b ? a : b;
}

template <bool first, class A, class B>
struct ChosenType {
    using Type = A;
};
template <class A, class B>
struct ChosenType<false, A, B> {
    using Type = B;
};
/// std::conditional_t
template <bool first, class A, class B>
using Chosen = typename ChosenType<first, A, B>::Type;

}  // namespace tilewright
