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

/// The exchange of a type that is never unloaded.
class KeptExchange {
public:
    explicit KeptExchange(nanobind::handle type);

    /// Whether tensors can be looked at and bytes allocated.
    bool is_offered() const;

    /// DLTensor: a tensor as its library describes it at this moment. Whoever changes the tensor ends the description.
    struct Description {
        char* data = nullptr;
        std::int32_t device_type = 0;
        std::int32_t device_id = 0;
        std::int32_t dimensions = 0;
        nanobind::dlpack::dtype type{};
        std::int64_t* shape = nullptr;
        std::int64_t* strides = nullptr;  // null: rows one after another
        std::uint64_t byte_offset = 0;

        void* address() const { return data + byte_offset; }
    };

    /// False if the library refuses.
    bool look_at(nanobind::handle array, Description& out) const;
    /// New memory on that device. Needs no lock of the interpreter. Not valid where the library has no memory.
    BorrowedTensor bytes(std::int64_t count, std::int32_t device_type, std::int32_t device) const;
    /// The stream that the library works on now, on this CUDA device. Throws where it cannot say.
    void* stream(int device) const;

private:
    const struct Exchange* exchange_ = nullptr;
};

/// The stream that the library of `array` works on now, on this CUDA device; nothing if its type does not offer that.
std::optional<void*> exchanged_stream(nanobind::handle array, int device);

}  // namespace tilewright::python
