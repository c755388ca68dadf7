#include "quantizers.h"

#include "call.h"
#include "formats/convert.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <tilewright/error.h>
#include <tilewright/quantize.h>

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

/// Runs `work` without the interpreter's lock; what it finds is said in the words of the Python functions.
template <class Work>
void run_unlocked(Work&& work) {
    try {
        const nb::gil_scoped_release unlocked;
        work();
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        std::vector<Finding> findings = error.findings();
        for (Finding& finding : findings) {
            std::string& operand = finding.operand;
            if (operand.rfind("source", 0) == 0) operand.replace(0, 6, "x");
            for (const std::string prefix : {"options.", "operand."}) {
                if (operand.rfind(prefix, 0) == 0) operand.erase(0, prefix.size());
            }
        }
        throw Error(std::move(findings));
    }
}

using QuantizedArrays = nb::typed<nb::tuple, nb::object, nb::object, nb::object>;

nb::object made_array(const ArrayView& array) { return array.tensor.given() ? array.source : nb::object(nb::none()); }

QuantizedArrays quantize_array(nb::object x, std::string_view recipe_text, bool round_up, bool deep_gemm) {
    const OperandRecipe recipe = operand_recipe(recipe_text, "recipe");
    const ArrayView source = view(x, {.operand = "x"});
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
    run_unlocked([&] {
        quantize(source.tensor, {.recipe = recipe, .round_up = round_up, .deep_gemm = deep_gemm},
                 {values.tensor, recipe.granularity, scales.tensor, tensor_scale.tensor});
    });
    return nb::make_tuple(made_array(values), made_array(scales), made_array(tensor_scale));
}

nb::object dequantize_operand(const PreparedOperand& operand, std::string_view format_text) {
    const ArrayView out =
        fresh(operand.values.source, operand.operand.values.shape, format_word(format_text, "dtype"), "dtype");
    run_unlocked([&] { dequantize(operand.operand, out.tensor); });
    return out.source;
}

void expect_row_major(const Tensor& tensor, const char* operand) {
    if (tensor.strides == row_major_strides(tensor.format, tensor.shape)) return;
    refuse(operand, "strides " + to_string(tensor.strides), "rows one after another without gaps",
           "pass a contiguous array, e.g. numpy.ascontiguousarray(x)");
}

std::int64_t elements(const Tensor& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    return count;
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

nb::object encode_array(nb::object x, std::string_view format_text, bool saturate) {
    const Format format = format_word(format_text, "format");
    const ArrayView source = view(x, {.operand = "x", .format = Format::f32});
    if (source.tensor.shape.rank() > Dims::capacity)
        refuse("x", to_string(source.tensor.shape), "at most 3 dimensions");
    expect_row_major(source.tensor, "x");
    const ArrayView out = fresh(x, source.tensor.shape, format, "format");
    const auto overflow = saturate ? formats::Overflow::saturate : formats::Overflow::propagate;
    const nb::gil_scoped_release unlocked;
    for_each_run(out.tensor, [&](std::byte* to, std::int64_t begin, std::int64_t count) {
        formats::encode(format, static_cast<const float*>(source.tensor.data) + begin, count, to, overflow);
    });
    return out.source;
}

nb::object decode_array(nb::object codes, std::optional<std::string_view> format_text) {
    std::optional<Format> format;
    if (format_text) format = format_word(*format_text, "format");
    const ArrayView source = view(codes, {.operand = "codes", .format = format});
    if (source.tensor.shape.rank() > Dims::capacity) {
        refuse("codes", to_string(source.tensor.shape), "at most 3 dimensions");
    }
    expect_row_major(source.tensor, "codes");
    const ArrayView out = fresh(codes, source.tensor.shape, Format::f32, "codes");
    const nb::gil_scoped_release unlocked;
    for_each_run(source.tensor, [&](const std::byte* from, std::int64_t begin, std::int64_t count) {
        formats::decode(source.tensor.format, from, count, static_cast<float*>(out.tensor.data) + begin);
    });
    return out.source;
}

}  // namespace

void bind_quantizers(nb::module_& m) {
    m.def("quantize", &quantize_array, nb::arg("x"), nb::arg("recipe"), nb::arg("round_up"), nb::arg("deep_gemm"),
          "New arrays (values, scales or None, tensor_scale or None).");
    m.def("dequantize", &dequantize_operand, nb::arg("operand"), nb::arg("dtype"), "A new array of `dtype`.");
    m.def("encode", &encode_array, nb::arg("x"), nb::arg("format"), nb::arg("saturate"), "A new array of codes.");
    m.def("decode", &decode_array, nb::arg("codes"), nb::arg("format").none(), "A new array of float32.");
}

}  // namespace tilewright::python
