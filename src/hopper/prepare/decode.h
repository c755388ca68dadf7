// Decodes an operand ahead of a product, without rounding:
//
// - NVFP4 values times their block scales, to bf16
// - fp8, to bf16
// - MXFP4 values, to e4m3
//
// A word is eight values of a row. A strip is four words per lane: the loads that a warp has in flight.
#pragma once

#include "base/math.h"
#include "formats/codec.h"
#include "hopper/ptx/integers.h"
#include "hopper/quantize/scale.h"

namespace tilewright::hopper {

inline constexpr int nvfp4_block = 16;

/// The place of a row of a matrix in values, scales and results.
struct DecodedRow {
    i64 codes;
    i64 scales;
    i64 to;
};

TILEWRIGHT_DEVICE DecodedRow decoded_row(const DecodeArguments& a, int matrix, int row) {
    return {.codes = matrix * a.group_stride + row * a.row_stride,
            .scales = matrix * a.scale_group_stride + row * a.scale_row_stride,
            .to = matrix * a.to_group_stride + row * a.to_row_stride};
}

/// Eight quantized values.
template <bool fp4>
struct CodeWord {
    using Type = u32;
};
template <>
struct CodeWord<false> {
    using Type = u64;
};
template <DecodeSpec spec>
using Word = typename CodeWord<decodes_fp4(spec.codes)>::Type;

/// Loads values k .. k + 7 of a row, with zeros after its end.
template <DecodeSpec spec>
TILEWRIGHT_DEVICE Word<spec> load_word(const DecodeArguments& a, const DecodedRow& row, int k) {
    constexpr bool fp4 = decodes_fp4(spec.codes);
    constexpr int in_byte = fp4 ? 2 : 1, code_bits = 8 / in_byte;
    if (k >= a.k) return 0;
    const i64 first = row.codes + k * a.k_stride;
    if (spec.vectors && k + decoded_word <= a.k) {
        return load_global(reinterpret_cast<const Word<spec>*>(a.codes + first / in_byte));
    }
    Word<spec> word = 0;
#pragma unroll
    for (int i = 0; i < decoded_word; ++i) {
        if (k + i >= a.k) break;
        const i64 index = first + i * a.k_stride;
        Word<spec> code = load_global(a.codes + index / in_byte);
        if constexpr (fp4) code = code >> index % 2 * 4 & 15U;
        word |= code << code_bits * i;
    }
    return word;
}

/// The scale of a word's block.
TILEWRIGHT_DEVICE u32 load_block_scale(const DecodeArguments& a, const DecodedRow& row, int k) {
    return k < a.k ? load_global(a.scales + row.scales + k / nvfp4_block * a.scale_k_stride) : 0U;
}

/// Value `i` of a word. The bits of an e2m1 magnitude are shifted to f32's exponent and mantissa. There they are the
/// number 2^-126 times the value, with 0.5 as a subnormal.
TILEWRIGHT_DEVICE float decode_e2m1(u32 word, int i) {
    const u32 code = word >> 4 * i;
    const float magnitude = from_bits((code & 7U) << 22) * formats::power_of_two(126);
    return from_bits(bits_of(magnitude) | (code & 8U) << 28);
}

TILEWRIGHT_DEVICE void store_nvfp4(void* to, u32 word, u32 scale) {
    const float factor = formats::decode_ue4m3(scale) * formats::nvfp4_value_factor();
    IntQuad pairs;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        pairs.values[i] = int(pack_bf16(decode_e2m1(word, 2 * i) * factor, decode_e2m1(word, 2 * i + 1) * factor));
    }
    store_global(static_cast<IntQuad*>(to), pairs);
}

/// Converts by way of f16, which also holds every fp8 number.
template <Decoding codes>
TILEWRIGHT_DEVICE void store_fp8(void* to, u64 word) {
    IntQuad pairs;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 pair = u32(word >> 16 * i) & 0xFFFF;
        const u32 halves = codes == Decoding::e4m3_to_bf16 ? f16_from_e4m3(pair) : f16_from_e5m2(pair);
        pairs.values[i] = int(pack_bf16(from_f16(u16(halves)), from_f16(u16(halves >> 16))));
    }
    store_global(static_cast<IntQuad*>(to), pairs);
}

/// Four values as e4m3: a permute looks up the magnitudes in the table of all eight.
TILEWRIGHT_DEVICE u32 four_as_e4m3(u32 codes) {
    constexpr u32 small = 0x3C38'3000, large = 0x4C48'4440;  // 0, 0.5, 1, 1.5; 2, 3, 4, 6
    const u32 signs = (codes & 0x8U) << 4 | (codes & 0x80U) << 8 | (codes & 0x800U) << 12 | (codes & 0x8000U) << 16;
    return permute_bytes(small, large, codes & 0x7777U) | signs;
}

TILEWRIGHT_DEVICE void store_e4m3(void* to, u32 word) {
    store_global(static_cast<u64*>(to), u64(four_as_e4m3(word)) | u64(four_as_e4m3(word >> 16)) << 32);
}

template <DecodeSpec spec>
TILEWRIGHT_DEVICE void decode_strip(const DecodeArguments& a, const DecodedRow& row, int first) {
    constexpr bool scaled = spec.codes == Decoding::nvfp4_to_bf16;
    Word<spec> words[decoded_words];
    u32 scales[decoded_words];
#pragma unroll
    for (int i = 0; i < decoded_words; ++i) {
        const int k = first + i * warp_threads * decoded_word;
        words[i] = load_word<spec>(a, row, k);
        scales[i] = scaled ? load_block_scale(a, row, k) : 0;
    }
#pragma unroll
    for (int i = 0; i < decoded_words; ++i) {
        const int k = first + i * warp_threads * decoded_word;
        if (k >= a.k) continue;
        u8* const to = a.to + (row.to + k) * decoded_bytes(spec.codes);
        if constexpr (scaled) {
            store_nvfp4(to, words[i], scales[i]);
        } else if constexpr (spec.codes == Decoding::mxfp4_to_e4m3) {
            store_e4m3(to, words[i]);
        } else {
            store_fp8<spec.codes>(to, words[i]);
        }
    }
}

/// The number of rows of matrix `index`.
TILEWRIGHT_DEVICE int row_count(const DecodeArguments& a, int index) {
    if (a.row_counts == nullptr) return a.rows;
    return clamped(load_integer(a.row_counts, a.row_counts_are_64_bit, index * a.row_counts_stride), a.rows);
}

/// A warp decodes one strip of a row at a time, through the existing rows of one matrix after another. Each lane holds
/// the row count of one matrix.
template <DecodeSpec spec>
__global__ void __launch_bounds__(quantize_threads, 2) decode_codes(const __grid_constant__ DecodeArguments a) {
    const int lane = lane_index(), strips = ceil_div(a.k, decoded_strip);
    i64 strip = i64(block_index()) * quantize_warps + warp_index();
    for (int first = 0; first < a.matrices; first += a.matrices_at_once) {
        const bool has_matrix = lane < min(a.matrices_at_once, a.matrices - first);
        const int rows = has_matrix ? row_count(a, first + lane) : 0, end = sum_of_lanes(rows);
        const i64 strips_end = i64(from_lane(end, warp_threads - 1)) * strips;
        for (; strip < strips_end; strip += i64(block_count()) * quantize_warps) {
            const int row = int(strip / strips), matrix = lowest_bit(ballot(row < end));
            decode_strip<spec>(a, decoded_row(a, first + matrix, row - from_lane(end - rows, matrix)),
                               int(strip % strips) * decoded_strip + lane * decoded_word);
        }
        strip -= strips_end;
    }
}

}  // namespace tilewright::hopper
