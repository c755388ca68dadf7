// FNV-1a with 128 bits. It names compiled kernels by their inputs, and finds damaged files. Not for secrets.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright::cuda {

class Digest {
public:
    Digest& add(std::string_view bytes) {
        for (const char byte : bytes) step(static_cast<unsigned char>(byte));
        return *this;
    }
    /// Adds a text with its length, so that "ab", "c" differs from "a", "bc".
    Digest& add_text(std::string_view text) { return add(std::to_string(text.size())).add(":").add(text); }

    /// 32 hexadecimal digits.
    std::string text() const {
        return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(state_ >> 64),
                           static_cast<std::uint64_t>(state_));
    }

private:
    __extension__ using Wide = unsigned __int128;

    // Offset basis and prime of the 128-bit variant (RFC 9923, section 5).
    static constexpr Wide basis = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
    static constexpr Wide prime = (Wide{1} << 88) | 0x13b;

    void step(unsigned char byte) { state_ = (state_ ^ byte) * prime; }

    Wide state_ = basis;
};

}  // namespace tilewright::cuda
