// Decodes the values and scales of weights that are packed for bf16 to bf16. The mainloop that multiplies packed
// weights and the kernel that expands them use it. The order of values and scales is in src/formats/packed_layout.h.
#pragma once

#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

/// Eight values of a row's 32 k-elements as bf16, in pairs of neighbours. Element i is mma A's word i % 2 of wgmma i /
/// 2.
struct DecodedPairs {
    u32 pairs[4];
};

/// bf16 has its exponent from bit 7 on. There, the bits of an e2m1 code are the number 2^-126 times its value, with 0.5
/// as a subnormal.
TILEWRIGHT_DEVICE DecodedPairs decode_pairs(u32 word) {
    constexpr u32 codes = 0x81C0'81C0, upper_bits = 0x0100'0100, others = codes & ~upper_bits;
    const u32 rotated = word >> 4 | word << 28;
    return {{word & codes, word << 6 & codes, rotated & codes, (word << 2 & others) | (word >> 6 & upper_bits)}};
}

inline constexpr u32 bf16_pair = 0x1'0001;               // times a bf16 number: the number in both halves
inline constexpr u32 bf16_of_codes = (126U + 127) << 7;  // the factor that decoded values lack

/// Half `index` of a pair, in both halves.
TILEWRIGHT_DEVICE u32 both_halves(u32 pair, int index) {
    return index == 0 ? low_half_twice(pair) : high_half_twice(pair);
}

/// The scales of two rows: MXFP4's four of 128 k-elements each, or NVFP4's of one box of k.
struct ScaleWords {
    u32 values[2];
};

/// Holds the scales of a box of k for a lane's two rows, which are eight apart, and multiplies values by them.
template <int scale_k>
struct Bf16Scales;

/// One byte per 32 k-elements: the exponent field of the factor of decoded values.
template <>
struct Bf16Scales<32> {
    TILEWRIGHT_DEVICE Bf16Scales(const ScaleWords& rows, int box) {
        const u32 two_bytes = 0x4140 + u32(box) * 0x0202;  // bytes 2 box and 2 box + 1, each in 16 bits
#pragma unroll
        for (int below = 0; below < 2; ++below) factors_[below] = permute_bytes(rows.values[below], 0, two_bytes) << 7;
    }

    /// Multiplies values of row `below` in the box's `step`-th 32 k-elements.
    TILEWRIGHT_DEVICE void multiply(DecodedPairs& decoded, int below, int step) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            decoded.pairs[i] = multiply_bf16(decoded.pairs[i], both_halves(factors_[below], step));
        }
    }

private:
    // For the lane's row and the row eight below: a pair for the box's two steps of 32 k-elements.
    u32 factors_[2];
};

/// One ue4m3 number per 16 k-elements. Shifted left by four bits, it is the bf16 number 2^-120 times its value. The
/// scale also takes the factor that values lack, except 2^8. A number of bf16 cannot hold 2^8 times the largest scale,
/// so 2^8 is part of alpha (docs/numerics.md). NaN, 0xFF, is the one byte with a top bit. With copies of that bit it is
/// a NaN of bf16. (The copies spoil the last bits of the adjacent scale, which belongs to the same row.)
template <>
struct Bf16Scales<16> {
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
    // For both rows: a pair for each of the box's two steps of 32 k-elements, one scale per 16.
    u32 factors_[2][2];
};

}  // namespace tilewright::hopper
