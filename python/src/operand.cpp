#include "operand.h"

#include "arguments.h"

#include <iterator>

namespace tilewright::python {
namespace {

/// Null unless `argument` is a PreparedOperand; `is_kept`: of a derived class, Python's Quantized.
PreparedOperand* instance(nb::handle argument, bool& is_kept) {
    static auto* const type = reinterpret_cast<PyTypeObject*>(nb::type<PreparedOperand>().ptr());
    is_kept = Py_TYPE(argument.ptr()) != type;
    const bool is_one = PyObject_TypeCheck(argument.ptr(), type) != 0 && nb::inst_ready(argument);
    return is_one ? nb::inst_ptr<PreparedOperand>(argument) : nullptr;
}

ArrayView view_kept(const nb::object& array, const std::string& operand, std::optional<Format> format) {
    ArrayView kept = view(array, {.operand = operand, .format = format});
    return kept;
}

}  // namespace

PreparedOperand::PreparedOperand(nb::handle values, nb::handle recipe, nb::handle scales, nb::handle tensor_scale)
    : recipe_(operand_recipe(recipe, "recipe")) {
    if (values.is_none()) refuse("values", "None", "an array");
    values_.source = nb::borrow(values);
    scales_.source = nb::borrow(scales);
    tensor_scale_.source = nb::borrow(tensor_scale);
    view_all("");
}

PreparedOperand::PreparedOperand(nb::handle packed, nb::handle header) {
    if (packed.is_none()) refuse("data", "None", "an array of bytes");
    values_.source = nb::borrow(packed);
    if (!header.is_none()) {
        if (!nb::isinstance<nb::bytes>(header)) refuse("header", shown(header), "the bytes of PackedWeights.header");
        const auto bytes = nb::cast<nb::bytes>(header);
        header_.assign(bytes.c_str(), bytes.size());
    }
    view_packed("");
    recipe_ = operand_.packed.recipe;
}

void PreparedOperand::view_packed(const std::string& prefix) {
    values_ = view_kept(nb::object(values_.source), prefix + "data", Format::ue8m0);
    const Tensor& tensor = values_.tensor;
    if (tensor.shape.rank() != 1 || (tensor.shape[0] > 1 && tensor.strides[0] != 1)) {
        refuse(prefix + "data", to_string(tensor.shape) + " with strides " + to_string(tensor.strides),
               "contiguous uint8 [bytes]");
    }
    const bool on_gpu = tensor.device.kind == DeviceId::Kind::cuda;
    if (on_gpu && header_.empty()) {
        refuse(prefix + "header", "None", "the bytes of the header, because the packed weights are on a GPU",
               "pass PackedWeights.header");
    }
    if (header_.empty()) {
        operand_.packed = packed_weights(tensor.data, tensor.shape[0]);
        header_.assign(static_cast<const char*>(tensor.data), static_cast<std::size_t>(packed_header_bytes));
        return;
    }
    if (std::ssize(header_) != packed_header_bytes) {
        refuse(prefix + "header", std::to_string(header_.size()) + " bytes", std::to_string(packed_header_bytes));
    }
    operand_.packed = packed_weights(header_.data(), tensor.data, tensor.shape[0], tensor.device);
}

void PreparedOperand::view_all(const std::string& prefix) {
    if (!header_.empty()) return view_packed(prefix);
    values_ = view_kept(nb::object(values_.source), prefix + "values", recipe_.values);
    scales_ = view_kept(nb::object(scales_.source), prefix + "scales", recipe_.scales);
    tensor_scale_ = view_kept(nb::object(tensor_scale_.source), prefix + "tensor_scale", Format::f32);
    operand_ = {.values = values_.tensor,
                .granularity = recipe_.granularity,
                .scales = scales_.tensor,
                .tensor_scale = tensor_scale_.tensor};
}

void PreparedOperand::follow(const std::string& prefix) {
    if (has_moved(values_) || has_moved(scales_) || has_moved(tensor_scale_)) view_all(prefix);
}

const PreparedOperand* prepared(nb::handle argument, const std::string& prefix) {
    bool is_kept = false;
    PreparedOperand* const operand = instance(argument, is_kept);
    if (operand != nullptr && is_kept) operand->follow(prefix);
    return operand;
}

Operand operand_of(nb::handle argument, const char* which, std::vector<ArrayView>& arrays) {
    if (const PreparedOperand* known = prepared(argument, std::string(which) + ".")) return known->operand();
    if (argument.is_none()) refuse(which, "None", "a Quantized, or an array of bfloat16, float16 or float32");
    arrays.push_back(view(argument, {.operand = which}));
    const Format format = arrays.back().tensor.format;
    if (is_fp8(format)) {
        const std::string word(name(format));
        refuse(which, "an array of " + word, "a Quantized, with the scales of its values",
               "Quantized(array, '" + word + "') multiplies them as they are");
    }
    return {.values = arrays.back().tensor};
}

nb::object values_of(nb::handle argument) {
    bool is_kept = false;
    const PreparedOperand* known = instance(argument, is_kept);
    return known != nullptr ? known->values() : nb::borrow(argument);
}

OperandRecipe operand_recipe(nb::handle value, const char* argument) {
    static const std::string expected =
        "one of tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, bf16, f16, f32, e4m3, e5m2";
    const std::string_view word = text(value, argument, expected);
    const std::optional<OperandRecipe> recipe = parse_operand_recipe(word);
    if (recipe && is_accepted(*recipe)) return *recipe;
    refuse(argument, "'" + std::string(word) + "'", expected,
           "formats can be written out, e.g. e5m2.row or 1x128.ue8m0");
}

}  // namespace tilewright::python
