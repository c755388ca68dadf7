// What the tensors of a call must agree on: m, n, k and the number of groups.
#include "problem/checks.h"

#include <algorithm>
#include <utility>

namespace tilewright::validation {
namespace {

constexpr std::array axis_letters{"g", "m", "n", "k"};
constexpr std::array axis_phrases{"the number of groups is ", "m is ", "n is ", "k is "};

/// One tensor, its name and the axes it should have.
struct Expectation {
    NamedTensor named;
    Axes axes;
    std::string purpose;      // "dense nt"
    std::string other_way{};  // what to do about a transposed tensor, other than passing another view

    const Tensor& tensor() const { return *named.tensor; }
    bool has_rank() const { return has_sound_shape(tensor()) && tensor().shape.rank() == axes.rank(); }
};

Expectation expect_a(const Problem& p) {
    const std::string purpose = std::string(name(p.groups.grouping)) + " " + std::string(name(p.layout));
    return {.named = {"a.values", &p.a.values}, .axes = axes_of_a(p), .purpose = purpose};
}
Expectation expect_b(const Problem& p) {
    constexpr std::array other_layouts{Layout::nn, Layout::nt, Layout::tt, Layout::tn};
    const Layout other = other_layouts[static_cast<std::size_t>(p.layout)];
    return {.named = {"b.values", &p.b.values},
            .axes = axes_of_b(p),
            .purpose = expect_a(p).purpose,
            .other_way = ", or layout " + std::string(name(other))};
}
Expectation expect_output(const Problem& p, std::string_view operand, const Tensor& tensor) {
    return {.named = {operand, &tensor}, .axes = axes_of_d(p), .purpose = std::string(name(p.groups.grouping))};
}
/// [n], or [g, n] where b has groups: as many dimensions as were given, if that may be.
Expectation expect_bias(const Problem& p) {
    const bool each = has_group_dimension_b(p.groups.grouping) && p.bias.shape.rank() != 1;
    return {.named = {"bias", &p.bias},
            .axes = each ? Axes{Axis::groups, Axis::n} : Axes{Axis::n},
            .purpose = std::string(name(p.groups.grouping))};
}
Expectation expect_sizes(const Problem& p) {
    return {.named = {"groups.sizes", &p.groups.sizes},
            .axes = axes_of_sizes(p),
            .purpose = std::string(name(p.groups.grouping))};
}

bool agrees(const Expectation& e, const Sizes& sizes) {
    if (!e.has_rank()) return false;
    for (int i = 0; i < e.axes.rank(); ++i) {
        const Sizes::Size& size = sizes[e.axes[i]];
        if (size.value && *size.value != e.tensor().shape[i]) return false;
    }
    return true;
}

/// A tensor that contradicts an earlier one says nothing about sizes: its other size is likely wrong as well.
void learn(const Expectation& e, Sizes& sizes) {
    if (!agrees(e, sizes)) return;
    for (int i = 0; i < e.axes.rank(); ++i) {
        Sizes::Size& size = sizes[e.axes[i]];
        if (!size.value) size = {.value = e.tensor().shape[i], .source = e.named.name};
    }
}

/// "[64, k]"
std::string expected_shape(const Axes& axes, const Sizes& sizes) {
    std::string text = "[";
    for (int i = 0; i < axes.rank(); ++i) {
        const Sizes::Size& size = sizes[axes[i]];
        text += (i > 0 ? ", " : "");
        text += size.value ? std::to_string(*size.value) : axis_letters[static_cast<std::size_t>(axes[i])];
    }
    return text + "]";
}

/// "k is 128 in a.values and n is 32 in d"
std::string reasons(const Expectation& e, const Sizes& sizes) {
    std::string text;
    for (int i = 0; e.has_rank() && i < e.axes.rank(); ++i) {
        const Sizes::Size& size = sizes[e.axes[i]];
        if (!size.value || *size.value == e.tensor().shape[i]) continue;
        text += text.empty() ? "" : " and ";
        text += axis_phrases[static_cast<std::size_t>(e.axes[i])];
        text += std::to_string(*size.value) + " in " + std::string(size.source);
    }
    return text;
}

/// The last two sizes, exchanged, would fit.
bool is_transposed(Expectation e, const Sizes& sizes) {
    if (!e.has_rank() || e.axes.rank() < 2) return false;
    Tensor view = e.tensor();
    const int last = view.shape.rank() - 1;
    std::swap(view.shape[last - 1], view.shape[last]);
    e.named.tensor = &view;
    return agrees(e, sizes);
}

/// The matrix has groups, or has none, where the other way round is expected.
bool has_groups_for_none(const Expectation& e) { return e.axes.rank() == 2 && e.tensor().shape.rank() == 3; }
bool has_none_for_groups(const Expectation& e) { return e.axes.rank() == 3 && e.tensor().shape.rank() == 2; }

/// Operands that belong to another grouping, or to each other's place.
std::string advice_on_groups(const Problem& p, const Expectation& a, const Expectation& b) {
    const Grouping grouping = p.groups.grouping;
    if (takes_sizes(grouping) && has_groups_for_none(a) && has_none_for_groups(b)) {
        return "did you swap a and b? a holds the rows of all groups, b one matrix per group";
    }
    const bool rows_of_groups = p.a.values.shape.rank() == 2 && p.b.values.shape.rank() == 3;
    if (!takes_sizes(grouping) && rows_of_groups) {
        return "for rows of several groups use m_grouped_offsets (grouped_gemm(offsets=) in Python)";
    }
    if (grouping != Grouping::dense || !has_groups_for_none(a)) return "";
    if (p.b.values.shape.rank() == 3) return "for groups of equal size use batched (batched_gemm in Python)";
    return "b is one matrix: reshape a to two dimensions before you quantize it";
}

/// What is often meant by a shape that does not fit.
std::string advice_on(const Expectation& e, const Sizes& sizes) {
    if (is_transposed(e, sizes)) return ". Pass the transposed view" + e.other_way;
    const bool is_flat = e.named.name == "a.values" && e.tensor().given() && e.tensor().shape.rank() == 2;
    if (is_flat && e.purpose.starts_with(name(Grouping::m_grouped_masked))) {
        return "for groups one after another use m_grouped_offsets, with the end of each group (offsets= in Python)";
    }
    const bool is_sizes = e.axes.rank() == 1 && e.axes[0] == Axis::groups && e.has_rank();
    const std::optional<std::int64_t> groups = sizes[Axis::groups].value;
    return is_sizes && groups && e.tensor().shape[0] == *groups + 1 ? ". Pass one per group, without a leading 0" : "";
}

void check_one(const Expectation& e, const Sizes& sizes, Findings& findings, std::string advice = {}) {
    if (e.tensor().given() && (!has_sound_shape(e.tensor()) || agrees(e, sizes))) return;
    if (advice.empty()) advice = reasons(e, sizes) + advice_on(e, sizes);
    findings.add({.operand = std::string(e.named.name),
                  .given = e.tensor().given() ? to_string(e.tensor().shape) : "nothing",
                  .expected = expected_shape(e.axes, sizes) + " for " + e.purpose,
                  .advice = std::move(advice)});
}

/// In place of c, and not for groups of k.
void check_bias(const Problem& p, const Sizes& sizes, Findings& findings) {
    if (!p.bias.given()) return;
    if (is_k_grouped(p.groups.grouping)) {
        findings.add({.operand = "bias",
                      .given = to_string(p.bias.shape),
                      .expected = "nothing for " + std::string(name(p.groups.grouping)),
                      .advice = "pass it as c, with a stride of 0 along m"});
        return;
    }
    if (p.c.given()) {
        findings.add({.operand = "bias",
                      .given = to_string(p.bias.shape) + " together with c",
                      .expected = "either bias or c",
                      .advice = "add the bias to c first"});
    }
    check_one(expect_bias(p), sizes, findings);
}

/// k_grouped_flat: where the rows of a group are follows from its k alone.
void check_flat(const Expectation& e, Findings& findings) {
    const Tensor& tensor = e.tensor();
    if (!e.has_rank() || !has_sound_strides(tensor) || is_empty(tensor)) return;
    const Dims gapless{tensor.shape[1], 1};
    const auto differs = [&](int i) { return tensor.shape[i] > 1 && tensor.strides[i] != gapless[i]; };
    if (!differs(0) && !differs(1)) return;
    findings.add(
        {.operand = std::string(e.named.name) + ".strides",
         .given = to_string(tensor.strides),
         .expected = to_string(gapless) + " for k_grouped_flat",
         .advice = "groups of k_grouped_flat have no gaps: copy it, or use k_grouped with the end of each group"});
}

/// The work of the call must be countable.
void check_product(const Sizes& sizes, Findings& findings) {
    std::int64_t product = 1;
    std::string given;
    bool fits = true;
    for (Axis axis : {Axis::groups, Axis::m, Axis::n, Axis::k}) {
        const std::int64_t size = sizes[axis].value.value_or(1);
        if (size == 0) return;
        if (sizes[axis].value) {
            given += (given.empty() ? "" : ", ");
            given += axis_letters[static_cast<std::size_t>(axis)];
            given += " " + std::to_string(size);
        }
        fits = fits && !__builtin_mul_overflow(product, size, &product);
    }
    if (fits) return;
    findings.add({.operand = "sizes", .given = given, .expected = "a product below 2^63", .advice = {}});
}

}  // namespace

Sizes sizes_of(const Problem& p) {
    Sizes sizes;
    learn(expect_a(p), sizes);
    learn(expect_b(p), sizes);
    learn(expect_output(p, "d", p.d), sizes);
    return sizes;
}

void check_shapes(const Problem& p, const Sizes& sizes, Findings& findings) {
    const std::string on_groups = advice_on_groups(p, expect_a(p), expect_b(p));
    check_one(expect_a(p), sizes, findings, on_groups);
    check_one(expect_b(p), sizes, findings, on_groups);
    check_one(expect_output(p, "d", p.d), sizes, findings);
    if (p.c.given()) check_one(expect_output(p, "c", p.c), sizes, findings);
    check_bias(p, sizes, findings);
    if (p.groups.grouping == Grouping::k_grouped_flat) {
        if (!a_is_transposed(p.layout)) check_flat(expect_a(p), findings);
        if (!b_is_transposed(p.layout)) check_flat(expect_b(p), findings);
    }
    if (takes_sizes(p.groups.grouping)) {
        check_one(expect_sizes(p), sizes, findings);
    } else if (p.groups.sizes.given()) {
        findings.add({.operand = "groups.sizes",
                      .given = to_string(p.groups.sizes.shape),
                      .expected = "nothing for " + std::string(name(p.groups.grouping)),
                      .advice = {}});
    }
    check_product(sizes, findings);
}

}  // namespace tilewright::validation
