// One vector of floats per instruction level, and decoders of every format into it. Included only by sources that
// tilewright_isa_sources compiles.
//
// Rule for those sources: no inline function from outside of this namespace (no std::, no project headers with code).
// The linker keeps one copy of such a function, and this could be the one with AVX-512 in it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tilewright::cpu::TILEWRIGHT_ISA {

/// Values of the 8-bit formats by code, for the level without conversion instructions (decode.cpp).
struct CodeTables {
    const float* e4m3;
    const float* e5m2;
    const float* e2m1;  // 16
};

#if defined(__AVX512F__)

using Vector = __m512;
inline constexpr int width = 16;

inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
inline Vector broadcast(float value) { return _mm512_set1_ps(value); }
inline Vector multiply(Vector x, Vector y) { return _mm512_mul_ps(x, y); }
inline Vector add(Vector x, Vector y) { return _mm512_add_ps(x, y); }
inline Vector fma(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
inline float sum(Vector v) { return _mm512_reduce_add_ps(v); }

using Words = __m256i;
inline Vector halves(Words f16) { return _mm512_cvtph_ps(f16); }
inline Words signed_bytes(const std::byte* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Words words(int value) { return _mm256_set1_epi16(static_cast<short>(value)); }
inline Words shifted_left(Words w, int bits) { return _mm256_slli_epi16(w, bits); }
inline Words both(Words x, Words y) { return _mm256_and_si256(x, y); }
inline Words either(Words x, Words y) { return _mm256_or_si256(x, y); }
inline Words equal(Words x, Words y) { return _mm256_cmpeq_epi16(x, y); }

/// 16 codes of 4 bits as bytes, in order.
inline Words e2m1_as_e5m2(const std::byte* from) {
    const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    const __m128i low = _mm_and_si128(packed, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(packed, 4), _mm_set1_epi8(15));
    const __m128i codes = _mm_unpacklo_epi8(low, high);
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, char(0x80), char(0xB8), char(0xBC),
                                        char(0xBE), char(0xC0), char(0xC2), char(0xC4), char(0xC6));
    return _mm256_cvtepu8_epi16(_mm_shuffle_epi8(table, codes));
}

inline Vector decode_bf16(const std::byte* from) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}
inline Words load_words(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

/// Transposes rows to columns.
inline void transpose(Vector* r) {
    Vector t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    Vector u[16];  // u[4 g + c]: in each quarter q the four rows of group g at column 4 q + c
    for (int g = 0; g < 16; g += 4) {
        for (int c = 0; c < 2; ++c) {
            const __m512d upper = _mm512_castps_pd(t[g + c]);
            const __m512d lower = _mm512_castps_pd(t[g + 2 + c]);
            u[g + 2 * c] = _mm512_castpd_ps(_mm512_unpacklo_pd(upper, lower));
            u[g + 2 * c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(upper, lower));
        }
    }
    for (int c = 0; c < 4; ++c) {
        const Vector even01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
        const Vector odd01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xDD);
        const Vector even23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        const Vector odd23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xDD);
        r[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        r[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xDD);
        r[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        r[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xDD);
    }
}

#elif defined(__AVX2__)

using Vector = __m256;
inline constexpr int width = 8;

inline Vector load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
inline Vector broadcast(float value) { return _mm256_set1_ps(value); }
inline Vector multiply(Vector x, Vector y) { return _mm256_mul_ps(x, y); }
inline Vector add(Vector x, Vector y) { return _mm256_add_ps(x, y); }
inline Vector fma(Vector x, Vector y, Vector z) { return _mm256_fmadd_ps(x, y, z); }
inline float sum(Vector v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

using Words = __m128i;
inline Vector halves(Words f16) { return _mm256_cvtph_ps(f16); }
inline Words signed_bytes(const std::byte* from) {
    return _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline Words words(int value) { return _mm_set1_epi16(static_cast<short>(value)); }
inline Words shifted_left(Words w, int bits) { return _mm_slli_epi16(w, bits); }
inline Words both(Words x, Words y) { return _mm_and_si128(x, y); }
inline Words either(Words x, Words y) { return _mm_or_si128(x, y); }
inline Words equal(Words x, Words y) { return _mm_cmpeq_epi16(x, y); }

/// 8 codes of 4 bits as e5m2 bytes, in order, each in the low half of a word.
inline Words e2m1_as_e5m2(const std::byte* from) {
    int bits = 0;
    __builtin_memcpy(&bits, from, sizeof(bits));
    const __m128i packed = _mm_cvtsi32_si128(bits);
    const __m128i low = _mm_and_si128(packed, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(packed, 4), _mm_set1_epi8(15));
    const __m128i codes = _mm_unpacklo_epi8(low, high);
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, char(0x80), char(0xB8), char(0xBC),
                                        char(0xBE), char(0xC0), char(0xC2), char(0xC4), char(0xC6));
    return _mm_cvtepu8_epi16(_mm_shuffle_epi8(table, codes));
}

inline Vector decode_bf16(const std::byte* from) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
}
inline Words load_words(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

/// Transposes rows to columns.
inline void transpose(Vector* r) {
    Vector t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    Vector u[8];  // u[4 g + c]: in each half h the four rows of group g at column 4 h + c
    for (int g = 0; g < 8; g += 4) {
        for (int c = 0; c < 2; ++c) {
            u[g + 2 * c] = _mm256_shuffle_ps(t[g + c], t[g + 2 + c], 0x44);
            u[g + 2 * c + 1] = _mm256_shuffle_ps(t[g + c], t[g + 2 + c], 0xEE);
        }
    }
    for (int c = 0; c < 4; ++c) {
        r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}

#else

using Vector = float __attribute__((vector_size(16)));
inline constexpr int width = 4;

inline Vector load(const float* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
}
inline void store(float* to, Vector v) { __builtin_memcpy(to, &v, sizeof(v)); }
inline Vector broadcast(float value) { return Vector{value, value, value, value}; }
inline Vector multiply(Vector x, Vector y) { return x * y; }
inline Vector add(Vector x, Vector y) { return x + y; }
inline Vector fma(Vector x, Vector y, Vector z) { return x * y + z; }
inline float sum(Vector v) { return (v[0] + v[2]) + (v[1] + v[3]); }

inline float from_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t code16(const std::byte* from, int i) {
    std::uint16_t code = 0;
    __builtin_memcpy(&code, from + 2 * i, sizeof(code));
    return code;
}
/// The bits of an f16 read as f32 are the number times 2^-112. A subnormal becomes an f32 subnormal, so nothing is
/// lost.
inline float decode_half(std::uint32_t code) {
    const float magnitude = from_bits((code & 0x7FFFU) << 13);
    const bool special = (code & 0x7C00U) == 0x7C00U;
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, magnitude * 0x1p112F);
    return from_bits((code & 0x8000U) << 16 | (special ? 0x7F80'0000U | (code & 0x3FFU) << 13 : bits));
}
inline Vector decode_bf16(const std::byte* from) {
    return Vector{from_bits(code16(from, 0) << 16), from_bits(code16(from, 1) << 16), from_bits(code16(from, 2) << 16),
                  from_bits(code16(from, 3) << 16)};
}

/// Transposes rows to columns.
inline void transpose(Vector* r) {
    const Vector t[4] = {r[0], r[1], r[2], r[3]};
    for (int c = 0; c < 4; ++c) r[c] = Vector{t[0][c], t[1][c], t[2][c], t[3][c]};
}

#endif

#if defined(__AVX2__)

// fp8 is converted by way of f16. The bits of e5m2 are the upper byte of an f16. The bits of e4m3, shifted to the f16's
// fields, are the number times 2^-8, subnormals included, because the biases differ by 8.
inline constexpr float e4m3_gain = 256;
inline Vector decode_e4m3(const std::byte* from, const CodeTables&) {
    const Words code = both(shifted_left(signed_bytes(from), 7), words(0xBFFF));
    const Words nan = equal(both(code, words(0x3F80)), words(0x3F80));
    return halves(either(code, nan));
}
inline Vector decode_e5m2(const std::byte* from, const CodeTables&) {
    return halves(shifted_left(signed_bytes(from), 8));
}
inline Vector decode_e2m1(const std::byte* from, const CodeTables&) {
    return halves(shifted_left(e2m1_as_e5m2(from), 8));
}
inline Vector decode_f16(const std::byte* from) { return halves(load_words(from)); }

#else

inline constexpr float e4m3_gain = 1;
inline Vector look_up(const float* table, const std::byte* from) {
    return Vector{table[unsigned(from[0])], table[unsigned(from[1])], table[unsigned(from[2])],
                  table[unsigned(from[3])]};
}
inline Vector decode_e4m3(const std::byte* from, const CodeTables& tables) { return look_up(tables.e4m3, from); }
inline Vector decode_e5m2(const std::byte* from, const CodeTables& tables) { return look_up(tables.e5m2, from); }
inline Vector decode_e2m1(const std::byte* from, const CodeTables& tables) {
    const unsigned first = unsigned(from[0]);
    const unsigned second = unsigned(from[1]);
    return Vector{tables.e2m1[first & 15], tables.e2m1[first >> 4], tables.e2m1[second & 15], tables.e2m1[second >> 4]};
}
inline Vector decode_f16(const std::byte* from) {
    return Vector{decode_half(code16(from, 0)), decode_half(code16(from, 1)), decode_half(code16(from, 2)),
                  decode_half(code16(from, 3))};
}

#endif

inline Vector zero() { return broadcast(0); }

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
