// The operand feed of weights that are packed for bf16: a lane's codes are decoded to bf16 in its registers, a box of k
// at a time. src/formats/packed_layout.h has the order of codes and scales.
#pragma once

#include "hopper/mainloop/fragments.h"

namespace tilewright::hopper {

/// Eight codes of a row's 32 of k as bf16, in pairs of neighbours: [i] is mma A's word i % 2 of wgmma i / 2.
struct DecodedPairs {
    u32 pairs[4];
};

/// bf16 has its exponent from bit 7 on: the bits of a code are the number 2^-126 times its value, 0.5 as a subnormal.
TILEWRIGHT_DEVICE DecodedPairs decode_pairs(u32 word) {
    constexpr u32 codes = 0x81C0'81C0, upper_bits = 0x0100'0100, others = codes & ~upper_bits;
    const u32 rotated = word >> 4 | word << 28;
    return {{word & codes, word << 6 & codes, rotated & codes, (word << 2 & others) | (word >> 6 & upper_bits)}};
}

inline constexpr u32 bf16_pair = 0x1'0001;               // times a bf16 code: in both halves
inline constexpr u32 bf16_of_codes = (126U + 127) << 7;  // what codes are too small by

/// Half `index` of a pair, in both halves.
TILEWRIGHT_DEVICE u32 both_halves(u32 pair, int index) {
    return index == 0 ? low_half_twice(pair) : high_half_twice(pair);
}

/// Bytes `first` and the next of a word, each in 16 bits.
TILEWRIGHT_DEVICE u32 two_bytes(u32 word, int first) {
    return permute_bytes(word, 0, 0x4040 + first + (first + 1) * 256);
}

/// The scales of a lane's two rows in a tile, and codes with them.
template <Storage storage>
struct Bf16Scales;

/// A byte for 32 of k: the exponent's field of what multiplies decoded codes.
template <>
struct Bf16Scales<Storage::packed_mxfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const u8* from, int pair, int box) {
        const WordPair rows = load_shared(reinterpret_cast<const WordPair*>(from)[pair]);
#pragma unroll
        for (int below = 0; below < 2; ++below) factors_[below] = two_bytes(rows.values[below], 2 * box) << 7;
    }

    /// Codes of row `below`, of the `step`-th 32 of the box.
    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            decoded.pairs[i] = multiply_bf16(decoded.pairs[i], both_halves(factors_[below], step));
        }
    }

private:
    u32 factors_[2];  // of the lane's row and of the one eight further: a pair, of the box's two 32 of k
};

/// A ue4m3 number for 16 of k. Its bits four further up are the bf16 number 2^-120 times its value; no factor has room
/// for what both are too small by, so codes and scales get theirs each. NaN, 0xFF, is the one byte with a top bit, and
/// with copies of it a NaN of bf16 (which spoils the last bits of the scale next to it, of the same row).
template <>
struct Bf16Scales<Storage::packed_nvfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const u8* from, int pair, int box) {
        constexpr u32 of_scales = (120U + 127) << 7;
        const WordQuad rows = load_shared(reinterpret_cast<const WordQuad*>(from)[pair]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 word = rows.values[i / 2 * 2 + box];
            factors_[i / 2][i % 2] = multiply_bf16(two_signed_bytes(word, i % 2 * 2) << 4, of_scales * bf16_pair);
        }
    }

    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 codes = multiply_bf16(decoded.pairs[i], bf16_of_codes * bf16_pair);
            decoded.pairs[i] = multiply_bf16(codes, both_halves(factors_[below][step], i / 2));
        }
    }

private:
    u32 factors_[2][2];  // of both rows: of the box's two 32 of k a pair, of 16 each
};

template <>
struct Bf16Scales<Storage::wide_mxfp4_bf16> : Bf16Scales<Storage::packed_mxfp4_bf16> {
    using Bf16Scales<Storage::packed_mxfp4_bf16>::Bf16Scales;
};

/// Codes as numbers, without their scales.
struct NoBf16Scales {
    TILEWRIGHT_DEVICE NoBf16Scales(const u8* /*from*/, int /*pair*/, int /*box*/) {}

    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int /*below*/, int /*step*/) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) decoded.pairs[i] = multiply_bf16(decoded.pairs[i], bf16_of_codes * bf16_pair);
    }
};

template <Tile tile>
struct Feed<tile, FeedKind::decoded_to_bf16> : Fragments<tile> {
    static_assert((subtiles_along_n<tile> == 1 || has_wide_rows(tile)) && k_boxes(tile) == 2);

    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}

    /// d (+)= the subtile's products of one box of k.
    template <int box>
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
        if (subtile % subtiles_along_n<tile> == 0) load(c, subtile, box);
        this->issue_held(c, d, subtile, accumulate, box);
    }

    /// Decodes the subtile's rows, one box of k.
    template <class Scales = Bf16Scales<tile.b.storage>>
    TILEWRIGHT_DEVICE void load(const Consumer<tile>& c, int subtile, int box) {
        constexpr int steps = wgmma_steps / 2;  // of 32 of k
        const int row = c.first_row() + subtile / subtiles_along_n<tile> * wgmma_m;
        const u8* const from =
            c.shared.mma_a_values[c.ring.stage] + row / packed_tile_rows * packed_tile_bytes(tile.b.storage);
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
        const WordQuad quad = load_shared(codes[box * warp_threads]);
        const Scales scales(from + packed_code_bytes, c.warp * (warp_rows / 2) + c.lane / 4, box);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
#pragma unroll
            for (int below = 0; below < 2; ++below) {  // the lane's row, and the one eight further
                DecodedPairs decoded = decode_pairs(quad.values[2 * step + below]);
                scales.multiply(decoded, below, step);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    this->words[Fragments<tile>::held(subtile)][2 * step + i / 2][i % 2 * 2 + below] = decoded.pairs[i];
                }
            }
        }
    }
};

}  // namespace tilewright::hopper
