// Memory for the tensors of a test, poisoned with 0xFF. It is between two guard bands of 4 KiB, which are poisoned too,
// or ends directly at a page that cannot be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tilewright::check {

inline constexpr std::size_t guard_band = 4096;
inline constexpr std::byte poison{0xFF};

class Memory {
public:
    Memory() = default;
    Memory(std::size_t bytes, bool guard_pages);
    ~Memory();
    Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
    Memory& operator=(Memory&& other) noexcept;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::span<std::byte> bytes() const { return {data_, size_}; }
    /// The bytes and the guard bands; where there are guard pages, none follows the bytes.
    std::span<std::byte> with_guards() const { return whole_; }

private:
    void* mapping_ = nullptr;
    std::size_t mapped_ = 0;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::span<std::byte> whole_;
};

/// FNV-1a over words: tells whether bytes have changed.
std::uint64_t hash(std::span<const std::byte> bytes);

}  // namespace tilewright::check
