// Python arrays as tensors, without a copy: any array with DLPack (numpy, torch, ...) or the buffer protocol.
#pragma once

#include "exchange.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <tilewright/problem.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::python {

namespace nb = nanobind;

/// The part of an array in a call.
struct ArrayRole {
    std::string operand;  // as messages name it: "b.scales"
    bool writable = false;
    /// The format of the elements. Needed where the dtype does not name it: bytes that hold fp8, packed e2m1 or scales,
    /// and 16-bit words that hold bf16 or f16.
    std::optional<Format> format{};
    bool only_codes = false;  // `format` is for such codes only. Arrays that name another format keep it
    bool integers = false;    // int32 or int64
    bool codes = false;       // any format; an array whose dtype names none needs `format`
};

/// A tensor and what keeps its memory where it is.
struct ArrayView {
    Tensor tensor{};
    nb::object source{};        // the caller's array
    bool is_torch = false;      // whose storage may be freed and moved
    BorrowedTensor borrowed{};  // one of these three holds the memory
    nb::ndarray<nb::ro> readable{};
    nb::ndarray<> writable{};
};

/// tilewright._arrays, which has the facts about array libraries. Never released: the interpreter may be gone by then.
nb::handle arrays_module();

/// Memory by its address, for libraries without a protocol; the caller keeps it alive.
struct RawArray {
    RawArray(nb::handle address, nb::handle shape, nb::handle format, nb::handle strides, nb::handle device);

    Tensor tensor{};
};

/// The exact types torch.Tensor and torch.nn.Parameter. Subclasses may lack memory, and some of them warn when they are
/// asked for it.
bool is_usual_tensor(nb::handle array);

/// Throws Error with a finding about role.operand if `array` is not an array, has elements of another kind, or is
/// read-only but has to be written. None gives a tensor that is not given. A zero-dimensional array becomes [1].
ArrayView view(nb::handle array, const ArrayRole& role);

/// Whether torch has freed the memory that was viewed, or moved it: `untyped_storage().resize_(0)`, as FSDP does it.
/// Never for other libraries.
bool has_moved(const ArrayView& view);

/// From now on arrays of this `dtype` hold `format` and are read through `array.view(carrier)`. This is for element
/// types that neither DLPack nor the buffer protocol can name. An empty format: arrays of the dtype are not accepted.
void register_dtype(nb::object dtype, const std::string& format, nb::object carrier);

/// A new tensor of torch; sizes and strides are tuples.
nb::object new_tensor(nb::handle sizes, nb::handle strides, Format format, nb::handle device);

/// A new array [shape] of the library that `like` comes from (numpy or torch), zeros if asked for; of torch on its
/// device.
nb::object new_array(nb::handle like, const Dims& shape, Format format, bool zeros);

}  // namespace tilewright::python
