// The primitives of hopper/ptx/ptx_numbers.h: conversions of fp8, bytes, and functions that move them.
#include "hopper/ptx/ptx_numbers.h"

#include "emulator/machine.h"
#include "emulator/race.h"
#include "formats/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tilewright::emulator {
namespace {

template <class T>
void write(T& to, const T& value) {
    const u32 offset = shared_offset(*me().block, &to, sizeof value);
    if (offset % sizeof value != 0) fail("store_shared: the address is not a multiple of what is stored");
    std::memcpy(&to, &value, sizeof value);
    race::writes(&to, sizeof value);
    hide_from_engines(offset, sizeof value);
}

/// The worst result that the hardware could give for NaN or infinity: a code that is easily taken for a number.
u32 code(const formats::Fields& fields, float value) {
    return std::isfinite(value) ? formats::encode(fields, value, formats::Overflow::saturate) : 1;
}
u32 pack(const formats::Fields& fields, float low, float high) { return code(fields, low) | code(fields, high) << 8; }

u32 truncated_f16(float value) {
    const u32 nearest = formats::encode(formats::f16_fields, value, formats::Overflow::saturate);
    const bool is_above = std::fabs(formats::decode(formats::f16_fields, nearest)) > std::fabs(value);
    return std::isfinite(value) ? nearest - (is_above ? 1 : 0) : 1;
}

u32 f16_pair(const formats::Fields& fields, u32 codes) {
    const auto half = [&](u32 one) { return u32{hopper::to_f16(formats::decode(fields, one))}; };
    return half(codes & 255) | half(codes >> 8 & 255) << 16;
}

}  // namespace
}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    return a > b ? a : b;
}
float magnitude(float value) { return std::fabs(value); }
u32 larger_halves(u32 a, u32 b) {
    constexpr u32 low = 0xFFFF;
    return std::max(a & low, b & low) | std::max(a & ~low, b & ~low);
}
u32 smaller_halves(u32 a, u32 b) {
    constexpr u32 low = 0xFFFF;
    return std::min(a & low, b & low) | std::min(a & ~low, b & ~low);
}
u32 choose_bits(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }
float from_lane(float value, int lane) { return std::bit_cast<float>(from_lane(std::bit_cast<int>(value), lane)); }

u32 pack_e4m3(float low, float high) { return pack(formats::e4m3_fields, low, high); }
u32 pack_e5m2(float low, float high) { return pack(formats::e5m2_fields, low, high); }
u32 pack_e4m3(const float (&x)[4]) { return pack_e4m3(x[0], x[1]) | pack_e4m3(x[2], x[3]) << 16; }
u32 pack_e5m2(const float (&x)[4]) { return pack_e5m2(x[0], x[1]) | pack_e5m2(x[2], x[3]) << 16; }
u32 truncate_f16(float low, float high) { return truncated_f16(low) | truncated_f16(high) << 16; }
u32 f16_from_e4m3(u32 codes) { return f16_pair(formats::e4m3_fields, codes); }
u32 f16_from_e5m2(u32 codes) { return f16_pair(formats::e5m2_fields, codes); }

void pin(u32&) {}
void pin(float&) {}
void raise_global(u32* to, u32 value) {
    if (*to < value) *to = value;
}

void store_shared(u8& to, u8 value) { write(to, value); }
void store_shared(Quad& to, Quad value) { write(to, value); }
IntQuad load_shared(const IntQuad& from) {
    static_cast<void>(shared_offset(*me().block, &from, sizeof from));
    race::reads(&from, sizeof from);
    return from;
}

}  // namespace tilewright::hopper
