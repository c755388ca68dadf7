#include "call.h"

#include <tilewright/error.h>

#include <array>
#include <utility>

namespace tilewright::python {
namespace {

constexpr std::array layouts{Layout::nt, Layout::nn, Layout::tn, Layout::tt};
constexpr std::array groupings{Grouping::dense,
                               Grouping::batched,
                               Grouping::m_grouped_indices,
                               Grouping::m_grouped_offsets,
                               Grouping::m_grouped_aligned_offsets,
                               Grouping::m_grouped_masked,
                               Grouping::k_grouped};
constexpr std::array accumulations{Accumulation::promoted, Accumulation::unpromoted};
constexpr std::array arithmetics{Arithmetic::fast, Arithmetic::bit_exact};
constexpr std::array reproducibilities{Reproducibility::repeatable, Reproducibility::invariant};
constexpr std::array backends{Backend::automatic, Backend::cpu, Backend::hopper};

/// The member of `all` whose name is `text`.
template <class All>
auto word(const All& all, std::string_view text, const char* argument) {
    std::string expected;
    for (auto candidate : all) {
        if (name(candidate) == text) return candidate;
        expected += (expected.empty() ? "" : ", ") + std::string(name(candidate));
    }
    refuse(argument, "'" + std::string(text) + "'", "one of " + expected);
}

/// Null for a plain array.
const PreparedOperand* prepared(nb::handle argument) {
    static auto* const type = reinterpret_cast<PyTypeObject*>(nb::type<PreparedOperand>().ptr());
    const bool is_one = PyObject_TypeCheck(argument.ptr(), type) != 0 && nb::inst_ready(argument);
    return is_one ? nb::inst_ptr<PreparedOperand>(argument) : nullptr;
}

/// Values without scales, or what PreparedOperand holds.
Operand operand_of(nb::handle argument, const char* which, std::vector<ArrayView>& arrays) {
    if (const PreparedOperand* known = prepared(argument)) return known->operand;
    arrays.push_back(view(argument, {.operand = which}));
    return {.values = arrays.back().tensor};
}

nb::handle source_of(nb::handle argument) {
    const PreparedOperand* known = prepared(argument);
    return known != nullptr ? nb::handle(known->values.source) : argument;
}

/// Size of dimension `i` counted from the last; 0 where the tensor has no such dimension (validate will say so).
std::int64_t size_from_last(const Tensor& tensor, int i) {
    const int rank = tensor.shape.kept();
    return i < rank ? tensor.shape[rank - 1 - i] : 0;
}

/// D's shape as the operands demand it.
Dims output_shape(const Problem& problem) {
    const Tensor& a = problem.a.values;
    const Tensor& b = problem.b.values;
    const std::int64_t m = size_from_last(a, a_is_transposed(problem.layout) ? 0 : 1);
    const std::int64_t n = size_from_last(b, b_is_transposed(problem.layout) ? 0 : 1);
    switch (problem.groups.grouping) {
        case Grouping::batched:
        case Grouping::m_grouped_masked: return {size_from_last(a, 2), m, n};
        case Grouping::k_grouped: return {size_from_last(problem.groups.sizes, 0), m, n};
        default: return {m, n};
    }
}

/// Rows of no group stay as they are: a new output should not show what memory held before.
bool leaves_rows_unwritten(Grouping grouping) {
    return grouping != Grouping::dense && grouping != Grouping::batched && grouping != Grouping::k_grouped;
}

}  // namespace

OperandRecipe operand_recipe(std::string_view text, const std::string& operand) {
    const std::optional<OperandRecipe> recipe = parse_operand_recipe(text);
    if (recipe && is_accepted(*recipe)) return *recipe;
    refuse(operand, "'" + std::string(text) + "'",
           "a side of a recipe: tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, bf16, f16, f32",
           "or one with its formats written out, such as e5m2.row or 1x128.ue8m0");
}

Format format_word(std::string_view text, const std::string& operand) {
    const std::optional<Format> format = parse_format(text);
    if (format && *format != Format::i32 && *format != Format::i64) return *format;
    refuse(operand, "'" + std::string(text) + "'", "one of e4m3, e5m2, e2m1, ue8m0, ue4m3, bf16, f16, f32");
}

PreparedOperand::PreparedOperand(nb::object values_, std::string_view recipe_, nb::object scales_,
                                 nb::object tensor_scale_)
    : recipe(operand_recipe(recipe_, "recipe")) {
    values = view(values_, {.operand = "values", .format = recipe.values});
    scales = view(scales_, {.operand = "scales", .format = recipe.scales});
    tensor_scale = view(tensor_scale_, {.operand = "tensor_scale", .format = Format::f32});
    operand = {values.tensor, recipe.granularity, scales.tensor, tensor_scale.tensor};
}

Call::Call(const CallArguments& arguments)
    : backend(word(backends, arguments.backend, "backend")), sizes_word_(arguments.sizes_word) {
    problem.layout = word(layouts, arguments.layout, "layout");
    problem.accumulation = word(accumulations, arguments.accumulation, "accumulation");
    const bool old_name = arguments.arithmetic == "hopper";
    problem.arithmetic = old_name ? Arithmetic::bit_exact : word(arithmetics, arguments.arithmetic, "arithmetic");
    problem.reproducibility = word(reproducibilities, arguments.reproducibility, "reproducibility");
    problem.alpha = arguments.alpha;
    problem.expected_m = arguments.expected_m;
    problem.sm_limit = arguments.sm_limit;
    arrays.reserve(5);  // a, b, sizes, d, c
    problem.a = operand_of(arguments.a, "a", arrays);
    problem.b = operand_of(arguments.b, "b", arrays);
    problem.groups.grouping = word(groupings, arguments.grouping, "grouping");
    problem.groups.alignment = arguments.alignment;
    if (!arguments.sizes.is_none()) {
        arrays.push_back(view(arguments.sizes, {.operand = sizes_word_, .integers = true}));
        problem.groups.sizes = arrays.back().tensor;
    }
    make_result(arguments);
    if (!arguments.c.is_none()) {
        arrays.push_back(view(arguments.c, {.operand = "c", .format = problem.d.format, .only_codes = true}));
        problem.c = arrays.back().tensor;
    }
}

Call::~Call() {
    const nb::error_scope kept;
    arrays.clear();
}

void Call::make_result(const CallArguments& arguments) {
    std::optional<Format> format;
    if (arguments.out_dtype) format = format_word(*arguments.out_dtype, "out_dtype");
    own_result_ = arguments.out.is_none();
    result = arguments.out;
    if (own_result_) {
        if (!format) format = Format::bf16;
        const nb::handle like = source_of(arguments.a);
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
    if (!result.is_none()) return;
    refuse("out", "nothing", "an array in memory of cuda:" + std::to_string(problem.d.device.index),
           "make one with your library; only torch's are made here");
}

std::vector<Finding> Call::in_callers_words(const std::vector<Finding>& found) const {
    std::vector<Finding> renamed;
    std::vector<Finding> about_own_result;
    for (Finding finding : found) {
        const std::string& operand = finding.operand;
        const bool about_d = operand == "d" || operand.rfind("d.", 0) == 0;
        if (about_d) finding.operand = "out" + operand.substr(1);
        if (operand == "groups.sizes" && !sizes_word_.empty()) finding.operand = sizes_word_;
        (about_d && own_result_ ? about_own_result : renamed).push_back(std::move(finding));
    }
    return renamed.empty() ? about_own_result : renamed;
}

}  // namespace tilewright::python
