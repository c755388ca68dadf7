#include "output/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilewright::output {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15U;  // an odd number: no two words give one hash
    return hash ^ hash >> 29;
}

}  // namespace

void Digest::add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    bytes_ += bytes;
    while (bytes > 0) {
        if (rest_bytes_ == 0 && bytes >= rest_.size()) {
            std::uint64_t word = 0;
            for (; bytes >= sizeof word; bytes -= sizeof word, from += sizeof word) {
                std::memcpy(&word, from, sizeof word);
                hash_ = mixed(hash_, word);
            }
            continue;
        }
        const std::size_t taken = std::min(bytes, rest_.size() - rest_bytes_);
        std::memcpy(rest_.data() + rest_bytes_, from, taken);
        from += taken;
        bytes -= taken;
        rest_bytes_ += taken;
        if (rest_bytes_ < rest_.size()) continue;
        std::uint64_t word = 0;
        std::memcpy(&word, rest_.data(), sizeof word);
        hash_ = mixed(hash_, word);
        rest_bytes_ = 0;
    }
}

std::string Digest::text() const {
    std::uint64_t word = 0;
    std::memcpy(&word, rest_.data(), rest_bytes_);
    return fmt::format("{:016x}", mixed(mixed(hash_, word), bytes_));
}

std::string digest_of(std::string_view text) {
    Digest digest;
    digest.add(text);
    return digest.text();
}

}  // namespace tilewright::output
