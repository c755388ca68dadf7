// Instructions that the quantizers use and the matrix products do not: conversions of fp8, bytes, 16 bytes at a time.
// As in ptx.h, ptx_numbers_sm90.h defines them for the GPU, src/emulator/numbers.cpp for the host.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// max.NaN: NaN if either is NaN.
float larger(float a, float b);
float magnitude(float value);
/// The larger (or smaller) of each two 16-bit halves, as unsigned integers.
u32 larger_halves(u32 a, u32 b);
u32 smaller_halves(u32 a, u32 b);
/// lop3: bits of `a` in places where the mask has ones, of `b` elsewhere.
u32 choose_bits(u32 mask, u32 a, u32 b);
float from_lane(float value, int lane);

/// Converts two finite numbers to fp8, `low` in the low byte: round to nearest even; saturate. Callers do not rely on
/// the results for infinity and NaN.
u32 pack_e4m3(float low, float high);
u32 pack_e5m2(float low, float high);
/// The same for four numbers, the first in the low byte.
u32 pack_e4m3(const float (&numbers)[4]);
u32 pack_e5m2(const float (&numbers)[4]);
/// Two finite numbers to f16, rounded towards zero.
u32 truncate_f16(float low, float high);
/// Two fp8 numbers to f16, exactly; NaN stays NaN.
u32 f16_from_e4m3(u32 codes);
u32 f16_from_e5m2(u32 codes);

/// Keeps the compiler from moving code that makes or uses the value across this point; no instruction.
void pin(u32& word);
void pin(float& number);

/// Atomically stores the larger of the two values.
void raise_global(u32* to, u32 value);

void store_shared(u8& to, u8 value);
void store_shared(Quad& to, Quad value);
IntQuad load_shared(const IntQuad& from);

}  // namespace tilewright::hopper
