// Vectors of one instruction level, in GCC's vector extension: the few operations that these kernels need. Everything
// is in the level's own namespace, because the linker must not use one level's function for another.
#pragma once

#include <cstdint>

namespace tilewright::cpu::TILEWRIGHT_ISA::vector {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

using Floats = float __attribute__((vector_size(lanes * 4)));
using Ints = std::int32_t __attribute__((vector_size(lanes * 4)));
using Words = std::uint32_t __attribute__((vector_size(lanes * 4)));
using Halves = std::uint16_t __attribute__((vector_size(lanes * 4)));
using Bytes = std::uint8_t __attribute__((vector_size(lanes * 4)));

template <class Vector, class T>
inline Vector load(const T* memory) {
    static_assert(sizeof(T) == 4);
    Vector v;
    __builtin_memcpy(&v, memory, sizeof v);
    return v;
}
template <class Vector, class T>
inline void store(T* memory, const Vector& v) {
    static_assert(sizeof(T) == 4);
    __builtin_memcpy(memory, &v, sizeof v);
}

inline Floats all(float value) { return value - Floats{}; }  // keeps -0
inline Ints all(std::int32_t value) { return Ints{} + value; }
inline Words all(std::uint32_t value) { return Words{} + value; }

inline Floats to_float(Ints v) { return __builtin_convertvector(v, Floats); }
inline Floats to_float(Words v) { return __builtin_convertvector(v, Floats); }
/// Rounds toward zero.
inline Ints to_int(Floats v) { return __builtin_convertvector(v, Ints); }

template <class Vector>
inline Vector larger(Vector a, Vector b) {
    return a > b ? a : b;
}
template <class Vector>
inline Vector smaller(Vector a, Vector b) {
    return a < b ? a : b;
}

/// 2^exponent for -126 <= exponent <= 127.
inline Floats power_of_two(Ints exponent) { return (Floats)((exponent + 127) << 23); }

/// The exponent field of |v| without its bias: -127 for zeros and subnormals, 128 for infinities and NaN.
inline Ints exponent(Floats v) { return ((Ints)v >> 23 & 255) - 127; }

}  // namespace tilewright::cpu::TILEWRIGHT_ISA::vector
