#include "quantizers.h"

#include "arguments.h"
#include "element_type.h"
#include "operand.h"
#include "stream.h"
#include "unlocked.h"

#include <tilewright/quantize.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::python {
namespace {

/// A new array of `shape` elements (`shape` of bytes for e2m1, which Python sees packed) and a writable view of it.
ArrayView fresh(nb::handle like, Dims shape, Format format, const char* operand) {
    const Dims elements = shape;
    if (format == Format::e2m1) shape[shape.rank() - 1] = (shape[shape.rank() - 1] + 1) / 2;
    ArrayView made =
        view(new_array(like, shape, format, false), {.operand = operand, .writable = true, .format = format});
    made.tensor.shape = elements;
    return made;
}

/// An array; None is none here.
ArrayView given_view(nb::handle array, const ArrayRole& role) {
    if (array.is_none()) refuse(role.operand, "None", "an array");
    return view(array, role);
}

/// Findings of the library in the words of the Python functions, without complaints about the new arrays. source: the
/// argument that is read.
std::vector<Finding> in_python_words(std::vector<Finding> findings, const std::string& source) {
    const auto about_result = [](const Finding& finding) { return finding.operand.rfind("out", 0) == 0; };
    if (!std::all_of(findings.begin(), findings.end(), about_result)) std::erase_if(findings, about_result);
    for (Finding& finding : findings) {
        std::string& operand = finding.operand;
        if (operand.rfind("source", 0) == 0) operand.replace(0, 6, source);
        for (const std::string prefix : {"options.", "operand."}) {
            if (operand.rfind(prefix, 0) == 0) operand.erase(0, prefix.size());
        }
    }
    return findings;
}

ConversionOptions conversion(nb::handle threads) {
    const std::int64_t count = integer(threads, "threads", 0, std::numeric_limits<int>::max(), "0 means all");
    return {.threads = static_cast<int>(count), .cancelled = &signal_arrived};
}

using QuantizedArrays = nb::typed<nb::tuple, nb::object, nb::object, nb::object>;

nb::object made_array(const ArrayView& array) { return array.tensor.given() ? array.source : nb::object(nb::none()); }

QuantizedArrays quantize_array(nb::handle x, nb::handle recipe_word, nb::handle round_up, nb::handle deep_gemm,
                               nb::handle threads, nb::handle stream) {
    ConversionOptions how = conversion(threads);
    const OperandRecipe recipe = operand_recipe(recipe_word, "recipe");
    QuantizeOptions options{.recipe = recipe};
    options.round_up = flag(round_up, "round_up");
    options.deep_gemm = flag(deep_gemm, "deep_gemm");
    const ArrayView source = given_view(x, {.operand = "x"});
    const Dims& shape = source.tensor.shape;
    if (shape.rank() < 2 || shape.rank() > 3) refuse("x", to_string(shape), "[rows, k] or [groups, rows, k]");
    if (recipe.values == Format::e2m1 && shape[shape.rank() - 1] % 2 != 0) {
        refuse("x", to_string(shape), "an even last dimension, because e2m1 stores two elements per byte",
               "pad it with a column of zeros");
    }
    how.stream = stream_of(source, stream);
    const ArrayView values = fresh(x, shape, recipe.values, "values");
    ArrayView scales;
    ArrayView tensor_scale;
    if (recipe.granularity != Granularity::none) {
        scales = fresh(x, scale_shape(recipe.granularity, shape), recipe.scales, "scales");
    }
    if (recipe.granularity == Granularity::block_1x16) {
        tensor_scale = fresh(x, scale_shape(Granularity::tensor, shape), Format::f32, "tensor_scale");
    }
    const Operand out{.values = values.tensor,
                      .granularity = recipe.granularity,
                      .scales = scales.tensor,
                      .tensor_scale = tensor_scale.tensor};
    run_unlocked([&] { quantize(source.tensor, options, out, how); },
                 [](const std::vector<Finding>& found) { return in_python_words(found, "x"); });
    return nb::make_tuple(made_array(values), made_array(scales), made_array(tensor_scale));
}

nb::object dequantize_operand(nb::handle given, nb::handle dtype, nb::handle threads) {
    const ConversionOptions how = conversion(threads);
    const PreparedOperand* operand = prepared(given, "");
    if (operand == nullptr) refuse("operand", shown(given), "a Quantized");
    if (operand->operand().packed.given()) refuse("operand", "PackedWeights", "a Quantized", "unpack it first");
    const Format format = output_format(dtype, "dtype");
    const ArrayView out = fresh(operand->values(), operand->operand().values.shape, format, "dtype");
    run_unlocked([&] { dequantize(operand->operand(), out.tensor, how); },
                 [](const std::vector<Finding>& found) { return in_python_words(found, "x"); });
    return out.source;
}

const std::vector<Format>& encoded_formats() {
    static const std::vector<Format> formats{Format::e4m3,  Format::e5m2, Format::e2m1, Format::ue8m0,
                                             Format::ue4m3, Format::bf16, Format::f16,  Format::f32};
    return formats;
}

nb::object encode_array(nb::handle x, nb::handle format_given, nb::handle saturate) {
    const Format format = format_word(format_given, "format", encoded_formats());
    const bool saturates = flag(saturate, "saturate");
    const ArrayView source = given_view(x, {.operand = "x", .format = Format::f32});
    const ArrayView out = fresh(x, source.tensor.shape, format, "format");
    run_unlocked([&] { encode(source.tensor, out.tensor, saturates, {.cancelled = &signal_arrived}); },
                 [](const std::vector<Finding>& found) { return in_python_words(found, "x"); });
    return out.source;
}

nb::object decode_array(nb::handle codes, nb::handle format_given) {
    std::optional<Format> format;
    if (!format_given.is_none()) format = format_word(format_given, "format", encoded_formats());
    const ArrayView source = given_view(codes, {.operand = "codes", .format = format, .codes = true});
    const ArrayView out = fresh(codes, source.tensor.shape, Format::f32, "codes");
    run_unlocked([&] { decode(source.tensor, out.tensor, {.cancelled = &signal_arrived}); },
                 [](const std::vector<Finding>& found) { return in_python_words(found, "codes"); });
    return out.source;
}

}  // namespace

void bind_quantizers(nb::module_& m) {
    m.def("quantize", &quantize_array, nb::arg("x").none(), nb::arg("recipe").none(), nb::arg("round_up").none(),
          nb::arg("deep_gemm").none(), nb::arg("threads").none(), nb::arg("stream").none(),
          "New arrays (values, scales or None, tensor_scale or None).");
    m.def("dequantize", &dequantize_operand, nb::arg("operand").none(), nb::arg("dtype").none(),
          nb::arg("threads").none(), "A new array of `dtype`.");
    m.def("encode", &encode_array, nb::arg("x").none(), nb::arg("format").none(), nb::arg("saturate").none(),
          "A new array of codes.");
    m.def("decode", &decode_array, nb::arg("codes").none(), nb::arg("format").none(), "A new array of float32.");
}

}  // namespace tilewright::python
