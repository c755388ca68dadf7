// The requirements of Hopper kernels on sizes, addresses and strides. check_gpu_routes.cpp judges operands and groups.
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "formats/packed_layout.h"
#include "formats/recipe_of.h"
#include "problem/checks.h"
#include "problem/gpu_routes.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

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

HopperCall hopper_call(const Geometry& g) {
    return {.recipe = {g.a.recipe, g.b.recipe},
            .grouping = g.grouping.grouping,
            .packed = g.b.packed.given,
            .codes_along_k = has_codes_along_k(g),
            .a_along_m = mn_major(g).a};
}

namespace validation {
namespace {

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

/// Checks weights that each call packs. `packed` are weights that were packed in advance.
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

void check_address(const char* operand, const void* address, std::int64_t alignment, Findings& findings) {
    const auto rest = std::bit_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(alignment);
    if (rest == 0) return;
    const std::string multiple = std::to_string(alignment);
    findings.add({.operand = operand,
                  .given = "an address that is " + std::to_string(rest) + " modulo " + multiple,
                  .expected = "a multiple of " + multiple + for_a_gpu,
                  .advice = std::string("copy it to aligned memory, or ") + run_on_cpu});
}

/// The sides whose values kernels load by TMA from where the caller has them. Nothing is asked of other values.
struct ReadInPlace {
    bool a = false;
    bool b = false;
};

ReadInPlace read_in_place(const Problem& p) {
    const std::optional<GpuRoute> route = gpu_route({recipe_of(p.a), recipe_of(p.b)});
    if (!route) return {};
    return {.a = is_read_in_place(route->a), .b = is_read_in_place(route->b)};
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
    // What TMA cannot load along its rows is copied before (workspace_plan.h).
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
        const Recipe recipe{recipe_of(p.a), recipe_of(p.b)};
        for (Finding& finding : unsupported_on_hopper({recipe, p.groups.grouping, packed.given(),
                                                       has_codes_along_k(p.b.values, b_is_transposed(p.layout)),
                                                       is_along_rows(p.a.values, a_is_transposed(p.layout))})) {
            findings.add(std::move(finding));
        }
    }
    check_packable(p, packed, findings);
    if (p.groups.grouping == Grouping::k_grouped_aligned_offsets && p.groups.alignment % hopper_k_alignment != 0) {
        findings.add({.operand = "groups.alignment",
                      .given = std::to_string(p.groups.alignment),
                      .expected = "a multiple of " + std::to_string(hopper_k_alignment) + for_a_gpu,
                      .advice = run_on_cpu});
    }
    const ReadInPlace in_place = read_in_place(p);
    for (const NamedTensor& named : tensors_of(p)) {
        const Tensor& tensor = *named.tensor;
        if (!tensor.given() || !has_sound_strides(tensor)) continue;
        const bool values = &tensor == &p.a.values || &tensor == &p.b.values;
        if (values || &tensor == &p.d) check_sizes(named, findings);
        const int rank = tensor.shape.rank();
        if (!values || p.layout > Layout::tt || is_empty(tensor) || rank < 2) continue;
        const bool is_a = &tensor == &p.a.values;
        if (!(is_a ? in_place.a : in_place.b)) continue;
        const bool transposed = is_a ? a_is_transposed(p.layout) : b_is_transposed(p.layout);
        if (p.groups.grouping == Grouping::k_grouped_flat && !transposed) continue;
        check_value_strides(named, transposed ? rank - 2 : rank - 1, is_a ? "m" : "n", findings);
    }
    if (check != Check::shapes) check_hopper_addresses(p, packed, findings);
}

void check_hopper_addresses(const Problem& p, const PackedWeights& packed, Findings& findings) {
    if (packed.given()) check_address("b.packed", packed.data, formats::packed_alignment, findings);
    const ReadInPlace in_place = read_in_place(p);
    const auto check = [&](const char* operand, const Tensor& values) {
        if (has_sound_shape(values) && !is_empty(values))
            check_address(operand, values.data, hopper_alignment, findings);
    };
    if (in_place.a) check("a.values", p.a.values);
    if (in_place.b) check("b.values", p.b.values);
}

}  // namespace validation
}  // namespace tilewright
