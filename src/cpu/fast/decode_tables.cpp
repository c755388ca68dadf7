// The values of all codes of formats with eight bits or fewer, for decoders that look them up.
#include "cpu/fast/decode.h"
#include "formats/codec.h"
#include "formats/element.h"

#include <array>

namespace tilewright::cpu {
namespace {

std::array<float, 256> values_of(Format format) {
    std::array<float, 256> values{};
    for (unsigned code = 0; code < values.size(); ++code) {
        switch (format) {
            case Format::ue8m0: values[code] = formats::decode_ue8m0(code); break;
            case Format::ue4m3: values[code] = formats::decode_ue4m3(code); break;
            default: values[code] = formats::decode(formats::fields(format), code); break;
        }
    }
    return values;
}

}  // namespace

const float* code_values(Format format) {
    static const std::array<float, 256> e4m3 = values_of(Format::e4m3);
    static const std::array<float, 256> e5m2 = values_of(Format::e5m2);
    static const std::array<float, 256> e2m1 = values_of(Format::e2m1);
    static const std::array<float, 256> ue8m0 = values_of(Format::ue8m0);
    static const std::array<float, 256> ue4m3 = values_of(Format::ue4m3);
    switch (format) {
        case Format::e4m3: return e4m3.data();
        case Format::e5m2: return e5m2.data();
        case Format::e2m1: return e2m1.data();
        case Format::ue8m0: return ue8m0.data();
        case Format::ue4m3: return ue4m3.data();
        default: return nullptr;
    }
}

}  // namespace tilewright::cpu
