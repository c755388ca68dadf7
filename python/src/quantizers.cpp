#include "quantizers.h"

#include "arguments.h"
#include "formats/convert.h"
#include "operand.h"
#include "unlocked.h"

#include <tilewright/quantize.h>

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

/// Findings of the library in the words of the Python functions.
std::vector<Finding> in_python_words(std::vector<Finding> findings) {
    for (Finding& finding : findings) {
        std::string& operand = finding.operand;
        if (operand.rfind("source", 0) == 0) operand.replace(0, 6, "x");
        for (const std::string prefix : {"options.", "operand."}) {
            if (operand.rfind(prefix, 0) == 0) operand.erase(0, prefix.size());
        }
    }
    return findings;
}

ConversionOptions conversion(nb::handle threads) {
    const std::int64_t count = integer(threads, "threads", 0, std::numeric_limits<int>::max(), "0 stands for all");
    return {.threads = static_cast<int>(count), .cancelled = &signal_arrived};
}

using QuantizedArrays = nb::typed<nb::tuple, nb::object, nb::object, nb::object>;

nb::object made_array(const ArrayView& array) { return array.tensor.given() ? array.source : nb::object(nb::none()); }

QuantizedArrays quantize_array(nb::handle x, nb::handle recipe_word, nb::handle round_up, nb::handle deep_gemm,
                               nb::handle threads) {
    const ConversionOptions how = conversion(threads);
    const OperandRecipe recipe = operand_recipe(recipe_word, "recipe");
    QuantizeOptions options{.recipe = recipe};
    options.round_up = flag(round_up, "round_up");
    options.deep_gemm = flag(deep_gemm, "deep_gemm");
    const ArrayView source = given_view(x, {.operand = "x"});
    const Dims& shape = source.tensor.shape;
    if (shape.rank() < 2 || shape.rank() > 3) refuse("x", to_string(shape), "[rows, k] or [groups, rows, k]");
    if (recipe.values == Format::e2m1 && shape[shape.rank() - 1] % 2 != 0) {
        refuse("x", to_string(shape), "an even last dimension for e2m1, which holds two elements in a byte",
               "pad it with a column of zeros");
    }
    const ArrayView values = fresh(x, shape, recipe.values, "values");
    ArrayView scales;
    ArrayView tensor_scale;
    if (recipe.granularity != Granularity::none) {
        scales = fresh(x, scale_shape(recipe.granularity, shape), recipe.scales, "scales");
    }
    if (recipe.granularity == Granularity::block_1x16) {
        tensor_scale = fresh(x, scale_shape(Granularity::tensor, shape), Format::f32, "tensor_scale");
    }
    const Operand out{values.tensor, recipe.granularity, scales.tensor, tensor_scale.tensor};
    run_unlocked([&] { quantize(source.tensor, options, out, how); }, &in_python_words);
    return nb::make_tuple(made_array(values), made_array(scales), made_array(tensor_scale));
}

nb::object dequantize_operand(nb::handle given, nb::handle dtype, nb::handle threads) {
    const ConversionOptions how = conversion(threads);
    const PreparedOperand* operand = prepared(given, "");
    if (operand == nullptr) refuse("operand", shown(given), "a Quantized");
    const Format format = format_word(dtype, "dtype", {Format::f32, Format::bf16, Format::f16});
    const ArrayView out = fresh(operand->values(), operand->operand().values.shape, format, "dtype");
    run_unlocked([&] { dequantize(operand->operand(), out.tensor, how); }, &in_python_words);
    return out.source;
}

std::int64_t elements(const Tensor& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    return count;
}

/// Memory of the host that holds all elements one after another: what encode and decode read.
ArrayView contiguous_view(nb::handle array, const ArrayRole& role) {
    ArrayView given = given_view(array, role);
    const Tensor& tensor = given.tensor;
    if (tensor.shape.rank() > Dims::capacity) {
        refuse(role.operand, to_string(tensor.shape) + " and " + std::to_string(tensor.shape.rank()) + " dimensions",
               "at most 3 dimensions");
    }
    if (tensor.device.kind != DeviceId::Kind::cpu) {
        refuse(role.operand, "memory of cuda:" + std::to_string(tensor.device.index), "memory of the host",
               "copy it first, e.g. x.cpu()");
    }
    if (elements(tensor) == 0) return given;
    if (tensor.data == nullptr) refuse(role.operand, "a null pointer", "memory for " + to_string(tensor.shape));
    if (tensor.strides != row_major_strides(tensor.format, tensor.shape)) {
        refuse(role.operand, "strides " + to_string(tensor.strides), "rows one after another without gaps",
               "pass a contiguous array, e.g. numpy.ascontiguousarray(x)");
    }
    return given;
}

/// Rows of e2m1 begin at whole bytes, everything else is one run of elements.
template <class RowFunction>
void for_each_run(const Tensor& packed, RowFunction&& function) {
    const std::int64_t all = elements(packed);
    const std::int64_t row = packed.format == Format::e2m1 ? packed.shape[packed.shape.rank() - 1] : all;
    for (std::int64_t i = 0, begin = 0; begin < all; ++i, begin += row) {
        const std::int64_t bytes = (row * bits(packed.format) + 7) / 8;
        function(static_cast<std::byte*>(packed.data) + i * bytes, begin, row);
    }
}

const std::vector<Format>& encoded_formats() {
    static const std::vector<Format> formats{Format::e4m3,  Format::e5m2, Format::e2m1, Format::ue8m0,
                                             Format::ue4m3, Format::bf16, Format::f16,  Format::f32};
    return formats;
}

nb::object encode_array(nb::handle x, nb::handle format_given, nb::handle saturate) {
    const Format format = format_word(format_given, "format", encoded_formats());
    const auto overflow = flag(saturate, "saturate") ? formats::Overflow::saturate : formats::Overflow::propagate;
    const ArrayView source = contiguous_view(x, {.operand = "x", .format = Format::f32});
    const ArrayView out = fresh(x, source.tensor.shape, format, "format");
    const nb::gil_scoped_release unlocked;
    for_each_run(out.tensor, [&](std::byte* to, std::int64_t begin, std::int64_t count) {
        formats::encode(format, static_cast<const float*>(source.tensor.data) + begin, count, to, overflow);
    });
    return out.source;
}

nb::object decode_array(nb::handle codes, nb::handle format_given) {
    std::optional<Format> format;
    if (!format_given.is_none()) format = format_word(format_given, "format", encoded_formats());
    const ArrayView source = contiguous_view(codes, {.operand = "codes", .format = format, .codes = true});
    const ArrayView out = fresh(codes, source.tensor.shape, Format::f32, "codes");
    const nb::gil_scoped_release unlocked;
    for_each_run(source.tensor, [&](const std::byte* from, std::int64_t begin, std::int64_t count) {
        formats::decode(source.tensor.format, from, count, static_cast<float*>(out.tensor.data) + begin);
    });
    return out.source;
}

}  // namespace

void bind_quantizers(nb::module_& m) {
    m.def("quantize", &quantize_array, nb::arg("x").none(), nb::arg("recipe").none(), nb::arg("round_up").none(),
          nb::arg("deep_gemm").none(), nb::arg("threads").none(),
          "New arrays (values, scales or None, tensor_scale or None).");
    m.def("dequantize", &dequantize_operand, nb::arg("operand").none(), nb::arg("dtype").none(),
          nb::arg("threads").none(), "A new array of `dtype`.");
    m.def("encode", &encode_array, nb::arg("x").none(), nb::arg("format").none(), nb::arg("saturate").none(),
          "A new array of codes.");
    m.def("decode", &decode_array, nb::arg("codes").none(), nb::arg("format").none(), "A new array of float32.");
}

}  // namespace tilewright::python
