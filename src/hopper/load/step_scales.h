// Loads an operand's 1x32 scales by ordinary loads. A row's ue8m0 scales of a k-block, four (bf16: two), form a word,
// which becomes as many f32 numbers in the k-block's stage. Scales adjacent along k, as quantizers write them, are
// loaded as words, and all rows are loaded ahead of the first use. Scales in other strides are loaded one by one.
// Scales that all steps share are loaded once per k-block.
#pragma once

#include "hopper/block/scale_view.h"
#include "hopper/description/design.h"

namespace tilewright::hopper {

/// The alignment in memory of all ue8m0 scales of the view from a k-block on, up to 16 bytes. It is 1 if scales are not
/// adjacent along k, or if the last k-block does not have all of its scales.
template <int codes>
TILEWRIGHT_DEVICE int code_alignment(const ScaleView& view, int k_block) {
    if (view.k_stride != 1 || view.k_blocks % codes != 0) return 1;
    constexpr u64 most = 16;
    const u64 places =
        reinterpret_cast<u64>(view.data) | u64(view.row_stride) | u64(view.batch_stride) | u64(k_block) * codes | most;
    return int(places & (~places + 1));
}

/// One k-block's word. Bits above its scales are undefined.
template <int codes>
TILEWRIGHT_DEVICE u32 load_word(const u8* from) {
    if constexpr (codes == 2) return load_global(reinterpret_cast<const u16*>(from));
    return u32(load_global(reinterpret_cast<const int*>(from)));
}

/// Loads a row's words of the next `at_once` k-blocks by one load.
template <int codes, int at_once, int count>
TILEWRIGHT_DEVICE void load_words(const u8* from, u32 (&values)[at_once][count], int index) {
    if constexpr (at_once * codes == 16) {
        const IntQuad words = load_global(reinterpret_cast<const IntQuad*>(from));
#pragma unroll
        for (int i = 0; i < at_once; ++i) values[i][index] = u32(words.values[i]);
    } else if constexpr (at_once * codes == 8) {
        const i64 words = load_global(reinterpret_cast<const i64*>(from));
#pragma unroll
        for (int i = 0; i < at_once; ++i) values[i][index] = u32(u64(words) >> 8 * codes * i);
    } else {
        const u32 words = load_word<at_once * codes>(from);
#pragma unroll
        for (int i = 0; i < at_once; ++i) values[i][index] = words >> 8 * codes * i;
    }
}

/// A row's word of one k-block, loaded scale by scale up to the end of k, which is `steps` steps away.
template <int codes>
TILEWRIGHT_DEVICE u32 gather_word(const u8* from, i64 k_stride, int steps) {
    u32 word = 0;
#pragma unroll
    for (int step = 0; step < codes; ++step, from += k_stride) {
        if (step < steps) word |= u32(load_global(from)) << 8 * step;
    }
    return word;
}

/// Reads the words of some rows of one operand, every 32nd row from `row` on, into the values from `offset` on. They
/// are the words of `at_once` k-blocks from `k_block` on, or of one k-block if the alignment is 1. Rows after the last
/// one read the last row's words; nothing reads their products. Words after the end of k are undefined; `store_steps`
/// handles them.
template <int codes, int offset, int rows, int at_once, int count>
TILEWRIGHT_DEVICE void read_codes(u32 (&values)[at_once][count], const ScaleView& view, int alignment, int batch,
                                  int row, int k_block) {
    const auto each_row = [&](const auto& load) {
#pragma unroll
        for (int r = 0; r < (rows + warp_threads - 1) / warp_threads; ++r) {
            const i64 in_rows = min(row + r * warp_threads, view.rows - 1);
            load(static_cast<const u8*>(view.data) + batch * view.batch_stride + in_rows * view.row_stride, offset + r);
        }
    };
    const int first = k_block * codes;
    if (alignment < codes) {
        each_row([&](const u8* row_codes, int index) {
            values[0][index] =
                gather_word<codes>(row_codes + first * view.k_stride, view.k_stride, view.k_blocks - first);
        });
    } else if (alignment >= at_once * codes && first + at_once * codes <= view.k_blocks) {
        each_row([&](const u8* row_codes, int index) { load_words<codes>(row_codes + first, values, index); });
    } else {
        each_row([&](const u8* row_codes, int index) {
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int word = min(first + i * codes, view.k_blocks - codes);
                values[i][index] = load_word<codes>(row_codes + word);
            }
        });
    }
}

/// The same for f32 scales that all steps share: one per row and k-block. They are scales of rows, the tensor, 1x128 or
/// 128x128; 128x128 scales have fewer rows of blocks than the operand's `all_rows`.
template <int offset, int rows, int at_once, int count>
TILEWRIGHT_DEVICE void read_repeated(u32 (&values)[at_once][count], const ScaleView& view, int all_rows, int batch,
                                     int row, int k_block) {
    const int shift = view.rows < all_rows ? 7 : 0;
#pragma unroll
    for (int r = 0; r < (rows + warp_threads - 1) / warp_threads; ++r) {
        const int block = min((row + r * warp_threads) >> shift, view.rows - 1);
        const i64 of_row = batch * view.batch_stride + block * view.row_stride;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const float scale = load_scale(view, of_row + min(k_block + i, view.k_blocks - 1) * view.k_stride);
            values[i][offset + r] = __builtin_bit_cast(u32, scale);
        }
    }
}

/// Computes a word in which the top bit of each byte tells whether the byte of `codes` is the exponent of a normal
/// number. The bytes 0 and 255 are not. They are the only bytes whose adjacent bits are all equal. Other bits of the
/// result are undefined.
TILEWRIGHT_DEVICE u32 bits_of_normal(u32 codes) {
    constexpr u32 low_bits = 0x7F7F'7F7F;
    return ((codes ^ codes >> 1) & low_bits) + low_bits;
}
template <int codes>
TILEWRIGHT_DEVICE bool are_all_normal(u32 bits) {
    constexpr u32 top_bits = codes == 2 ? 0x8080 : 0x8080'8080;
    return (bits & top_bits) == top_bits;
}

/// Stores a row's scales of a k-block's steps. A step has the scales of all rows, and consecutive steps are `step_rows`
/// numbers apart.
template <int codes>
TILEWRIGHT_DEVICE void store_normal_steps(float* scales, int step_rows, u32 word) {
    constexpr u32 exponent = 0x7F80'0000;
#pragma unroll
    for (int step = 0; step < codes; ++step) {
        const u32 bits = (step < 3 ? word << (23 - 8 * step) : word >> 1) & exponent;
        store_shared(scales[step * step_rows], __builtin_bit_cast(float, bits));
    }
}

/// The same for any ue8m0 scales. From step `steps` on, after the end of k, each scale is the last argument.
template <int codes>
TILEWRIGHT_DEVICE void store_steps(float* scales, int step_rows, u32 word, int steps, float behind) {
#pragma unroll
    for (int step = 0; step < codes; ++step) {
        const float scale = formats::decode_ue8m0(word >> 8 * step & 0xFFU);
        store_shared(scales[step * step_rows], step < steps ? scale : behind);
    }
}

/// The same for one scale that all steps share.
template <int codes>
TILEWRIGHT_DEVICE void store_repeated(float* scales, int step_rows, u32 scale, int steps, float behind) {
#pragma unroll
    for (int step = 0; step < codes; ++step) {
        store_shared(scales[step * step_rows], step < steps ? __builtin_bit_cast(float, scale) : behind);
    }
}

}  // namespace tilewright::hopper
