#include "problem/workspace_plan.h"

#include "base/math.h"
#include "formats/packed_layout.h"
#include "problem/axes.h"
#include "problem/gpu_routes.h"
#include "problem/hopper_rules.h"
#include "problem/times_made.h"
#include "problem/workspace.h"

#include <bit>

namespace tilewright {
namespace {

/// `groups`: 1 for an operand without a group dimension.
CopyAlongK copy_along_k(const OperandGeometry& from, std::int64_t groups, std::int64_t rows, std::int64_t k) {
    const bool shared = from.value_strides.group == 0;
    const std::int64_t row = aligned_row(k, from.recipe.values);
    CopyAlongK copy{.from = from, .matrices = shared && groups > 1 ? 1 : groups, .rows = rows, .k = k};
    copy.to = {.group = shared ? 0 : rows * row, .row = row, .k = 1};
    return copy;
}

bool is_loaded(const CopyAlongK& copy) {
    return loads_along_rows(copy.from.value_strides, copy.k, copy.matrices, copy.from.recipe.values);
}

/// The least rows per group from which weights of layout nn are copied. A copy costs 0.67 ps per value; by times on one
/// H100 (docs/experiments/024-mn-major-weights.md) that is as much as it saves at these rows:
/// - 128x128 scales, which the mainloop applies: some 1,050.
/// - epilogue scales: 3,300.
/// - 1x128 scales on both sides have no shipped kernel in that layout, and take 1.6 to 3.4 times as long as K-major.
std::int64_t least_copied_rows(const Geometry& g) {
    if (g.b.recipe.granularity == Granularity::block_1x128) return 256;
    return g.a.k_block() != 0 ? 1280 : 4096;
}

/// Whether weights of layout nn are copied although TMA can load them along their rows. Each tile of D transposes them
/// in registers, which costs products of many rows more than one copy. With fewer products than these, the additional
/// launch costs more than is gained.
bool gains_from_copy(const Geometry& g, const CopyAlongK& weights) {
    constexpr double least_products = 0x1p34;
    constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
    const std::int64_t rows = known_rows(g);
    return g.accumulation == Accumulation::promoted && rows >= least_copied_rows(g) && weights.bytes() <= most_bytes &&
           static_cast<double>(weights.bytes()) * static_cast<double>(rows) >= least_products;
}

/// Why A, which is along its rows, is copied; nothing where kernels transpose it on the way.
std::optional<CopyReason> why_a_is_copied(const Geometry& g, const GpuRoute& route, const CopyAlongK& a) {
    if (route.b == Arrival::tiles) return CopyReason::packed_weights;
    if (is_k_grouped(g.grouping.grouping)) return CopyReason::groups_of_k;
    if (route.a == Arrival::along_k) return CopyReason::scales_of_32;
    if (takes_sizes(g.grouping.grouping)) return CopyReason::groups_of_rows;
    if (!is_loaded(a)) return CopyReason::strides;
    return std::nullopt;
}

/// The same for B.
std::optional<CopyReason> why_b_is_copied(const Geometry& g, const GpuRoute& route, const CopyAlongK& b,
                                          bool a_is_along_rows) {
    if (is_k_grouped(g.grouping.grouping)) return CopyReason::groups_of_k;
    if (route.b == Arrival::along_k) return CopyReason::scales_of_32;
    if (!a_is_along_rows && gains_from_copy(g, b)) return CopyReason::many_rows;
    if (!is_loaded(b)) return CopyReason::strides;
    return std::nullopt;
}

/// The copies of fp8 operands along k, among those along their rows.
void plan_copies(const Geometry& g, const GpuRoute& route, WorkspacePlan& plan) {
    const MnMajor order = mn_major(g);
    const auto may_be_copied = [](Arrival arrival) {
        return arrival == Arrival::either_order || arrival == Arrival::along_k;
    };
    CopyAlongK a = copy_along_k(g.a, matrices_of_a(g), g.m, g.k), b = copy_along_k(g.b, matrices_of_b(g), g.n, g.k);
    std::optional<CopyReason> of_a, of_b;
    const bool a_is_along_rows = order.a && may_be_copied(route.a);
    const bool b_is_along_rows = order.b && may_be_copied(route.b);
    if (a_is_along_rows) of_a = why_a_is_copied(g, route, a);
    if (b_is_along_rows) of_b = why_b_is_copied(g, route, b, a_is_along_rows);
    const bool both = a_is_along_rows && b_is_along_rows;
    if (both && !of_a && !of_b) (a.bytes() <= b.bytes() ? of_a : of_b) = CopyReason::both_along_rows;
    if (of_a) plan.copy_a = a, plan.copy_a->why = *of_a;
    if (of_b) plan.copy_b = b, plan.copy_b->why = *of_b;
}

/// A copy, or a decoded operand.
template <class Part>
void place(std::optional<Part>& part, WorkspacePlan& plan) {
    if (!part) return;
    part->at = plan.bytes;
    plan.bytes += round_up<std::int64_t>(part->bytes(), workspace_alignment);
}

OperandGeometry copied_operand(const CopyAlongK& copy, const void* workspace) {
    OperandGeometry operand = copy.from;
    operand.values = in_workspace(workspace, copy.at);
    operand.value_strides = copy.to;
    return operand;
}

/// Whether TMA loads a stride of codes: whole rows of 16 bytes. That of a dimension of one index means nothing.
bool is_loaded_stride(std::int64_t codes, std::int64_t count) {
    return count <= 1 || (codes >= 0 && codes % (2 * hopper_alignment) == 0 && codes / 2 < hopper_stride_limit);
}

/// Whether kernels read the codes of MXFP4 weights in place. Blocks of 32 are whole, so that 16 bytes are one.
bool has_raw_codes(const Geometry& g, const GpuRoute& route) {
    const bool whole = g.k > 0 && g.k % g.b.k_block() == 0 && g.k <= formats::raw_k_limit;
    const Strides& strides = g.b.value_strides;
    return route.raw && whole && has_codes_along_k(g) &&
           std::bit_cast<std::uintptr_t>(g.b.values) % hopper_alignment == 0 && is_loaded_stride(strides.row, g.n) &&
           (g.n <= 1 || strides.row >= g.k) && is_loaded_stride(strides.group, matrices_of_b(g));
}

/// `groups`: 1 for an operand without a group dimension. Scales that stay where they are do not keep a matrix that all
/// groups share from being decoded once.
DecodedOperand decoding_of(const OperandGeometry& from, StepKind multiplied, std::int64_t groups, std::int64_t rows,
                           std::int64_t k) {
    const bool shared = from.value_strides.group == 0 && (from.scale_strides.group == 0 || !is_nvfp4(from.recipe));
    DecodedOperand decoding{.from = from, .matrices = shared && groups > 1 ? 1 : groups, .rows = rows, .k = k};
    decoding.values = multiplied_format(from.recipe.values, multiplied);
    const std::int64_t row = aligned_row(k, decoding.values);
    decoding.to = {.group = shared ? 0 : rows * row, .row = row, .k = 1};
    return decoding;
}

/// The capacity of a masked group may be many times its rows.
DecodedOperand decoding_of_a(const Geometry& g, StepKind multiplied) {
    DecodedOperand decoding = decoding_of(g.a, multiplied, matrices_of_a(g), g.m, g.k);
    const bool masked = g.grouping.grouping == Grouping::m_grouped_masked;
    if (masked && decoding.matrices == g.groups) decoding.row_counts = g.grouping.sizes;
    return decoding;
}

OperandGeometry decoded_operand(const DecodedOperand& decoding, const void* workspace) {
    OperandGeometry operand = decoding.from;
    operand.values = in_workspace(workspace, decoding.at);
    operand.value_strides = decoding.to;
    operand.recipe.values = decoding.values;
    if (!is_nvfp4(decoding.from.recipe)) return operand;
    operand.recipe = {.values = Format::bf16, .granularity = Granularity::none, .scales = Format::f32};
    operand.scales = nullptr;
    operand.scale_strides = {};
    operand.scale_columns = 0;
    return operand;
}

/// None of MXFP4.
Tensor tensor_scale_of(const Geometry& g) {
    if (!g.b.has_tensor_scale) return {};
    const std::int64_t stride = g.b.tensor_scale_stride;
    Tensor scale = row_major(g.b.tensor_scale, Format::f32, {stride == 0 ? 1 : g.groups});
    if (stride != 0) scale.strides = {stride};
    return scale;
}

/// As they were given, from strides.
Operand weights_of(const Geometry& g) {
    const bool grouped = has_group_dimension_b(g.grouping.grouping);
    const auto tensor = [&](const void* data, Format format, const Strides& strides, std::int64_t columns) {
        Tensor view = row_major(data, format, grouped ? Dims{g.groups, g.n, columns} : Dims{g.n, columns});
        view.strides = grouped ? Dims{strides.group, strides.row, strides.k} : Dims{strides.row, strides.k};
        return view;
    };
    return {
        .values = tensor(g.b.values, g.b.recipe.values, g.b.value_strides, g.k),
        .granularity = g.b.recipe.granularity,
        .scales = tensor(g.b.scales, g.b.recipe.scales, g.b.scale_strides, ceil_div<std::int64_t>(g.k, g.b.k_block())),
        .tensor_scale = tensor_scale_of(g)};
}

WeightPacking packing_of(const Geometry& g, const GpuRoute& route) {
    formats::PackedInternal every_call{};
    if (canonical_order({g.a.recipe, g.b.recipe}, g.accumulation)->folded == Folded::b) {
        if (route.multiplied == StepKind::fp8) every_call.windows = formats::BlockWindows::blocks;
        if (route.multiplied == StepKind::bf16) every_call.wide_row = 0;
    }
    WeightPacking packing{.weights = weights_of(g)};
    packing.packed = {.version = packed_version,
                      .recipe = g.b.recipe,
                      .activations = packed_for(g.a.recipe),
                      .grouped = has_group_dimension_b(g.grouping.grouping),
                      .groups = matrices_of_b(g),
                      .n = g.n,
                      .k = g.k,
                      .internal = every_call.words()};
    packing.raw = has_raw_codes(g, route);
    packing.packed.bytes = packed_sections(packing).kept_at();
    return packing;
}

void place(std::optional<WeightPacking>& packing, WorkspacePlan& plan) {
    if (!packing) return;
    packing->at = plan.bytes;
    packing->judgements_at = packing->at + packing->packed.bytes;
    const std::int64_t rows = packing->raw ? 0 : packing->packed.groups * packing->packed.n;
    plan.bytes = packing->judgements_at + round_up<std::int64_t>(rows, workspace_alignment);
}

void replace_weights(const WeightPacking& packing, const void* workspace, OperandGeometry& b) {
    PackedWeights packed = packing.packed;
    packed.data = const_cast<void*>(in_workspace(workspace, packing.at));
    b.packed = packed_geometry(packed);
    b.packed.tensor_scales = b.tensor_scale;
    b.packed.tensor_scale_stride = b.tensor_scale_stride;
    b.packed.raw = packing.raw;
    b.packed.tile_bytes = packed_sections(packing).tile_bytes();
    b.scales = b.tensor_scale = nullptr;
    if (packing.raw) return;
    b.values = nullptr;
    b.value_strides = {.k = 1};
}

}  // namespace

formats::PackedSections packed_sections(const WeightPacking& packing) {
    formats::PackedSections sections = formats::packed_sections(packing.packed);
    sections.has_codes = !packing.raw;
    return sections;
}

WorkspacePlan workspace_plan(const Geometry& g) { return workspace_plan(g, expands_weights(g)); }

WorkspacePlan workspace_plan(const Geometry& g, bool expands) {
    ++times_made.workspace_plans;
    WorkspacePlan plan;
    const std::optional<GpuRoute> route = gpu_route({g.a.recipe, g.b.recipe});
    if (!route || (is_k_grouped(g.grouping.grouping) && route->group->no_groups_of_k != nullptr)) return plan;
    if (route->a == Arrival::decoded) plan.decode_a = decoding_of_a(g, route->multiplied);
    if (route->b == Arrival::decoded) plan.decode_b = decoding_of(g.b, route->multiplied, matrices_of_b(g), g.n, g.k);
    if (route->b == Arrival::tiles && !g.b.packed.given) plan.pack_b = packing_of(g, *route);
    if (expands) plan.expand_b = expansion_of(g);
    plan_copies(g, *route, plan);
    place(plan.copy_a, plan);
    place(plan.copy_b, plan);
    place(plan.decode_a, plan);
    place(plan.decode_b, plan);
    place(plan.pack_b, plan);
    place(plan.expand_b, plan);
    return plan;
}

WorkspacePlan without_expansion(WorkspacePlan plan) {
    if (plan.expand_b) plan.bytes = plan.expand_b->at;  // it is the last part
    plan.expand_b.reset();
    return plan;
}

Geometry after_workspace(const Geometry& g, const WorkspacePlan& plan, const void* workspace) {
    Geometry product = g;
    if (plan.copy_a) product.a = copied_operand(*plan.copy_a, workspace);
    if (plan.copy_b) product.b = copied_operand(*plan.copy_b, workspace);
    if (plan.decode_a) product.a = decoded_operand(*plan.decode_a, workspace);
    if (plan.decode_b) product.b = decoded_operand(*plan.decode_b, workspace);
    if (plan.pack_b) replace_weights(*plan.pack_b, workspace, product.b);
    if (plan.expand_b) product.b = expanded_operand(*plan.expand_b, workspace);
    return product;
}

}  // namespace tilewright
