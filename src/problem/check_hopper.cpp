// What Hopper kernels ask of formats, layout, grouping, sizes, addresses and strides.
#include <bit>
#include <cstdint>
#include <string>

#include "problem/checks.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

constexpr const char* gpu = " for a Hopper GPU";
constexpr const char* use_cpu = "run it on the CPU backend";

void add_side(const char* operand, const OperandRecipe& side, std::vector<Finding>& findings) {
    if (is_fp8(side.values) && side.granularity != Granularity::block_1x32) return;
    findings.push_back({.operand = operand,
                        .given = name(side),
                        .expected = std::string("fp8 with tensor, row, 1x128 or 128x128 scales") + gpu,
                        .advice = use_cpu});
}

/// Sides that are served each on its own may have no kernel together. Pairs that no backend takes are found elsewhere.
void add_pair(const Recipe& recipe, std::vector<Finding>& findings) {
    const Granularity a = recipe.a.granularity;
    const Granularity b = recipe.b.granularity;
    const bool blocks_of_b = a == Granularity::block_1x128 && b == Granularity::block_128x128;
    if (!is_accepted(recipe) || blocks_of_b || (a == b && a != Granularity::block_128x128)) return;
    findings.push_back(
        {.operand = "recipe",
         .given = name(recipe),
         .expected = std::string("tensor:tensor, row:row, 1x128:128x128 or 1x128:1x128") + gpu + " in this version",
         .advice = use_cpu});
}

}  // namespace

std::vector<Finding> hopper_obstacles(const Recipe& recipe, Layout layout, Grouping grouping) {
    std::vector<Finding> findings;
    add_side("a", recipe.a, findings);
    add_side("b", recipe.b, findings);
    if (findings.empty()) add_pair(recipe, findings);
    if (layout != Layout::nt) {
        findings.push_back({.operand = "layout",
                            .given = std::string(name(layout)),
                            .expected = std::string("nt") + gpu,
                            .advice = "store a as [m, k] and b as [n, k], or run it on the CPU backend"});
    }
    if (is_k_grouped(grouping)) {
        findings.push_back({.operand = "groups.grouping",
                            .given = std::string(name(grouping)),
                            .expected = std::string("dense, batched or m_grouped") + gpu + " in this version",
                            .advice = use_cpu});
    }
    return findings;
}

namespace validation {
namespace {

OperandRecipe recipe_of(const Operand& operand) {
    return {.values = operand.values.format, .granularity = operand.granularity, .scales = operand.scales.format};
}

void check_sizes(const NamedTensor& named, Findings& findings) {
    for (const std::int64_t size : named.tensor->shape) {
        if (size <= hopper_size_limit) continue;
        findings.add({.operand = std::string(named.name),
                      .given = to_string(named.tensor->shape),
                      .expected = "sizes of at most " + std::to_string(hopper_size_limit) + gpu,
                      .advice = "compute it in parts, or run it on the CPU backend"});
        return;
    }
}

void check_base(const NamedTensor& named, Findings& findings) {
    const std::uintptr_t rest = std::bit_cast<std::uintptr_t>(named.tensor->data) % hopper_alignment;
    if (rest == 0) return;
    findings.add({.operand = std::string(named.name),
                  .given = "an address that is " + std::to_string(rest) + " modulo 16",
                  .expected = std::string("a multiple of 16") + gpu,
                  .advice = "copy it to aligned memory, or run it on the CPU backend"});
}

/// k is the last dimension. Strides of dimensions of one index mean nothing.
void check_value_strides(const NamedTensor& named, Findings& findings) {
    const Tensor& tensor = *named.tensor;
    const int k = tensor.shape.rank() - 1;
    const std::int64_t bytes = bits(tensor.format) / 8;
    Finding finding{.operand = std::string(named.name) + ".strides",
                    .given = to_string(tensor.strides) + " of " + std::string(name(tensor.format)),
                    .expected = {},
                    .advice = "copy it, or run it on the CPU backend"};
    if (tensor.shape[k] > 1 && tensor.strides[k] != 1) {
        finding.expected = std::string("a stride of 1 along k") + gpu;
        findings.add(finding);
    }
    for (int i = 0; i < k; ++i) {
        if (tensor.shape[i] <= 1) continue;
        const std::int64_t stride = tensor.strides[i] * bytes;
        if (stride % hopper_alignment == 0 && stride < hopper_stride_limit) continue;
        finding.expected = std::string("multiples of 16 bytes below 2^40, k aside,") + gpu;
        findings.add(finding);
        return;
    }
}

}  // namespace

void check_hopper(const Problem& p, Check check, Findings& findings) {
    if (p.a.values.given() && p.b.values.given() && p.layout <= Layout::tt) {
        for (Finding& obstacle : hopper_obstacles({recipe_of(p.a), recipe_of(p.b)}, p.layout, p.groups.grouping)) {
            findings.add(std::move(obstacle));
        }
    }
    for (const NamedTensor& named : tensors_of(p)) {
        const Tensor& tensor = *named.tensor;
        if (!tensor.given() || !has_sound_strides(tensor)) continue;
        const bool values = &tensor == &p.a.values || &tensor == &p.b.values;
        if (values || &tensor == &p.d) check_sizes(named, findings);
        if (!values || p.layout != Layout::nt || is_empty(tensor) || tensor.shape.rank() < 2) continue;
        if (!is_fp8(tensor.format)) continue;
        check_value_strides(named, findings);
    }
    if (check == Check::call) check_hopper_addresses(p, findings);
}

void check_hopper_addresses(const Problem& p, Findings& findings) {
    if (p.layout != Layout::nt) return;
    for (const NamedTensor& named : {NamedTensor{"a.values", &p.a.values}, NamedTensor{"b.values", &p.b.values}}) {
        const Tensor& tensor = *named.tensor;
        if (has_sound_shape(tensor) && !is_empty(tensor) && is_fp8(tensor.format)) check_base(named, findings);
    }
}

}  // namespace validation
}  // namespace tilewright
