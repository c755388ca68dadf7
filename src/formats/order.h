// The order in which the products of a dot product are added and scaled. The CPU's arithmetic `bit_exact` executes it,
// and it is part of the description of each GPU kernel: both read one statement of the arithmetic. C++20 without
// standard headers, because NVRTC compiles it too. problem/canonical_order.h finds the order of a pair of recipes.
#pragma once

namespace tilewright {

/// Which tensor-core instruction multiplies, after both operands were decoded to its format exactly.
enum class StepKind : unsigned char {
    fp8,   // 32 products; e4m3 or e5m2 on either side, e2m1 as e4m3.
    bf16,  // 16 products; as soon as one side is bf16 or NVFP4 (e2m1 times its ue4m3 scale, exact in bf16).
};

/// When a side's scale multiplies the sums.
enum class ScaleUse : unsigned char {
    none,    // never: there is none, or it is decoded into the values
    chains,  // with each chain
    end,     // once, after the last chain
};

/// The side whose MXFP4 scales are folded into its values, relative to a reference exponent per row. This is exact,
/// because the scales are powers of two. The sum is multiplied by the reference at the end. If both sides are MXFP4, b
/// is folded.
enum class Folded : unsigned char { none, a, b };

/// After each chain acc = fma(p, s, acc), after the last acc * e. Here s and e are the products of the scales of their
/// use, rounded to fp32. A use that no side has is left out: acc = acc + p. A folded side has 2^reference as its e;
/// NVFP4 with scales on the other side has its tensor scale.
///
/// If both a chain's scale and an e multiply, a sum could leave fp32 between the two although the result does not. The
/// scales of chains are therefore divided by a power of two of their row, `formats::deferred_power`, which becomes the
/// e of their side. It is 1 for scales of 2^-64 to 2^64.
///
/// This is the order of rows of the folded side whose exponents are close (`fold_range`). Other rows have `wide_order`.
/// In fp8 their chains of each 128 k-elements are repeated for each exponent window (`formats::block_windows`):
/// - values are relative to the window's largest exponent, t;
/// - the values of all blocks outside the window are 0;
/// - acc = fma(p * 2^h, s * 2^(t - 6 - h), acc) with h = `window_half(t)`, so that no factor leaves fp32.
struct CanonicalOrder {
    StepKind step = StepKind::fp8;
    /// Products in one chain from zero; 0: all of k (of a slice, where a plan splits k).
    int chain = 0;
    ScaleUse a = ScaleUse::none;
    ScaleUse b = ScaleUse::none;
    Folded folded = Folded::none;
    bool defers = false;  // scales of chains leave a power of two to the end

    constexpr bool has(ScaleUse use) const { return a == use || b == use; }
    constexpr bool defers_a() const { return defers && a == ScaleUse::chains; }
    constexpr bool defers_b() const { return defers && b == ScaleUse::chains; }
    constexpr bool operator==(const CanonicalOrder&) const = default;
};

}  // namespace tilewright
