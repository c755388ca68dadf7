// The primitives of ptx_numbers.h for Hopper, in PTX.
#pragma once

#include "formats/swiglu.h"
#include "hopper/ptx/ptx_numbers.h"
#include "hopper/ptx/ptx_sm90.h"

namespace tilewright::formats {

TILEWRIGHT_DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// The code that the compiler makes of 1 / x, without the branch to a function for subnormal numbers, around which it
// spills. The error of rcp.approx is one last place at most.
TILEWRIGHT_DEVICE float reciprocal(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return __fmaf_rn(__fmaf_rn(-x, inverse, 1.0F), inverse, inverse);
}
TILEWRIGHT_DEVICE float at_most(float x, float bound) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(bound));
    return result;
}
TILEWRIGHT_DEVICE float at_least(float x, float bound) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(bound));
    return result;
}
TILEWRIGHT_DEVICE float zero_above(float x, float bound, float value) {
    float result;
    asm("{.reg .pred above; setp.gt.f32 above, %1, %2; selp.f32 %0, 0f00000000, %3, above;}"
        : "=f"(result)
        : "f"(x), "f"(bound), "f"(value));
    return result;
}

}  // namespace tilewright::formats

namespace tilewright::hopper {

TILEWRIGHT_DEVICE float larger(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
TILEWRIGHT_DEVICE float magnitude(float value) { return fabsf(value); }
TILEWRIGHT_DEVICE u32 larger_halves(u32 a, u32 b) {
    u32 result;
    asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}
TILEWRIGHT_DEVICE u32 smaller_halves(u32 a, u32 b) {
    u32 result;
    asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}
TILEWRIGHT_DEVICE u32 choose_bits(u32 mask, u32 a, u32 b) {
    u32 result;
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(mask), "r"(a), "r"(b));
    return result;
}
TILEWRIGHT_DEVICE float from_lane(float value, int lane) { return __shfl_sync(~0U, value, lane); }

TILEWRIGHT_DEVICE u32 pack_e4m3(float low, float high) {
    u16 codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}
TILEWRIGHT_DEVICE u32 pack_e5m2(float low, float high) {
    u16 codes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}
// The second conversion keeps the first one's results in the other half.
TILEWRIGHT_DEVICE u32 pack_e4m3(const float (&x)[4]) {
    u32 codes;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high};}"
        : "=r"(codes)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
    return codes;
}
TILEWRIGHT_DEVICE u32 pack_e5m2(const float (&x)[4]) {
    u32 codes;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high};}"
        : "=r"(codes)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
    return codes;
}
TILEWRIGHT_DEVICE u32 truncate_f16(float low, float high) {
    u32 pair;
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
TILEWRIGHT_DEVICE u32 f16_from_e4m3(u32 codes) {
    u32 pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(u16(codes)));
    return pair;
}
TILEWRIGHT_DEVICE u32 f16_from_e5m2(u32 codes) {
    u32 pair;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(u16(codes)));
    return pair;
}

TILEWRIGHT_DEVICE void pin(u32& word) { asm volatile("" : "+r"(word)::"memory"); }
TILEWRIGHT_DEVICE void pin(float& number) { asm volatile("" : "+f"(number)::"memory"); }

TILEWRIGHT_DEVICE void raise_global(u32* to, u32 value) {
    asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
}

TILEWRIGHT_DEVICE void store_shared(u8& to, u8 value) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared_address(&to)), "r"(u32(value)) : "memory");
}
TILEWRIGHT_DEVICE void store_shared(Quad& to, Quad value) {
    const float* v = value.values;
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(&to)), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                 "f"(v[3])
                 : "memory");
}
TILEWRIGHT_DEVICE IntQuad load_shared(const IntQuad& from) {
    IntQuad quad;
    int* v = quad.values;
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(shared_address(&from)));
    return quad;
}

}  // namespace tilewright::hopper
