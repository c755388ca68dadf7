// The state of torch and its tensors, asked for in few nanoseconds.
#pragma once

#include "array.h"

#include <array>
#include <cstdint>

namespace tilewright::python {

/// Sizes of a tensor of torch, which may have more dimensions than a call of the library.
struct Sizes {
    static constexpr int capacity = 8;
    std::array<std::int64_t, capacity> values{};
    int count = 0;

    std::int64_t& last() { return values.at(static_cast<std::size_t>(count - 1)); }
    nb::object tuple() const;
    Sizes row_major_strides() const;
    bool operator==(const Sizes&) const = default;
};

/// A tensor as a call takes it. It holds no reference.
struct SeenTensor {
    Tensor tensor{};
    Sizes sizes{};  // also of the leading dimensions that are rows of `tensor`
};

/// Describes a tensor of torch; for None nothing is given. False for all that needs a closer look: subclasses, other
/// devices, negated values, no memory, no elements, an element type without a format. Bytes are ue8m0.
bool see(nb::handle array, SeenTensor& out);

/// `see`, as a matrix: all dimensions but the last are rows. False also where strides do not allow that.
bool see_matrix(nb::handle array, SeenTensor& out);

/// The address of a new tensor of torch.
void* torch_address(nb::handle tensor);

/// Whether only torch's own functions see operators now: no mode, no transform, no tracer, no forward-mode gradient.
/// False for versions of torch that do not say so, or do not lend tensors. torch.compile never calls this.
bool torch_is_unobserved();
bool torch_records_gradients();
bool requires_gradient(nb::handle tensor);

/// The stream that torch works on now, on this CUDA device.
void* torch_stream(int device);

/// New bytes of torch's allocator, without an object of Python. Needs no lock of the interpreter. The result is not
/// valid where there is no memory.
BorrowedTensor torch_bytes(std::int64_t count, DeviceId device);

}  // namespace tilewright::python
