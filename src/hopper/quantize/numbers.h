// Numbers in registers: x as it is in memory, or f32 results computed from it; 4 tokens x 16 features per lane.
#pragma once

#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

/// One of two numbers of 16 bits.
template <Quantizer q>
TILEWRIGHT_DEVICE float half(u32 pair, int index) {
    const u16 code = u16(pair >> index * 16);
    return q.source == Number::bf16 ? from_bf16(code) : from_f16(code);
}

/// One of a run of numbers in their memory format.
template <Quantizer q, int words>
TILEWRIGHT_DEVICE float number_of(const u32 (&run)[words], int i) {
    if constexpr (q.source == Number::f32) return __builtin_bit_cast(float, run[i]);
    return half<q>(run[i / 2], i % 2);
}

template <Quantizer q>
struct Numbers {
    static constexpr int words = holds_pairs(q) ? lane_features / 2 : lane_features;
    u32 held[lane_tokens][words];

    TILEWRIGHT_DEVICE float at(int j, int i) const {
        if constexpr (!holds_pairs(q)) return __builtin_bit_cast(float, held[j][i]);
        return number_of<q>(held[j], i);
    }
    /// Makes the compiler compute derived values again after this point, because keeping them would take registers.
    TILEWRIGHT_DEVICE void forget() {
#pragma unroll
        for (int i = 0; i < lane_tokens * words; ++i) pin(held[i / words][i % words]);
    }
};

template <Quantizer q>
TILEWRIGHT_DEVICE float load_number(const void* data, i64 index) {
    if constexpr (q.source == Number::f32) return load_global(static_cast<const float*>(data) + index);
    const u16 code = load_global(static_cast<const u16*>(data) + index);
    return q.source == Number::bf16 ? from_bf16(code) : from_f16(code);
}

/// The index of a token's first number.
TILEWRIGHT_DEVICE i64 row_of(const SourceMatrix& matrix, int group, int token) {
    return group * matrix.group_stride + token * matrix.token_stride;
}

/// The index of the first number of x of a token, which an index may place elsewhere. Its values are clamped.
TILEWRIGHT_DEVICE i64 row_of_x(const QuantizeArguments& arguments, int group, int token) {
    if (arguments.index == nullptr) return row_of(arguments.x, group, token);
    const int named = load_global(arguments.index + token * arguments.index_stride);
    return min(max(named, 0), arguments.x_rows - 1) * arguments.x.token_stride;
}

/// Loads 16 bytes at a time, without conversion.
template <Quantizer q, int words>
TILEWRIGHT_DEVICE void load_words(const SourceMatrix& matrix, i64 first, u32 (&to)[words]) {
    constexpr int bytes = q.source == Number::f32 ? 4 : 2;
    const IntQuad* from = reinterpret_cast<const IntQuad*>(static_cast<const u8*>(matrix.data) + first * bytes);
#pragma unroll
    for (int i = 0; i < words; i += 4) {
        const IntQuad quad = load_global(from + i / 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) to[i + j] = u32(quad.values[j]);
    }
}

}  // namespace tilewright::hopper
