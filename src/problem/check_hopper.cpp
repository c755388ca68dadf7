// What Hopper kernels ask of formats, grouping, sizes, addresses and strides.
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "formats/packed_layout.h"
#include "problem/canonical_order.h"
#include "problem/checks.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

bool is_served_fp8(const OperandRecipe& side) {
    return is_fp8(side.values) && side.granularity != Granularity::block_1x32;
}

void add_side(const char* operand, const OperandRecipe& side, std::vector<Finding>& findings) {
    if (is_served_fp8(side)) return;
    findings.push_back({.operand = operand,
                        .given = name(side),
                        .expected = std::string("fp8 with tensor, row, 1x128 or 128x128 scales") + for_a_gpu,
                        .advice = std::string("quantize it, or ") + run_on_cpu});
}

void add_groups_of_k(Grouping grouping, std::vector<Finding>& findings) {
    findings.push_back({.operand = "groups.grouping",
                        .given = std::string(name(grouping)),
                        .expected = std::string("a dense, batched or m-grouped call with 1x32 scales") + for_a_gpu,
                        .advice = run_on_cpu});
}

/// fp8, or what it was decoded to.
bool is_mxfp8(const OperandRecipe& side) { return side.granularity == Granularity::block_1x32 && !is_mxfp4(side); }

/// 1x32 scales on a side have kernels next to fp8 with scales of any kind, those of weights next to bf16 and NVFP4 too.
std::vector<Finding> mxfp8_obstacles(const HopperCall& call) {
    std::vector<Finding> findings;
    const auto& [a, b] = call.recipe;
    if (!is_fp8(a.values) && !is_multiplied_as_bf16(a)) {
        findings.push_back(
            {.operand = "a",
             .given = name(a),
             .expected = std::string("bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp8 weights") +
                         for_a_gpu,
             .advice = std::string("quantize it to mxfp8, or ") + run_on_cpu});
    }
    if (is_bf16(a) && call.a_along_m) findings.push_back(bf16_along_m());
    if (!is_mxfp8(b) && !is_fp8(b.values)) {
        findings.push_back({.operand = "b",
                            .given = name(b),
                            .expected = std::string("fp8, mxfp4 or nvfp4 for mxfp8 activations") + for_a_gpu,
                            .advice = run_on_cpu});
    }
    if (is_k_grouped(call.grouping)) add_groups_of_k(call.grouping, findings);
    return findings;
}

bool is_tma_stride(std::int64_t elements, Format format) {
    const std::int64_t limit = hopper_stride_limit * 8 / bits(format);
    return elements < limit && elements * bits(format) / 8 % hopper_alignment == 0;
}

/// Whether TMA loads values with `size` elements in a row of its boxes. Strides of one index mean nothing.
bool loads_along(std::int64_t size, std::int64_t stride, std::int64_t other_size, std::int64_t other_stride,
                 Format format) {
    return (size <= 1 || stride == 1) && (other_size <= 1 || is_tma_stride(other_stride, format));
}

bool is_mn_major(const Strides& strides, std::int64_t rows, std::int64_t k, Format format) {
    // Without any k nothing is read. A contiguous k of one index is along k, so that its strides are judged as others'.
    if (k == 0 || strides.k == 1 || loads_along(k, strides.k, rows, strides.row, format)) return false;
    // What TMA loads in neither order is refused for its strides, in the words of the one that it is nearer to.
    return loads_along(rows, strides.row, k, strides.k, format) || strides.row == 1;
}

}  // namespace

MnMajor mn_major(const Geometry& g) {
    return {.a = is_mn_major(g.a.value_strides, g.m, g.k, g.a.recipe.values),
            .b = is_mn_major(g.b.value_strides, g.n, g.k, g.b.recipe.values)};
}

bool loads_along_rows(const Strides& strides, std::int64_t k, std::int64_t matrices, Format format) {
    return (k <= 1 || is_tma_stride(strides.k, format)) && (matrices <= 1 || is_tma_stride(strides.group, format));
}

bool has_codes_along_k(const Geometry& g) { return g.k == 0 || g.b.value_strides.k == 1; }

WeightKind weight_kind(const PackedGeometry& packed) {
    return packed.given ? WeightKind::packed : WeightKind::ordinary;
}

std::vector<Finding> hopper_obstacles(const HopperCall& call) {
    if (std::optional<std::vector<Finding>> findings = fp4_obstacles(call)) return *std::move(findings);
    if (is_mxfp8(call.recipe.a) || is_mxfp8(call.recipe.b)) return mxfp8_obstacles(call);
    std::vector<Finding> findings;
    add_side("a", call.recipe.a, findings);
    add_side("b", call.recipe.b, findings);
    return findings;
}

namespace validation {
namespace {

OperandRecipe recipe_of(const Operand& operand) {
    return {.values = operand.values.format, .granularity = operand.granularity, .scales = operand.scales.format};
}

bool has_codes_along_k(const Tensor& values, bool transposed) {
    const int rank = values.shape.rank(), k = transposed ? rank - 2 : rank - 1;
    return rank < 2 || !has_sound_strides(values) || values.shape[k] == 0 || values.strides[k] == 1;
}

bool is_along_rows(const Tensor& values, bool transposed) {
    const int rank = values.shape.rank();
    if (rank < 2 || !has_sound_strides(values)) return false;
    const int k = transposed ? rank - 2 : rank - 1, rows = transposed ? rank - 1 : rank - 2;
    const Strides strides{.row = values.strides[rows], .k = values.strides[k]};
    return is_mn_major(strides, values.shape[rows], values.shape[k], values.format);
}

/// Weights that are packed at each call: `packed` are those that were packed before.
void check_packable(const Problem& p, const PackedWeights& packed, Findings& findings) {
    const Tensor& values = p.b.values;
    if (packed.given() || values.format != Format::e2m1 || !has_sound_strides(values)) return;
    const int rank = values.shape.rank();
    if (rank < 2 || rank > 3) return;
    const formats::PackedSections sections{
        .groups = rank == 3 ? values.shape[0] : 1, .n = values.shape[rank - 2], .k = values.shape[rank - 1]};
    if (formats::can_be_counted(sections)) return;
    findings.add({.operand = "b.values",
                  .given = to_string(values.shape),
                  .expected = std::string(formats::countable_words) + for_a_gpu,
                  .advice = "pack them in parts with pack_weights"});
}

void check_sizes(const NamedTensor& named, Findings& findings) {
    for (const std::int64_t size : named.tensor->shape) {
        if (size <= hopper_size_limit) continue;
        findings.add({.operand = std::string(named.name),
                      .given = to_string(named.tensor->shape),
                      .expected = "sizes of at most " + std::to_string(hopper_size_limit) + for_a_gpu,
                      .advice = std::string("split the call, or ") + run_on_cpu});
        return;
    }
}

void check_base(const NamedTensor& named, Findings& findings) {
    const std::uintptr_t rest = std::bit_cast<std::uintptr_t>(named.tensor->data) % hopper_alignment;
    if (rest == 0) return;
    findings.add({.operand = std::string(named.name),
                  .given = "an address that is " + std::to_string(rest) + " modulo 16",
                  .expected = std::string("a multiple of 16") + for_a_gpu,
                  .advice = std::string("copy it to aligned memory, or ") + run_on_cpu});
}

/// Whether kernels load such values by TMA: fp8 that is not decoded before, as it is next to NVFP4 and bf16, and bf16
/// next to weights of FP4 and MXFP8.
bool is_loaded_by_tma(Format format, const Problem& p, const PackedWeights& packed) {
    const bool of_fp4 = packed.given() || p.b.values.format == Format::e2m1;
    const bool of_nvfp4 = (packed.given() ? packed.recipe.granularity : p.b.granularity) == Granularity::block_1x16;
    if (is_fp8(format)) return !of_nvfp4 && !is_multiplied_as_bf16(recipe_of(p.a));
    return (of_fp4 || is_fp8(p.b.values.format)) && format == Format::bf16;
}

/// Values whose last two dimensions are rows and k, in either order. Strides of dimensions of one index mean
/// nothing.
void check_value_strides(const NamedTensor& named, int k, const std::string& rows_letter, Findings& findings) {
    const Tensor& tensor = *named.tensor;
    const int rank = tensor.shape.rank(), rows = 2 * rank - 3 - k;
    const auto along = [&](int i, int other) {
        return loads_along(tensor.shape[i], tensor.strides[i], tensor.shape[other], tensor.strides[other],
                           tensor.format);
    };
    const bool groups = rank < 3 || tensor.shape[0] <= 1 || is_tma_stride(tensor.strides[0], tensor.format);
    const Strides strides{.row = tensor.strides[rows], .k = tensor.strides[k]};
    // What TMA cannot load along its rows is copied before (preparation.h).
    const bool mn_major = is_mn_major(strides, tensor.shape[rows], tensor.shape[k], tensor.format);
    if (mn_major ? tensor.strides[rows] == 1 || along(rows, k) : groups && along(k, rows)) return;
    const auto is_contiguous = [&](int i) { return tensor.shape[i] <= 1 || tensor.strides[i] == 1; };
    std::string expected = "a stride of 1 along k or " + rows_letter;
    if (is_contiguous(k) || is_contiguous(rows)) {
        expected =
            "strides in multiples of 16 bytes below 2^40, except along " + (is_contiguous(k) ? "k" : rows_letter) + ",";
    }
    findings.add({.operand = std::string(named.name) + ".strides",
                  .given = to_string(tensor.strides) + " of " + std::string(name(tensor.format)),
                  .expected = expected + for_a_gpu,
                  .advice = std::string("copy it, or ") + run_on_cpu});
}

}  // namespace

void check_hopper(const Problem& p, const PackedWeights& packed, Check check, Findings& findings) {
    if (p.a.values.given() && p.b.values.given() && p.layout <= Layout::tt) {
        const WeightKind weights = weight_kind({.given = packed.given()});
        const Recipe recipe{recipe_of(p.a), recipe_of(p.b)};
        for (Finding& obstacle : hopper_obstacles({recipe, p.groups.grouping, weights,
                                                   has_codes_along_k(p.b.values, b_is_transposed(p.layout)),
                                                   is_along_rows(p.a.values, a_is_transposed(p.layout))})) {
            findings.add(std::move(obstacle));
        }
    }
    check_packable(p, packed, findings);
    if (p.groups.grouping == Grouping::k_grouped_aligned_offsets && p.groups.alignment % hopper_k_alignment != 0) {
        findings.add({.operand = "groups.alignment",
                      .given = std::to_string(p.groups.alignment),
                      .expected = "a multiple of " + std::to_string(hopper_k_alignment) + for_a_gpu,
                      .advice = run_on_cpu});
    }
    for (const NamedTensor& named : tensors_of(p)) {
        const Tensor& tensor = *named.tensor;
        if (!tensor.given() || !has_sound_strides(tensor)) continue;
        const bool values = &tensor == &p.a.values || &tensor == &p.b.values;
        if (values || &tensor == &p.d) check_sizes(named, findings);
        const int rank = tensor.shape.rank();
        if (!values || p.layout > Layout::tt || is_empty(tensor) || rank < 2) continue;
        if (!is_loaded_by_tma(tensor.format, p, packed)) continue;
        const bool is_a = &tensor == &p.a.values;
        const bool transposed = is_a ? a_is_transposed(p.layout) : b_is_transposed(p.layout);
        if (p.groups.grouping == Grouping::k_grouped_flat && !transposed) continue;
        check_value_strides(named, transposed ? rank - 2 : rank - 1, is_a ? "m" : "n", findings);
    }
    if (check != Check::shapes) check_hopper_addresses(p, packed, findings);
}

void check_hopper_addresses(const Problem& p, const PackedWeights& packed, Findings& findings) {
    const std::uintptr_t rest = std::bit_cast<std::uintptr_t>(packed.data) % hopper_packed_alignment;
    if (packed.given() && rest != 0) {
        findings.add({.operand = "b.packed",
                      .given = "an address that is " + std::to_string(rest) + " modulo 128",
                      .expected = std::string("a multiple of 128") + for_a_gpu,
                      .advice = std::string("copy it to aligned memory, or ") + run_on_cpu});
    }
    for (const NamedTensor& named : {NamedTensor{"a.values", &p.a.values}, NamedTensor{"b.values", &p.b.values}}) {
        const Tensor& tensor = *named.tensor;
        const bool loaded = has_sound_shape(tensor) && !is_empty(tensor) && is_loaded_by_tma(tensor.format, p, packed);
        if (loaded) check_base(named, findings);
    }
}

}  // namespace validation
}  // namespace tilewright
