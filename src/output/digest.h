// 64 bits of bytes that tell whether a file has changed; not against people who want it to look unchanged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright::output {

/// The bytes come in parts of any sizes. Eight bytes are taken at a time: a disk is slower.
class Digest {
public:
    void add(const void* data, std::size_t bytes);
    void add(std::string_view text) { add(text.data(), text.size()); }
    /// 16 hexadecimal digits.
    std::string text() const;

private:
    std::uint64_t hash_ = 0xCBF2'9CE4'8422'2325U;
    std::array<unsigned char, 8> rest_{};  // bytes that wait for a whole word
    std::size_t rest_bytes_ = 0;
    std::uint64_t bytes_ = 0;
};

std::string digest_of(std::string_view text);

}  // namespace tilewright::output
