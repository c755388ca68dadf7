#include "problem/packed_problem.h"

namespace tilewright {

bool takes_packed_weights(const Problem& problem) {
    const Operand& b = problem.b;
    const bool along_k = problem.layout == Layout::nt || problem.layout == Layout::tt;
    const int rank = b.values.shape.rank();
    return b.values.given() && b.values.format == Format::e2m1 && b.granularity == Granularity::block_1x32 &&
           is_fp8(problem.a.values.format) && !is_k_grouped(problem.groups.grouping) && along_k && rank >= 2 &&
           rank <= 3;
}

Problem with_packed_shape(const Problem& problem, int windows) {
    const Tensor& values = problem.b.values;
    const int rank = values.shape.rank();
    Problem packed = problem;
    packed.b = {.packed = {.device = values.device,
                           .version = packed_version,
                           .recipe = {values.format, problem.b.granularity, problem.b.scales.format},
                           .activations = PackedFor::fp8,
                           .grouped = rank == 3,
                           .groups = rank == 3 ? values.shape[0] : 1,
                           .n = values.shape[rank - 2],
                           .k = values.shape[rank - 1],
                           .windows = windows}};
    return packed;
}

}  // namespace tilewright
