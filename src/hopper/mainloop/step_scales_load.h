// 1x32 scales of an operand by ordinary loads: a row's four codes of a k-block are a word, which becomes four numbers
// in the k-block's stage. Codes that are adjacent along k, as quantisers write them, are loaded as words, those of all
// rows before any is used; others one by one.
#pragma once

#include "hopper/block/scale_view.h"
#include "hopper/tile/stage_layout.h"

namespace tilewright::hopper {

inline constexpr int codes_in_word = 4;

/// What all codes of the view are multiples of in memory, up to 16 bytes, from a k-block on; 1 where a k-block's are no
/// word, or there are none behind the last.
TILEWRIGHT_DEVICE int code_alignment(const ScaleView& view, int k_block) {
    if (view.k_stride != 1 || view.k_blocks % codes_in_word != 0) return 1;
    constexpr u64 most = 16;
    const u64 places = reinterpret_cast<u64>(view.data) | u64(view.row_stride) | u64(view.batch_stride) |
                       u64(k_block) * codes_in_word | most;
    return int(places & (~places + 1));
}

/// A row's words of the next `at_once` k-blocks by one load.
template <int at_once, int count>
TILEWRIGHT_DEVICE void load_words(const u8* from, u32 (&values)[at_once][count], int index) {
    if constexpr (at_once == 4) {
        const IntQuad words = load_global(reinterpret_cast<const IntQuad*>(from));
#pragma unroll
        for (int i = 0; i < at_once; ++i) values[i][index] = u32(words.values[i]);
    } else if constexpr (at_once == 2) {
        const i64 words = load_global(reinterpret_cast<const i64*>(from));
        values[0][index] = u32(words);
        values[1][index] = u32(u64(words) >> 32);
    } else {
        values[0][index] = u32(load_global(reinterpret_cast<const int*>(from)));
    }
}

/// A row's word of one k-block, code by code: those before the end of k, from which `steps` are left.
TILEWRIGHT_DEVICE u32 gather_word(const u8* from, i64 k_stride, int steps) {
    u32 word = 0;
#pragma unroll
    for (int step = 0; step < codes_in_word; ++step, from += k_stride) {
        if (step < steps) word |= u32(load_global(from)) << 8 * step;
    }
    return word;
}

/// The words of some of one operand's rows, every 32nd from `row` on, of the k-blocks from `k_block` on: of `at_once`,
/// or of one where the alignment is 1. Into the values from `offset` on. Behind the last row are those of the last,
/// whose products nothing reads; behind the end of k any, which `store_steps` knows.
template <int offset, int rows, int at_once, int count>
TILEWRIGHT_DEVICE void read_codes(u32 (&values)[at_once][count], const ScaleView& view, int alignment, int batch,
                                  int row, int k_block) {
    const auto each_row = [&](const auto& load) {
#pragma unroll
        for (int r = 0; r < (rows + warp_threads - 1) / warp_threads; ++r) {
            const i64 in_rows = min(row + r * warp_threads, view.rows - 1);
            load(static_cast<const u8*>(view.data) + batch * view.batch_stride + in_rows * view.row_stride, offset + r);
        }
    };
    const int first = k_block * codes_in_word;
    if (alignment < codes_in_word) {
        each_row([&](const u8* codes, int index) {
            values[0][index] = gather_word(codes + first * view.k_stride, view.k_stride, view.k_blocks - first);
        });
    } else if (alignment >= at_once * codes_in_word && first + at_once * codes_in_word <= view.k_blocks) {
        each_row([&](const u8* codes, int index) { load_words(codes + first, values, index); });
    } else {
        each_row([&](const u8* codes, int index) {
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int word = min(first + i * codes_in_word, view.k_blocks - codes_in_word);
                values[i][index] = u32(load_global(reinterpret_cast<const int*>(codes + word)));
            }
        });
    }
}

/// The top bit of each byte that is the exponent of a normal number: of all codes but 0 and 255, the only ones without
/// two neighbouring bits that differ. Other bits are any.
TILEWRIGHT_DEVICE u32 bits_of_normal(u32 codes) {
    constexpr u32 low_bits = 0x7F7F'7F7F;
    return ((codes ^ codes >> 1) & low_bits) + low_bits;
}
TILEWRIGHT_DEVICE bool are_all_normal(u32 bits) {
    constexpr u32 top_bits = 0x8080'8080;
    return (bits & top_bits) == top_bits;
}

/// A row's scales of the four steps, of which those of all rows follow one another: `step_rows` numbers from step to
/// step.
TILEWRIGHT_DEVICE void store_normal_steps(float* scales, int step_rows, u32 codes) {
    constexpr u32 exponent = 0x7F80'0000;
#pragma unroll
    for (int step = 0; step < codes_in_word; ++step) {
        const u32 bits = (step < 3 ? codes << (23 - 8 * step) : codes >> 1) & exponent;
        store_shared(scales[step * step_rows], __builtin_bit_cast(float, bits));
    }
}

/// The same of any codes. From step `steps` on, behind the end of k, they are `behind`.
TILEWRIGHT_DEVICE void store_steps(float* scales, int step_rows, u32 codes, int steps, float behind) {
#pragma unroll
    for (int step = 0; step < codes_in_word; ++step) {
        const float scale = formats::decode_ue8m0(codes >> 8 * step & 0xFFU);
        store_shared(scales[step * step_rows], step < steps ? scale : behind);
    }
}

}  // namespace tilewright::hopper
