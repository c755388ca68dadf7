#include "problem/packed_problem.h"

#include "formats/packed_layout.h"
#include "formats/recipe_of.h"
#include "problem/gpu_routes.h"

namespace tilewright {

bool takes_packed_weights(const Problem& problem) {
    const Operand& b = problem.b;
    const int rank = b.values.shape.rank();
    const std::optional<GpuRoute> route = gpu_route({recipe_of(problem.a), recipe_of(b)});
    return b.values.given() && route && route->b == Arrival::tiles && !is_k_grouped(problem.groups.grouping) &&
           !b_is_transposed(problem.layout) && rank >= 2 && rank <= 3;
}

namespace {

Problem with_packed(const Problem& problem, const formats::PackedInternal& internal) {
    const Tensor& values = problem.b.values;
    const int rank = values.shape.rank();
    const bool transposed = b_is_transposed(problem.layout);
    Problem packed = problem;
    if (transposed) packed.layout = problem.layout == Layout::nn ? Layout::nt : Layout::tt;
    const std::int64_t groups = rank == 3 ? values.shape[0] : 1;
    packed.b = {.packed = {.device = values.device,
                           .version = packed_version,
                           .recipe = recipe_of(problem.b),
                           .activations = packed_for(recipe_of(problem.a)),
                           .grouped = rank == 3,
                           .groups = groups,
                           .n = values.shape[transposed ? rank - 1 : rank - 2],
                           .k = values.shape[transposed ? rank - 2 : rank - 1],
                           .tensor_scales = problem.b.tensor_scale.given() ? problem.b.tensor_scale.shape[0] : 0,
                           .internal = internal.words()}};
    return packed;
}

}  // namespace

Problem with_packed_shape(const Problem& problem, int windows) { return with_packed(problem, {.windows = windows}); }

Problem with_packed_shape(const Problem& problem, const ProblemSizes& sizes) {
    const std::int64_t wide_row = sizes.first_wide_row();
    if (wide_row < 0) return with_packed(problem, {});
    if (!is_multiplied_as_bf16(sizes.recipe)) return with_packed(problem, {.windows = 2});
    return with_packed(problem, {.wide_row = wide_row});
}

}  // namespace tilewright
