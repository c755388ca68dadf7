#include "problem/preparation.h"

#include "base/math.h"
#include "problem/axes.h"
#include "problem/hopper_rules.h"
#include "problem/workspace.h"

#include <cstddef>

namespace tilewright {
namespace {

std::int64_t row_bytes(std::int64_t k) { return round_up<std::int64_t>(k, hopper_alignment); }

/// `groups`: 1 for an operand without a group dimension.
CopyAlongK copy_along_k(const OperandGeometry& from, std::int64_t groups, std::int64_t rows, std::int64_t k) {
    const bool shared = from.value_strides.group == 0;
    CopyAlongK copy{.from = from, .matrices = shared && groups > 1 ? 1 : groups, .rows = rows, .k = k};
    copy.to = {.group = shared ? 0 : rows * row_bytes(k), .row = row_bytes(k), .k = 1};
    return copy;
}

CopyAlongK copy_of_a(const Geometry& g) {
    return copy_along_k(g.a, has_group_dimension_a(g.grouping.grouping) ? g.groups : 1, g.m, g.k);
}

CopyAlongK copy_of_b(const Geometry& g) {
    return copy_along_k(g.b, has_group_dimension_b(g.grouping.grouping) ? g.groups : 1, g.n, g.k);
}

bool is_loaded(const CopyAlongK& copy) {
    return loads_along_rows(copy.from.value_strides, copy.k, copy.matrices, copy.from.recipe.values);
}

/// Those that are copied.
MnMajor copied(const Geometry& g) {
    const MnMajor order = mn_major(g);
    const CopyAlongK a = copy_of_a(g), b = copy_of_b(g);
    const bool of_k = is_k_grouped(g.grouping.grouping);
    const bool a_along_k = of_k || takes_sizes(g.grouping.grouping) || g.b.packed.given;
    const MnMajor copies{.a = order.a && (a_along_k || !is_loaded(a)), .b = order.b && (of_k || !is_loaded(b))};
    if (copies.a || copies.b || !order.a || !order.b) return copies;
    const bool a_is_smaller = a.bytes() <= b.bytes();
    return {.a = a_is_smaller, .b = !a_is_smaller};
}

void place(std::optional<CopyAlongK>& copy, Preparation& preparation) {
    if (!copy) return;
    copy->at = preparation.bytes;
    preparation.bytes += round_up<std::int64_t>(copy->bytes(), workspace_alignment);
}

OperandGeometry copied_operand(const CopyAlongK& copy, const void* workspace) {
    OperandGeometry operand = copy.from;
    operand.values = in_workspace(workspace, copy.at);
    operand.value_strides = copy.to;
    return operand;
}

}  // namespace

Preparation preparation(const Geometry& g) {
    Preparation result;
    if (!is_fp8(g.a.recipe.values) || !(is_fp8(g.b.recipe.values) || g.b.packed.given)) return result;
    const MnMajor copies = copied(g);
    if (copies.a) result.a = copy_of_a(g);
    if (copies.b) result.b = copy_of_b(g);
    place(result.a, result);
    place(result.b, result);
    return result;
}

Geometry prepared(const Geometry& g, const Preparation& preparation, const void* workspace) {
    Geometry product = g;
    if (preparation.a) product.a = copied_operand(*preparation.a, workspace);
    if (preparation.b) product.b = copied_operand(*preparation.b, workspace);
    return product;
}

const void* in_workspace(const void* workspace, std::int64_t at) {
    return workspace == nullptr ? nullptr : static_cast<const std::byte*>(workspace) + at;
}

}  // namespace tilewright
