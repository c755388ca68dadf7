// The number formats of tensor elements: meaning, bits per element, name. src/formats encodes and decodes single
// elements; quantize.h quantizes whole matrices.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

enum class Format : std::uint8_t {
    e4m3,   // OCP FP8 E4M3 "fn": no infinity, NaN is 0x7F and 0xFF, largest 448.
    e5m2,   // OCP FP8 E5M2: IEEE-like, largest 57344.
    e2m1,   // OCP FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6; two per byte, low nibble first.
    ue8m0,  // OCP MX scale: a power of two, 2^(code - 127); 255 is NaN.
    ue4m3,  // NVFP4 scale: E4M3 without a sign; 0x7F is NaN.
    bf16,
    f16,
    f32,
    i32,  // group indices, offsets and counts
    i64,
};

/// Bits per element.
constexpr int bits(Format format) {
    switch (format) {
        case Format::e2m1: return 4;
        case Format::e4m3:
        case Format::e5m2:
        case Format::ue8m0:
        case Format::ue4m3: return 8;
        case Format::bf16:
        case Format::f16: return 16;
        case Format::f32:
        case Format::i32: return 32;
        case Format::i64: return 64;
    }
    return 0;
}

constexpr bool is_fp8(Format format) { return format == Format::e4m3 || format == Format::e5m2; }

/// "e4m3", "bf16", ...: the spelling of the command line, Python and error messages.
std::string_view name(Format format);

/// The inverse of `name`; nothing for an unknown name.
std::optional<Format> parse_format(std::string_view text);

}  // namespace tilewright
