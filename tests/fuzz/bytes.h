// Decisions out of a string of bytes, so that a fuzzer that changes bytes changes decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace tilewright::fuzz {

class Bytes {
public:
    explicit Bytes(std::span<const std::uint8_t> data) : data_(data) {}

    /// 0 .. limit, both included; 0 once the bytes are used up.
    std::int64_t up_to(std::int64_t limit) {
        std::uint64_t value = 0;
        for (std::int64_t covered = 0; covered < limit; covered = covered * 256 + 255) value = value * 256 + next();
        return limit <= 0 ? 0 : static_cast<std::int64_t>(value % (static_cast<std::uint64_t>(limit) + 1));
    }
    std::int64_t between(std::int64_t low, std::int64_t high) { return low + up_to(high - low); }
    /// True in one of `times` cases.
    bool one_in(std::int64_t times) { return up_to(times - 1) == times - 1; }
    std::uint64_t word() {
        std::uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value = value << 8 | next();
        return value;
    }
    template <class Value>
    Value pick(std::initializer_list<Value> values) {
        return values.begin()[up_to(static_cast<std::int64_t>(values.size()) - 1)];
    }

private:
    std::uint8_t next() { return at_ < data_.size() ? data_[at_++] : 0; }

    std::span<const std::uint8_t> data_;
    std::size_t at_ = 0;
};

}  // namespace tilewright::fuzz
