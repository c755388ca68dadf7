#include "problem/problem_sizes.h"

#include "base/math.h"
#include "problem/axes.h"
#include "problem/gpu_routes.h"

namespace tilewright {
namespace {

constexpr void* no_memory = nullptr;

Dims shape_of(const Axes& axes, const ProblemSizes& sizes) {
    Dims shape;
    for (int i = 0; i < axes.rank(); ++i) {
        switch (axes[i]) {
            case Axis::groups: shape.push_back(sizes.groups); break;
            case Axis::m: shape.push_back(sizes.m); break;
            case Axis::n: shape.push_back(sizes.n); break;
            case Axis::k: shape.push_back(sizes.k); break;
        }
    }
    return shape;
}

/// [1], [rows] or [row blocks, k-blocks], with the group first where the operand has one. If k-groups may end anywhere,
/// blocks restart in each group, and each group may have one more.
Dims scale_shape(Granularity granularity, std::int64_t rows, bool grouped, const ProblemSizes& sizes) {
    if (granularity == Granularity::none) return {};
    if (granularity == Granularity::tensor) return {1};
    Dims shape;
    if (grouped) shape.push_back(sizes.groups);
    shape.push_back(ceil_div<std::int64_t>(rows, row_block(granularity)));
    if (k_block(granularity) == 0) return shape;
    const bool anywhere = sizes.grouping == Grouping::k_grouped || sizes.grouping == Grouping::k_grouped_flat;
    const std::int64_t more = anywhere ? sizes.groups : 0;
    shape.push_back(ceil_div<std::int64_t>(sizes.k, k_block(granularity)) + more);
    return shape;
}

Operand operand_of(const OperandRecipe& side, const Dims& values, const Dims& scales) {
    Operand operand;
    operand.values = row_major(no_memory, side.values, values);
    operand.granularity = side.granularity;
    if (side.granularity != Granularity::none) operand.scales = row_major(no_memory, side.scales, scales);
    if (side.granularity == Granularity::block_1x16) operand.tensor_scale = row_major(no_memory, Format::f32, {1});
    return operand;
}

}  // namespace

std::int64_t ProblemSizes::first_wide_row() const {
    const std::int64_t rows = has_group_dimension_b(grouping) ? groups * n : n;
    const int first = wide_rows / 2;
    return is_mxfp4(recipe.b) && wide_rows > 0 && k > 32 && first < rows ? first : -1;
}

/// More than 11 and more than 120, the largest differences in uniform rows.
int ProblemSizes::wide_difference() const { return is_multiplied_as_bf16(recipe) ? 124 : 24; }

Problem problem_of(const ProblemSizes& sizes) {
    const auto& [a, b] = sizes.recipe;
    Problem problem;
    problem.layout = sizes.layout;
    problem.groups.grouping = sizes.grouping;
    problem.accumulation = sizes.accumulation;
    problem.reproducibility = sizes.reproducibility;
    problem.sm_limit = sizes.sm_limit;
    problem.expected_m = sizes.expected_m;
    problem.a = operand_of(a, shape_of(axes_of_a(problem), sizes),
                           scale_shape(a.granularity, sizes.m, has_group_dimension_a(sizes.grouping), sizes));
    problem.b = operand_of(b, shape_of(axes_of_b(problem), sizes),
                           scale_shape(b.granularity, sizes.n, has_group_dimension_b(sizes.grouping), sizes));
    problem.d = row_major(no_memory, sizes.output, shape_of(axes_of_d(problem), sizes));
    if (sizes.with_c) problem.c = problem.d;
    if (sizes.with_bias) {
        const bool grouped = has_group_dimension_b(sizes.grouping);
        problem.bias = row_major(no_memory, Format::bf16, grouped ? Dims{sizes.groups, sizes.n} : Dims{sizes.n});
    }
    if (takes_sizes(sizes.grouping)) {
        problem.groups.sizes = row_major(no_memory, Format::i32, shape_of(axes_of_sizes(problem), sizes));
    }
    return problem;
}

}  // namespace tilewright
