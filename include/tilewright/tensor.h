// A view of memory: pointer, element format, shape and strides. Owns nothing.
#pragma once

#include <tilewright/formats.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tilewright {

/// Up to three sizes or strides; a vector without an allocation.
class Dims {
public:
    static constexpr int capacity = 3;

    constexpr Dims() = default;
    constexpr Dims(std::initializer_list<std::int64_t> values) {
        for (std::int64_t value : values) push_back(value);
    }

    /// Values beyond the capacity are counted in `rank` but not stored, so that validation can report them.
    constexpr void push_back(std::int64_t value) {
        if (rank_ < capacity) values_[rank_] = value;
        ++rank_;
    }
    constexpr int rank() const { return rank_; }
    constexpr int kept() const { return rank_ < capacity ? rank_ : capacity; }
    constexpr std::int64_t operator[](int i) const { return values_[i]; }
    constexpr std::int64_t& operator[](int i) { return values_[i]; }
    constexpr const std::int64_t* begin() const { return values_.data(); }
    constexpr const std::int64_t* end() const { return values_.data() + kept(); }
    constexpr bool operator==(const Dims&) const = default;

private:
    std::array<std::int64_t, capacity> values_{};
    int rank_ = 0;
};

/// "[4096, 7168]"
std::string to_string(const Dims& dims);

/// Where the memory is.
struct DeviceId {
    enum class Kind : std::uint8_t { cpu, cuda };
    Kind kind = Kind::cpu;
    int index = 0;
    constexpr bool operator==(const DeviceId&) const = default;
};

/// A strided view of memory. `data` may be null if the view is empty.
///
/// - Shape and strides count elements, not bytes. For e2m1 the dimension of stride 1 is the packed one: two elements
///   per byte, the even index in the low nibble. Its size and all other strides are even.
/// - Strides are never negative. Zero repeats an element, only in tensors that are read. Strides of dimensions of size
///   1 are ignored.
struct Tensor {
    void* data = nullptr;
    Format format = Format::f32;
    Dims shape{};
    Dims strides{};
    DeviceId device{};

    /// False for a default-constructed tensor, which means "not given".
    constexpr bool given() const { return shape.rank() > 0; }
};

/// Row-major strides without gaps. For e2m1 with an odd last dimension rows are rounded up to whole bytes.
Dims row_major_strides(Format format, const Dims& shape);

/// A row-major view of `data`; const data is for operands that are only read.
Tensor row_major(void* data, Format format, const Dims& shape);
Tensor row_major(const void* data, Format format, const Dims& shape);

/// Bytes of a row-major tensor of this format and shape. Each row of e2m1 is rounded up to whole bytes.
std::int64_t row_major_bytes(Format format, const Dims& shape);

}  // namespace tilewright
