#include "problem/expansion.h"

#include "base/math.h"
#include "problem/axes.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"
#include "problem/workspace.h"

namespace tilewright {
namespace {

/// By times on one H200 the kernels that decode packed weights next to wgmma take as long as the expansion and the
/// product with it at some 540 rows of a group where A has 1x128 scales (n 4096, k 7168), by the planner's model at
/// 700, and at some 1240 where its scales wait for the end. Those of 1x32, which were not timed, promote four times as
/// often, with scales of columns that expanded weights do without: by counts they gain from fewer rows on. One more
/// launch takes longer than what is gained where there are fewer products than these, and narrow weights or fewer
/// elements of D leave SMs idle, for the tile is 128x256.
///
/// Next to bf16 these are predictions, for of 4 x 8192 rows alone times were measured: bf16 is multiplied at 790
/// TFLOP/s, and 2.53 bytes for each element go through memory at 3.96 TB/s. With the times of the kernels that decode
/// (one H200, n 4096, k 7168 and n 7168, k 2048, 4 x 8192 rows) expanded MXFP4 takes as long at 1600 and 1300 rows of a
/// group, NVFP4 at 730 and 690, when its kernels had a fifth more instructions; by the model now above
/// 1,024 (tests/plan/expanded_test.cpp).
std::int64_t least_expanded_rows(const Geometry& g) {
    if (is_multiplied_as_bf16(g.a.recipe)) return is_nvfp4(g.b.recipe) ? 1280 : 2048;
    const Granularity scales = g.a.recipe.granularity;
    return scales == Granularity::block_1x128 || scales == Granularity::block_1x32 ? 768 : 1280;
}
constexpr std::int64_t least_expanded_columns = 2560;
constexpr double least_expanded_elements = 0x1p22;
constexpr double least_expanded_products = 0x1p35;
/// Packed weights are chosen to save memory, and all experts of a large layer would take several GB of workspace.
constexpr std::int64_t most_expanded_bytes = std::int64_t{1} << 30;

}  // namespace

std::int64_t known_rows(const Geometry& g) {
    switch (g.grouping.grouping) {
        case Grouping::dense:
        case Grouping::batched: return g.m;
        case Grouping::m_grouped_masked: return min(g.expected_m, g.m);  // m is room, mostly for many more
        default: return g.groups > 0 ? g.m / g.groups : 0;
    }
}

std::int64_t ExpandedWeights::factors_at() const {
    return at + round_up<std::int64_t>(value_bytes(), workspace_alignment);
}

ExpandedWeights expansion_of(const Geometry& g) {
    const Format values = is_multiplied_as_bf16(g.a.recipe) ? Format::bf16 : Format::e4m3;
    const std::int64_t row = round_up<std::int64_t>(g.k, hopper_alignment * 8 / bits(values));
    ExpandedWeights expansion{
        .from = g.b.packed, .values = values, .has_factors = is_mxfp4(g.b.recipe), .n = g.n, .k = g.k};
    if (has_group_dimension_b(g.grouping.grouping)) expansion.groups = g.groups;
    expansion.to = {.group = g.n * row, .row = row, .k = 1};
    return expansion;
}

OperandGeometry expanded_operand(const ExpandedWeights& expansion, const void* workspace) {
    OperandGeometry operand{
        .recipe = {.values = expansion.values, .granularity = Granularity::none, .scales = Format::f32},
        .values = in_workspace(workspace, expansion.at),
        .value_strides = expansion.to};
    if (expansion.has_factors) {
        operand.recipe.granularity = Granularity::row;
        operand.scales = in_workspace(workspace, expansion.factors_at());
        operand.scale_strides = {.group = expansion.n, .row = 1};
    } else {
        operand.tensor_scale = expansion.from.tensor_scales;
        operand.tensor_scale_stride = expansion.from.tensor_scale_stride;
        operand.has_tensor_scale = true;
    }
    return operand;
}

/// Sums are multiplied by the row's factor at the end, after the scale of a row or tensor of A: kernels of their own
/// (Scaling::factor), for row : row multiplies both scales first, and 1x32 : row with each chain.
bool expands_weights(const Geometry& g) {
    const Granularity scales = g.a.recipe.granularity;
    const bool of_fp8 =
        is_fp8(g.a.recipe.values) && (scales == Granularity::block_1x128 || scales == Granularity::block_1x32 ||
                                      scales == Granularity::row || scales == Granularity::tensor);
    const bool served = is_multiplied_as_bf16(g.a.recipe) || (of_fp8 && is_mxfp4(g.b.recipe));
    const PackedGeometry& packed = g.b.packed;
    if (!packed.given || packed.windows != 0 || packed.wide_row >= 0 || !served) return false;
    if (is_k_grouped(g.grouping.grouping)) return false;
    const std::int64_t rows = known_rows(g);
    const ExpandedWeights expansion = expansion_of(g);
    // Without overflow.
    const double elements =
        static_cast<double>(expansion.groups) * static_cast<double>(rows) * static_cast<double>(g.n);
    const double products = elements * static_cast<double>(g.k);
    const double row_bytes = static_cast<double>(g.k) * bits(expansion.values) / 8 + hopper_alignment;
    const double bytes = static_cast<double>(expansion.groups) * static_cast<double>(g.n) * row_bytes;
    return rows >= least_expanded_rows(g) && g.n >= least_expanded_columns && elements >= least_expanded_elements &&
           products >= least_expanded_products && bytes <= static_cast<double>(most_expanded_bytes);
}

}  // namespace tilewright
