#include "formats/convert.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tilewright::formats {
namespace {

constexpr std::uint32_t canonical_nan = 0x7FFF'FFFFU;

// ---- decoding ----

template <class Decoder>
constexpr std::array<float, 256> table(Decoder decoder) {
    std::array<float, 256> values{};
    for (std::uint32_t code = 0; code < 256; ++code) values[code] = decoder(code);
    return values;
}

constexpr auto e4m3_values = table([](u32 code) { return decode(e4m3_fields, code); });
constexpr auto e5m2_values = table([](u32 code) { return decode(e5m2_fields, code); });
constexpr auto ue8m0_values = table(decode_ue8m0);
constexpr auto ue4m3_values = table(decode_ue4m3);

struct Pair {
    float first;
    float second;
};

constexpr auto e2m1_values = [] {
    std::array<Pair, 256> pairs{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        pairs[byte] = {decode(e2m1_fields, first_e2m1(byte)), decode(e2m1_fields, second_e2m1(byte))};
    }
    return pairs;
}();

void look_up(const std::array<float, 256>& values, const void* source, std::int64_t count, float* out) {
    const auto* codes = static_cast<const std::uint8_t*>(source);
    for (std::int64_t i = 0; i < count; ++i) out[i] = values[codes[i]];
}

void decode_e2m1(const void* source, std::int64_t count, float* out) {
    const auto* bytes = static_cast<const std::uint8_t*>(source);
    for (std::int64_t i = 0; i < count / 2; ++i) std::memcpy(out + 2 * i, &e2m1_values[bytes[i]], sizeof(Pair));
    if (count % 2 != 0) out[count - 1] = e2m1_values[bytes[count / 2]].first;
}

float with_canonical_nan(std::uint32_t bits) {
    return __builtin_bit_cast(float, (bits & 0x7FFF'FFFFU) > 0x7F80'0000U ? canonical_nan : bits);
}

void decode_bf16(const void* source, std::int64_t count, float* out) {
    const auto* codes = static_cast<const std::uint16_t*>(source);
    for (std::int64_t i = 0; i < count; ++i) out[i] = with_canonical_nan(std::uint32_t{codes[i]} << 16);
}

void decode_f16(const void* source, std::int64_t count, float* out) {
    const auto* codes = static_cast<const std::uint16_t*>(source);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t magnitude = codes[i] & 0x7FFF;
        const std::uint32_t sign = std::uint32_t{codes[i]} >> 15 << 31;
        const float subnormal = static_cast<float>(magnitude) * power_of_two(-24);
        const std::int32_t normal = (magnitude << 13) + ((127 - 15) << 23);
        const std::int32_t finite = select(magnitude < 0x0400, __builtin_bit_cast(std::int32_t, subnormal), normal);
        const auto number = select(magnitude == 0x7C00, 0x7F80'0000, finite) | std::int32_t(sign);
        out[i] = __builtin_bit_cast(float, select(magnitude > 0x7C00, std::int32_t{canonical_nan}, number));
    }
}

void decode_f32(const void* source, std::int64_t count, float* out) {
    const auto* codes = static_cast<const std::uint32_t*>(source);
    for (std::int64_t i = 0; i < count; ++i) out[i] = with_canonical_nan(codes[i]);
}

// ---- encoding ----

template <Fields f, Overflow overflow, class Code>
void encode_with(const float* source, std::int64_t count, Code* codes) {
    for (std::int64_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(encode_f32<f, overflow>(source[i]));
}

template <Fields f, class Code>
void encode_fields(const float* source, std::int64_t count, void* out, Overflow overflow) {
    auto* codes = static_cast<Code*>(out);
    switch (overflow) {
        case Overflow::saturate: return encode_with<f, Overflow::saturate>(source, count, codes);
        case Overflow::saturate_finite: return encode_with<f, Overflow::saturate_finite>(source, count, codes);
        case Overflow::propagate: return encode_with<f, Overflow::propagate>(source, count, codes);
    }
}

void encode_e2m1(const float* source, std::int64_t count, void* out) {
    constexpr std::int64_t chunk = 256;
    auto* bytes = static_cast<std::uint8_t*>(out);
    for (std::int64_t begin = 0; begin < count; begin += chunk) {
        std::array<std::uint16_t, chunk / 2> pairs{};
        encode_with<e2m1_fields, Overflow::saturate>(source + begin, std::min(chunk, count - begin),
                                                     reinterpret_cast<std::uint8_t*>(pairs.data()));
        const std::int64_t packed = (std::min(chunk, count - begin) + 1) / 2;
        for (std::int64_t i = 0; i < packed; ++i) {
            bytes[begin / 2 + i] = static_cast<std::uint8_t>(pairs[i] | pairs[i] >> 4);
        }
    }
}

/// With a mantissa as wide as the source's, all that is left is to make NaN canonical and to saturate.
void encode_f32(const float* source, std::int64_t count, void* out, Overflow overflow) {
    if (overflow != Overflow::saturate) return decode_f32(source, count, static_cast<float*>(out));
    auto* codes = static_cast<std::uint32_t*>(out);
    for (std::int64_t i = 0; i < count; ++i) codes[i] = encode(f32_fields, source[i], overflow);
}

template <class Encoder>
void encode_each(const float* source, std::int64_t count, void* out, Encoder encoder) {
    auto* codes = static_cast<std::uint8_t*>(out);
    for (std::int64_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(encoder(source[i]));
}

}  // namespace

void decode(Format format, const void* source, std::int64_t count, float* out) {
    switch (format) {
        case Format::e4m3: return look_up(e4m3_values, source, count, out);
        case Format::e5m2: return look_up(e5m2_values, source, count, out);
        case Format::ue8m0: return look_up(ue8m0_values, source, count, out);
        case Format::ue4m3: return look_up(ue4m3_values, source, count, out);
        case Format::e2m1: return decode_e2m1(source, count, out);
        case Format::bf16: return decode_bf16(source, count, out);
        case Format::f16: return decode_f16(source, count, out);
        case Format::f32:
        case Format::i32:
        case Format::i64: return decode_f32(source, count, out);
    }
}

void encode(Format format, const float* source, std::int64_t count, void* out, Overflow overflow) {
    switch (format) {
        case Format::e4m3: return encode_fields<e4m3_fields, std::uint8_t>(source, count, out, overflow);
        case Format::e5m2: return encode_fields<e5m2_fields, std::uint8_t>(source, count, out, overflow);
        case Format::bf16: return encode_fields<bf16_fields, std::uint16_t>(source, count, out, overflow);
        case Format::f16: return encode_fields<f16_fields, std::uint16_t>(source, count, out, overflow);
        case Format::e2m1: return encode_e2m1(source, count, out);
        case Format::ue8m0:
            return encode_each(source, count, out,
                               [=](float value) { return encode_ue8m0(value, Rounding::nearest, overflow); });
        case Format::ue4m3:
            return encode_each(source, count, out, [=](float value) { return encode_ue4m3(value, overflow); });
        case Format::f32:
        case Format::i32:
        case Format::i64: return encode_f32(source, count, out, overflow);
    }
}

}  // namespace tilewright::formats
