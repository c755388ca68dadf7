// Encodes and decodes whole arrays with codec.h, so that another implementation can be compared with it.
//
//     formats_codec_tool decode e4m3 < codes > numbers                 codes u32, numbers f32
//     formats_codec_tool encode e4m3 saturate < numbers > codes       or saturate_finite, propagate
#include "formats/codec.h"
#include "formats/element.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace tilewright;
using namespace tilewright::formats;

float decoded(Format format, u32 code) {
    if (format == Format::ue8m0) return decode_ue8m0(code);
    return format == Format::ue4m3 ? decode_ue4m3(code) : decode(fields(format), code);
}

u32 encoded(Format format, float number, Overflow overflow) {
    if (format == Format::ue8m0) return encode_ue8m0(number, Rounding::nearest, overflow);
    return format == Format::ue4m3 ? encode_ue4m3(number, overflow) : encode(fields(format), number, overflow);
}

Overflow parse_overflow(const std::string& word) {
    if (word == "saturate") return Overflow::saturate;
    return word == "propagate" ? Overflow::propagate : Overflow::saturate_finite;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::optional<Format> format = words.size() >= 2 ? parse_format(words[1]) : std::nullopt;
    if (!format || words.size() != (words[0] == "decode" ? 2 : 3)) {
        std::fputs("usage: formats_codec_tool decode FORMAT | encode FORMAT saturate|saturate_finite|propagate\n",
                   stderr);
        return 2;
    }
    std::uint32_t in = 0;
    while (std::fread(&in, sizeof in, 1, stdin) == 1) {
        const bool decodes = words[0] == "decode";
        const std::uint32_t out = decodes ? __builtin_bit_cast(std::uint32_t, decoded(*format, in))
                                          : encoded(*format, __builtin_bit_cast(float, in), parse_overflow(words[2]));
        std::fwrite(&out, sizeof out, 1, stdout);
    }
    return 0;
}
