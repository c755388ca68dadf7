// DLPack's C exchange: tensors of libraries that offer it (torch from 2.9 on) are viewed without a call of Python code.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace tilewright::python {

struct ManagedTensor;

/// A tensor borrowed from its library for the lifetime of this object. Has the interface of nanobind's ndarray.
class BorrowedTensor {
public:
    BorrowedTensor() = default;
    explicit BorrowedTensor(ManagedTensor* lent) : lent_(lent) {}
    BorrowedTensor(BorrowedTensor&& other) noexcept : lent_(std::exchange(other.lent_, nullptr)) {}
    BorrowedTensor& operator=(BorrowedTensor&& other) noexcept {
        std::swap(lent_, other.lent_);
        return *this;
    }
    ~BorrowedTensor();

    bool is_valid() const { return lent_ != nullptr; }
    bool is_read_only() const;
    nanobind::dlpack::dtype dtype() const;
    const void* data() const;
    std::size_t ndim() const;
    std::int64_t shape(std::size_t dimension) const;
    std::int64_t stride(std::size_t dimension) const;  // in elements
    int device_type() const;
    int device_id() const;

private:
    ManagedTensor* lent_ = nullptr;
};

/// Not valid if the type of `array` does not offer the exchange or refuses.
BorrowedTensor borrow(nanobind::handle array);

/// The stream that the library of `array` works on now, on this CUDA device; nothing if its type does not offer that.
std::optional<void*> exchanged_stream(nanobind::handle array, int device);

}  // namespace tilewright::python
