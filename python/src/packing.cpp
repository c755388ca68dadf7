#include "packing.h"

#include "arguments.h"
#include "operand.h"
#include "stream.h"
#include "unlocked.h"

#include <nanobind/stl/string.h>
#include <tilewright/quantize.h>

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace tilewright::python {
namespace {

ConversionOptions conversion(nb::handle threads) {
    const std::int64_t count = integer(threads, "threads", 0, std::numeric_limits<int>::max(), "0 means all");
    return {.threads = static_cast<int>(count), .cancelled = &signal_arrived};
}

std::vector<Finding> as_they_are(const std::vector<Finding>& found) { return found; }

PackedFor packed_for_word(nb::handle given) {
    const std::string expected = "'fp8' or 'bf16'";
    const std::string_view word = text(given, "activations", expected);
    for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
        if (word == name(activations)) return activations;
    }
    refuse("activations", "'" + std::string(word) + "'", expected);
}

const PreparedOperand& operand_argument(nb::handle given, const char* argument, const char* expected,
                                        const char* advice = "") {
    const PreparedOperand* operand = prepared(given, "");
    if (operand == nullptr) refuse(argument, shown(given), expected, advice);
    return *operand;
}

/// A new array of `bytes` uint8 and a writable view of it.
ArrayView new_bytes(nb::handle like, std::int64_t bytes) {
    return view(new_array(like, {bytes}, Format::e2m1, false),
                {.operand = "out", .writable = true, .format = Format::ue8m0});
}

nb::object pack(nb::handle weights, nb::handle activations_word, nb::handle threads, nb::handle stream) {
    ConversionOptions how = conversion(threads);
    const PackedFor activations = packed_for_word(activations_word);
    const PreparedOperand& operand = operand_argument(weights, "weights", "a Quantized",
                                                      "quantize them first: tilewright.quantize(weights, 'mxfp4')");
    std::int64_t bytes = 0;
    run_unlocked([&] { bytes = packed_bytes(operand.operand(), activations); }, as_they_are);
    const ArrayView out = new_bytes(operand.values(), bytes);
    how.stream = stream_of(out, stream);
    run_unlocked([&] { pack_weights(operand.operand(), activations, out.tensor.data, bytes, how); }, as_they_are);
    return out.source;
}

/// A new array like the packed bytes; e2m1 in bytes.
ArrayView fresh(nb::handle like, Dims shape, Format format) {
    const Dims elements = shape;
    if (format == Format::e2m1) shape[shape.rank() - 1] = (shape[shape.rank() - 1] + 1) / 2;
    ArrayView made =
        view(new_array(like, shape, format, false), {.operand = "out", .writable = true, .format = format});
    made.tensor.shape = elements;
    made.tensor.strides = row_major_strides(format, elements);
    return made;
}

using UnpackedArrays = nb::typed<nb::tuple, nb::object, nb::object, nb::object>;

UnpackedArrays unpack(nb::handle given, nb::handle threads) {
    const ConversionOptions how = conversion(threads);
    const PreparedOperand& operand = operand_argument(given, "packed", "PackedWeights");
    const PackedWeights& packed = operand.operand().packed;
    if (!packed.given()) refuse("packed", "a Quantized", "PackedWeights");
    const Dims shape = packed.shape();
    const ArrayView values = fresh(operand.values(), shape, packed.recipe.values);
    const ArrayView scales =
        fresh(operand.values(), scale_shape(packed.recipe.granularity, shape), packed.recipe.scales);
    ArrayView tensor_scale;
    if (packed.tensor_scales != 0) tensor_scale = fresh(operand.values(), {packed.tensor_scales}, Format::f32);
    const Operand out{.values = values.tensor,
                      .granularity = packed.recipe.granularity,
                      .scales = scales.tensor,
                      .tensor_scale = tensor_scale.tensor};
    run_unlocked([&] { unpack_weights(packed, out, how); }, as_they_are);
    const nb::object last = packed.tensor_scales != 0 ? tensor_scale.source : nb::object(nb::none());
    return nb::make_tuple(values.source, scales.source, last);
}

const PackedWeights& packed_of(const PreparedOperand& operand) { return operand.operand().packed; }

nb::bytes header_of(const PreparedOperand& operand) {
    return nb::bytes(operand.header().data(), operand.header().size());
}

}  // namespace

void bind_packing(nb::module_& m) {
    m.def("pack_weights", &pack, nb::arg("weights").none(), nb::arg("activations").none(), nb::arg("threads").none(),
          nb::arg("stream").none(), "A new array of uint8, where the weights are.");
    m.def("unpack_weights", &unpack, nb::arg("packed").none(), nb::arg("threads").none(),
          "New arrays (values, scales, tensor_scale or None).");
    m.def("packed_header", &header_of, nb::arg("packed"), "The header's bytes.");
    m.def(
        "packed_recipe", [](const PreparedOperand& operand) { return name(packed_of(operand).recipe); },
        nb::arg("packed"), "'mxfp4' or 'nvfp4'.");
    m.def(
        "packed_for", [](const PreparedOperand& operand) { return std::string(name(packed_of(operand).activations)); },
        nb::arg("packed"), "'fp8' or 'bf16'.");
    m.def(
        "packed_version", [](const PreparedOperand& operand) { return packed_of(operand).version; }, nb::arg("packed"),
        "Of the layout.");
}

}  // namespace tilewright::python
