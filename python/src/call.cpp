#include "call.h"

#include "callers_words.h"

#include <array>
#include <utility>

namespace tilewright::python {
namespace {

/// Size of dimension `i` counted from the last; 0 where the tensor has no such dimension (`validate` finds that).
std::int64_t size_from_last(const Tensor& tensor, int i) {
    const int rank = tensor.shape.kept();
    return i < rank ? tensor.shape[rank - 1 - i] : 0;
}

/// B's values, or what they would be were they not packed.
Tensor weights_shape(const Problem& problem) {
    if (!problem.b.packed.given()) return problem.b.values;
    return {.shape = problem.b.packed.shape()};
}

/// D's shape as the operands demand it.
Dims output_shape(const Problem& problem) {
    const Tensor& a = problem.a.values;
    const Tensor b = weights_shape(problem);
    const std::int64_t m = size_from_last(a, a_is_transposed(problem.layout) ? 0 : 1);
    const std::int64_t n = size_from_last(b, b_is_transposed(problem.layout) ? 0 : 1);
    switch (problem.groups.grouping) {
        case Grouping::batched:
        case Grouping::m_grouped_masked: return {size_from_last(a, 2), m, n};
        case Grouping::k_grouped:
        case Grouping::k_grouped_aligned_offsets:
        case Grouping::k_grouped_flat: return {size_from_last(problem.groups.sizes, 0), m, n};
        default: return {m, n};
    }
}

/// Whether both operands have the dimensions that give the result's shape, and agree on k. Otherwise the size that B
/// has for n is likely its k. D is then left out, so that messages name only the caller's operands.
bool has_result_shape(const Problem& problem) {
    const bool groups_of_a =
        problem.groups.grouping == Grouping::batched || problem.groups.grouping == Grouping::m_grouped_masked;
    const Tensor& a = problem.a.values;
    const Tensor b = weights_shape(problem);
    if (a.shape.rank() < (groups_of_a ? 3 : 2) || b.shape.rank() < 2) return false;
    return size_from_last(a, a_is_transposed(problem.layout) ? 1 : 0) ==
           size_from_last(b, b_is_transposed(problem.layout) ? 1 : 0);
}

/// Rows of no group stay as they are: a new output must not show earlier contents of its memory.
bool leaves_rows_unwritten(Grouping grouping) {
    return grouping != Grouping::dense && grouping != Grouping::batched && !is_k_grouped(grouping);
}

/// Names of the library that Python's callers know as something else.
constexpr std::array<std::pair<const char*, const char*>, 4> keywords{{{"groups.alignment", "alignment"},
                                                                       {"groups.index_alignment", "index_alignment"},
                                                                       {"groups.grouping", "grouping"},
                                                                       {"b.packed", "b"}}};

}  // namespace

Call::Call(nb::handle a, nb::handle b, const GroupOptions& groups, const CallOptions& options)
    : backend(options.backend), sizes_word_(groups.word) {
    problem.layout = options.layout;
    problem.accumulation = options.accumulation;
    problem.arithmetic = options.arithmetic;
    problem.reproducibility = options.reproducibility;
    problem.alpha = options.alpha;
    problem.expected_m = groups.expected_m;
    problem.sm_limit = options.sm_limit;
    arrays.reserve(6);  // a, b, sizes, d, c, bias
    problem.a = operand_of(a, "a", arrays);
    a_is_array_ = !arrays.empty();
    const std::size_t arrays_of_a = arrays.size();
    problem.b = operand_of(b, "b", arrays);
    b_is_array_ = arrays.size() > arrays_of_a;
    problem.groups.grouping = groups.grouping;
    problem.groups.alignment = groups.alignment;
    problem.groups.index_alignment = groups.index_alignment;
    if (groups.sizes.is_valid()) {
        arrays.push_back(view(groups.sizes, {.operand = sizes_word_, .integers = true}));
        problem.groups.sizes = arrays.back().tensor;
    }
    make_result(a, options);
    if (options.c.is_valid()) {
        arrays.push_back(view(options.c, {.operand = "c", .format = problem.d.format, .only_codes = true}));
        problem.c = arrays.back().tensor;
    }
    if (options.bias.is_valid()) {
        arrays.push_back(view(options.bias, {.operand = "bias", .format = Format::bf16, .only_codes = true}));
        problem.bias = arrays.back().tensor;
    }
}

Call::~Call() {
    const nb::error_scope kept;
    arrays.clear();
}

void Call::make_result(nb::handle a, const CallOptions& options) {
    std::optional<Format> format = options.out_dtype;
    own_result_ = !options.out.is_valid();
    result = own_result_ ? nb::object(nb::none()) : nb::borrow(options.out);
    if (own_result_) {
        if (!format) format = Format::bf16;
        const nb::object like = values_of(a);
        if (!has_result_shape(problem)) return;
        const bool on_gpu = problem.a.values.device.kind == DeviceId::Kind::cuda;
        if (on_gpu && !nb::cast<bool>(arrays_module().attr("is_torch")(like))) {
            problem.d = row_major(static_cast<void*>(nullptr), *format, output_shape(problem));
            problem.d.device = problem.a.values.device;
            return;
        }
        const bool zeros = leaves_rows_unwritten(problem.groups.grouping);
        result = new_array(like, output_shape(problem), *format, zeros);
    }
    arrays.push_back(view(result, {.operand = "out", .writable = true, .format = format}));
    problem.d = arrays.back().tensor;
}

void Call::require_result() const {
    if (!result.is_none() || problem.d.device.kind != DeviceId::Kind::cuda) return;
    refuse("out", "nothing", "an array in memory of cuda:" + std::to_string(problem.d.device.index),
           "allocate it with your library: only torch tensors are allocated for you");
}

std::vector<Finding> Call::in_callers_words(const std::vector<Finding>& found) const {
    std::vector<Finding> renamed;
    std::vector<Finding> about_own_result;
    for (Finding finding : found) {
        name_the_flag(finding);
        const bool about_d = finding.operand == "d" || finding.operand.rfind("d.", 0) == 0;
        if (!sizes_word_.empty()) replace_word(finding, "groups.sizes", sizes_word_);
        replace_word(finding, "d", "out");
        if (a_is_array_) replace_word(finding, "a.values", "a");
        if (b_is_array_) replace_word(finding, "b.values", "b");
        for (const auto& [ours, theirs] : keywords) {
            finding.operand = with_word(std::move(finding.operand), ours, theirs);
        }
        (about_d && own_result_ ? about_own_result : renamed).push_back(std::move(finding));
    }
    return renamed.empty() ? about_own_result : renamed;
}

}  // namespace tilewright::python
