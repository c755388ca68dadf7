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
    constexpr u32 codes = 0x81C0'81C0, signs = 0x8000'8000, exponents = 0x0180'0180, mantissas = 0x0040'0040;
    return {{word & codes, word << 3 & codes, word << 6 & codes,
             (word << 1 & signs) | (word >> 3 & exponents) | (word >> 7 & mantissas)}};
}

inline constexpr u32 bf16_pair = 0x1'0001;  // times a bf16 code: in both halves

/// The scales of a lane's two rows in a tile, and codes with them.
template <Storage storage>
struct Bf16Scales;

/// A byte for 32 of k: the exponent's field of what multiplies decoded codes.
template <>
struct Bf16Scales<Storage::packed_mxfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const u8* from, int pair)
        : rows_(load_shared(reinterpret_cast<const WordPair*>(from)[pair])) {}

    /// Codes of row `below` in 32 of k.
    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
        constexpr u32 exponent = 1U << 7;
        const u32 factor = multiply_bytes(rows_.values[below], 1U << step * 8) * (exponent * bf16_pair);
#pragma unroll
        for (int i = 0; i < 4; ++i) decoded.pairs[i] = multiply_bf16(decoded.pairs[i], factor);
    }

private:
    WordPair rows_;
};

/// A ue4m3 number for 16 of k. Its bits four further up are the bf16 number 2^-120 times its value; no factor has room
/// for what both are too small by, so codes and scales get theirs each.
template <>
struct Bf16Scales<Storage::packed_nvfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const u8* from, int pair)
        : rows_(load_shared(reinterpret_cast<const WordQuad*>(from)[pair])) {}

    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
        constexpr u32 of_codes = (126U + 127) << 7, of_scales = (120U + 127) << 7, four_up = 1U << 4;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int block = 2 * step + i;
            const u32 code = multiply_bytes(rows_.values[2 * below + block / 4], 1U << block % 4 * 8);
            const u32 scale = multiply_bf16(code * (four_up * bf16_pair), of_scales * bf16_pair);
#pragma unroll
            for (int j = 2 * i; j < 2 * i + 2; ++j) {
                decoded.pairs[j] = multiply_bf16(multiply_bf16(decoded.pairs[j], of_codes * bf16_pair), scale);
            }
        }
    }

private:
    WordQuad rows_;
};

template <Tile tile>
struct Feed<tile, FeedKind::decoded_to_bf16> : Fragments<tile> {
    static_assert(wgmmas_along_n(tile) == 1 && k_boxes(tile) == 2);

    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}

    /// d (+)= the subtile's products of one box of k.
    template <int box>
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
        load(c, subtile, box);
        Fragments<tile>::issue(c, d, subtile, accumulate, box);
    }

private:
    TILEWRIGHT_DEVICE void load(const Consumer<tile>& c, int subtile, int box) {
        constexpr int steps = wgmma_steps / 2;  // of 32 of k
        const int row = c.first_row() + subtile * wgmma_m;
        const u8* const from =
            c.shared.mma_a_values[c.ring.stage] + row / packed_tile_rows * packed_tile_bytes(tile.b.storage);
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
        const WordQuad words = load_shared(codes[box * warp_threads]);
        const Bf16Scales<tile.b.storage> scales(from + packed_code_bytes, c.warp * (warp_rows / 2) + c.lane / 4);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
#pragma unroll
            for (int below = 0; below < 2; ++below) {  // the lane's row, and the one eight further
                DecodedPairs decoded = decode_pairs(words.values[2 * step + below]);
                scales.multiply(decoded, below, box * steps + step);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    this->words[Fragments<tile>::held(subtile)][2 * step + i / 2][i % 2 * 2 + below] = decoded.pairs[i];
                }
            }
        }
    }
};

}  // namespace tilewright::hopper
