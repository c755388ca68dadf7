// Codes of weights that are packed for bf16 as bf16, with their scales: for the mainloop that multiplies packed weights
// and for the kernel that expands them. src/formats/packed_layout.h has the order of codes and scales.
#pragma once

#include "hopper/ptx/ptx.h"
#include "hopper/tile/tile.h"

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

/// The scales of two rows: MXFP4's four of 128 of k each, NVFP4's of a box of k.
struct ScaleWords {
    u32 values[2];
};

/// The scales of a box of k of a lane's two rows, eight apart, and codes with them.
template <Storage storage>
struct Bf16Scales;

/// A byte for 32 of k: the exponent's field of what multiplies decoded codes.
template <>
struct Bf16Scales<Storage::packed_mxfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const ScaleWords& rows, int box) {
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

/// A ue4m3 number for 16 of k. Its bits four further up are the bf16 number 2^-120 times its value. It takes on what
/// codes are too small by as well, but for 2^8, for which bf16 has no room next to the largest scale: that is part of
/// alpha (docs/numerics.md). NaN, 0xFF, is the one byte with a top bit, and with copies of it a NaN of bf16 (which
/// spoils the last bits of the scale next to it, of the same row).
template <>
struct Bf16Scales<Storage::packed_nvfp4_bf16> {
    TILEWRIGHT_DEVICE Bf16Scales(const ScaleWords& rows, int /*box*/) {
        constexpr u32 of_scales = (120U + 127) << 7, of_codes = bf16_of_codes - (8U << 7);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 word = rows.values[i / 2];
            const u32 scales = multiply_bf16(two_signed_bytes(word, i % 2 * 2) << 4, of_scales * bf16_pair);
            factors_[i / 2][i % 2] = multiply_bf16(scales, of_codes * bf16_pair);
        }
    }

    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            decoded.pairs[i] = multiply_bf16(decoded.pairs[i], both_halves(factors_[below][step], i / 2));
        }
    }

private:
    u32 factors_[2][2];  // of both rows: of the box's two 32 of k a pair, of 16 each
};

template <>
struct Bf16Scales<Storage::wide_mxfp4_bf16> : Bf16Scales<Storage::packed_mxfp4_bf16> {
    using Bf16Scales<Storage::packed_mxfp4_bf16>::Bf16Scales;
};

}  // namespace tilewright::hopper
