#include "problem/preparation.h"

#include "base/math.h"
#include "formats/packed_layout.h"
#include "problem/axes.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"
#include "problem/workspace.h"

#include <bit>

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

/// The operands that are copied, among those along their rows.
MnMajor copied(const Geometry& g, const MnMajor& order) {
    const CopyAlongK a = copy_of_a(g), b = copy_of_b(g);
    // Recipes with 1x32 scales and fp8 have kernels only for K-major operands.
    const bool by_32 = (g.a.k_block() == 32 || g.b.k_block() == 32) && !g.b.packed.given;
    const bool along_k = is_k_grouped(g.grouping.grouping) || by_32;
    const bool a_along_k = along_k || takes_sizes(g.grouping.grouping) || g.b.packed.given;
    const bool b_along_k = along_k || (!order.a && gains_from_copy(g, b));
    const MnMajor copies{.a = order.a && (a_along_k || !is_loaded(a)), .b = order.b && (b_along_k || !is_loaded(b))};
    if (copies.a || copies.b || !order.a || !order.b) return copies;
    const bool a_is_smaller = a.bytes() <= b.bytes();
    return {.a = a_is_smaller, .b = !a_is_smaller};
}

/// A copy, or a decoded operand.
template <class Part>
void place(std::optional<Part>& part, Preparation& preparation) {
    if (!part) return;
    part->at = preparation.bytes;
    preparation.bytes += round_up<std::int64_t>(part->bytes(), workspace_alignment);
}

OperandGeometry copied_operand(const CopyAlongK& copy, const void* workspace) {
    OperandGeometry operand = copy.from;
    operand.values = in_workspace(workspace, copy.at);
    operand.value_strides = copy.to;
    return operand;
}

bool packs_weights(const Geometry& g) {
    return goes_with_fp4(g.a.recipe, g.b.recipe) && !g.b.packed.given && !is_k_grouped(g.grouping.grouping) &&
           has_codes_along_k(g);
}

/// Whether TMA loads a stride of codes: whole rows of 16 bytes. That of a dimension of one index means nothing.
bool is_loaded_stride(std::int64_t codes, std::int64_t count) {
    return count <= 1 || (codes >= 0 && codes % (2 * hopper_alignment) == 0 && codes / 2 < hopper_stride_limit);
}

/// Whether kernels read the codes of MXFP4 weights in place. Blocks of 32 are whole, so that 16 bytes are one.
bool has_raw_codes(const Geometry& g) {
    const Granularity scales = g.a.recipe.granularity;
    const bool served = is_mxfp4(g.b.recipe) && is_fp8(g.a.recipe.values) && scales != Granularity::block_1x32;
    const bool whole = g.k > 0 && g.k % g.b.k_block() == 0 && g.k <= formats::raw_k_limit;
    const Strides& strides = g.b.value_strides;
    return served && whole && std::bit_cast<std::uintptr_t>(g.b.values) % hopper_alignment == 0 &&
           is_loaded_stride(strides.row, g.n) && (g.n <= 1 || strides.row >= g.k) &&
           is_loaded_stride(strides.group, has_group_dimension_b(g.grouping.grouping) ? g.groups : 1);
}

/// MXFP8 weights with bf16 activations, or with activations that become bf16.
bool decodes_weights(const Geometry& g) {
    const bool mxfp8 = is_fp8(g.b.recipe.values) && g.b.recipe.granularity == Granularity::block_1x32;
    return mxfp8 && is_multiplied_as_bf16(g.a.recipe) && !is_k_grouped(g.grouping.grouping);
}

/// NVFP4 with weights packed for bf16, MXFP4 with weights packed for fp8, and fp8 with NVFP4 weights.
bool decodes_activations(const Geometry& g) {
    const bool fp8 = is_fp8(g.a.recipe.values) && is_nvfp4(g.b.recipe) && goes_with_fp4(g.a.recipe, g.b.recipe);
    const bool served = is_nvfp4(g.a.recipe) || (is_mxfp4(g.a.recipe) && is_mxfp4(g.b.recipe)) || fp8;
    if (is_nvfp4(g.a.recipe) && decodes_weights(g)) return true;
    return served && (g.b.packed.given || packs_weights(g)) && !is_k_grouped(g.grouping.grouping);
}

/// `groups`: 1 for an operand without a group dimension. Scales that stay where they are do not keep a matrix that all
/// groups share from being decoded once.
DecodedOperand decoding_of(const OperandGeometry& from, std::int64_t groups, std::int64_t rows, std::int64_t k) {
    const bool shared = from.value_strides.group == 0 && (from.scale_strides.group == 0 || !is_nvfp4(from.recipe));
    DecodedOperand decoding{.from = from, .matrices = shared && groups > 1 ? 1 : groups, .rows = rows, .k = k};
    decoding.values = is_mxfp4(from.recipe) ? Format::e4m3 : Format::bf16;
    const std::int64_t row = round_up<std::int64_t>(k, hopper_alignment * 8 / bits(decoding.values));
    decoding.to = {.group = shared ? 0 : rows * row, .row = row, .k = 1};
    return decoding;
}

/// The capacity of a masked group may be many times its rows.
DecodedOperand decoding_of_a(const Geometry& g) {
    DecodedOperand decoding = decoding_of(g.a, has_group_dimension_a(g.grouping.grouping) ? g.groups : 1, g.m, g.k);
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

WeightPacking packing_of(const Geometry& g) {
    const bool grouped = has_group_dimension_b(g.grouping.grouping);
    const bool mxfp4 = is_mxfp4(g.b.recipe), as_bf16 = is_multiplied_as_bf16(g.a.recipe);
    const formats::PackedInternal every_call{.windows = mxfp4 && !as_bf16 ? formats::BlockWindows::blocks : 0,
                                             .wide_row = mxfp4 && as_bf16 ? 0 : -1};
    WeightPacking packing{.weights = weights_of(g)};
    packing.packed = {.version = packed_version,
                      .recipe = g.b.recipe,
                      .activations = packed_for(g.a.recipe),
                      .grouped = grouped,
                      .groups = grouped ? g.groups : 1,
                      .n = g.n,
                      .k = g.k,
                      .internal = every_call.words()};
    packing.raw = has_raw_codes(g);
    packing.packed.bytes = packed_sections(packing).kept_at();
    return packing;
}

void place(std::optional<WeightPacking>& packing, Preparation& preparation) {
    if (!packing) return;
    packing->at = preparation.bytes;
    packing->judgements_at = packing->at + packing->packed.bytes;
    const std::int64_t rows = packing->raw ? 0 : packing->packed.groups * packing->packed.n;
    preparation.bytes = packing->judgements_at + round_up<std::int64_t>(rows, workspace_alignment);
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
    if (!packing.raw) b.values = nullptr;
}

}  // namespace

formats::PackedSections packed_sections(const WeightPacking& packing) {
    formats::PackedSections sections = formats::packed_sections(packing.packed);
    sections.has_codes = !packing.raw;
    return sections;
}

Preparation preparation(const Geometry& g) { return preparation(g, expands_weights(g)); }

Preparation preparation(const Geometry& g, bool expands) {
    Preparation result;
    if (decodes_activations(g)) result.decoding = decoding_of_a(g);
    if (decodes_weights(g)) {
        result.decoding_b = decoding_of(g.b, has_group_dimension_b(g.grouping.grouping) ? g.groups : 1, g.n, g.k);
    }
    if (packs_weights(g)) result.packing = packing_of(g);
    if (expands) result.expansion = expansion_of(g);
    const bool of_fp8 = is_fp8(g.b.recipe.values) || g.b.packed.given || result.packing;
    if (is_fp8(g.a.recipe.values) && of_fp8 && !result.decoding) {
        const MnMajor order = mn_major(g);
        const MnMajor copies = result.packing ? MnMajor{.a = order.a} : copied(g, order);
        if (copies.a) result.a = copy_of_a(g);
        if (copies.b) result.b = copy_of_b(g);
    }
    place(result.a, result);
    place(result.b, result);
    place(result.decoding, result);
    place(result.decoding_b, result);
    place(result.packing, result);
    place(result.expansion, result);
    return result;
}

Geometry prepared(const Geometry& g, const Preparation& preparation, const void* workspace) {
    Geometry product = g;
    if (preparation.a) product.a = copied_operand(*preparation.a, workspace);
    if (preparation.b) product.b = copied_operand(*preparation.b, workspace);
    if (preparation.decoding) product.a = decoded_operand(*preparation.decoding, workspace);
    if (preparation.decoding_b) product.b = decoded_operand(*preparation.decoding_b, workspace);
    if (preparation.packing) replace_weights(*preparation.packing, workspace, product.b);
    if (preparation.expansion) product.b = expanded_operand(*preparation.expansion, workspace);
    return product;
}

}  // namespace tilewright
