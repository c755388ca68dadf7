#include "cpu/exact/kernels.h"

#include "cpu/exact/kinds.h"
#include "cpu/exact/tensor_core_limits.h"
#include "cpu/exact/vector.h"

namespace tilewright::cpu::TILEWRIGHT_ISA {
namespace {

using namespace vector;

/// Rows that one pass over a panel serves. Their sums stay in registers.
constexpr int block_rows = 4;

/// The largest code of a product per column, packed as the panel's codes are.
template <class Kind, int rows>
inline void largest_codes(const StepArguments& s, std::int64_t row, Words (&largest)[rows]) {
    using Code = typename Kind::Code;
    for (int r = 0; r < rows; ++r) largest[r] = Words{};
    const std::uint32_t* a = s.a_codes + row * s.a_stride;
    for (int k = 0; k < Kind::products; ++k) {
        const Code b = (Code)load<Words>(s.b_codes + k * lanes);
        for (int r = 0; r < rows; ++r) {
            const Code sum = b + (Code)all(a[r * s.a_stride + k]);
            largest[r] = (Words)larger((Code)largest[r], sum);
        }
    }
}

template <class Kind>
inline Ints unpack(Words codes, int group) {
    constexpr int bits = Kind::codes.bits;
    return (Ints)(codes >> (bits * group) & ((1U << bits) - 1));
}

/// fp8: 14 significant bits of the sum, which has at most 21.
inline Floats cut_sum(Fp8, Words products, Words c) { return (Floats)((Ints)to_float((Ints)(products + c)) & ~0x3FF); }

/// Sign and magnitude of a sum that needs 33 bits: 16 products below 2^27 in size and an accumulator below 2^26.
struct SignedWords {
    Words magnitude;
    Words sign;
};
inline SignedWords add_with_sign(Words products, Words c) {
    const Words total = products + c;
    const Words overflow = (products ^ total) & (c ^ total);
    const Ints negative = (Ints)(total ^ overflow) >> 31;
    return {(total ^ (Words)negative) - (Words)negative, (Words)negative & 0x8000'0000U};
}

/// 24 significant bits, toward zero. Clearing the highest bit that does not fit into fp32 makes the conversion round
/// down.
inline Floats to_float_toward_zero(Words magnitude) { return to_float(magnitude & ~(magnitude >> 24)); }

inline Floats cut_sum(Bf16, Words products, Words c) {
    const SignedWords sum = add_with_sign(products, c);
    return (Floats)((Words)to_float_toward_zero(sum.magnitude) | sum.sign);
}

/// Adds a step's products to the accumulators of one vector of columns.
template <class Kind, int rows>
inline void add_products(const StepArguments& s, std::int64_t row, int group, const Words (&largest)[rows]) {
    constexpr int panel = Kind::panel;
    constexpr int bias = Kind::codes.bias;
    Ints top[rows];
    Words cut_c[rows];
    Words sum[rows];  // unsigned: sums with NaN and infinities may wrap around until they are replaced
    Floats scale[rows];
    for (int r = 0; r < rows; ++r) {
        const Floats c = load<Floats>(s.c + (row + r) * panel + group * lanes);
        // Without products c does not change: it is a multiple of the unit that the smallest possible product allows.
        top[r] = larger(larger(unpack<Kind>(largest[r], group) - 2 * bias, exponent(c)),
                        all(Kind::codes.smallest_of_result));
        scale[r] = power_of_two(Kind::kept_below - top[r]);
        cut_c[r] = (Words)to_int(c * scale[r]);
        sum[r] = Words{};
    }
    const float* a = s.a + row * s.a_stride;
    const float* b = s.b + group * lanes;
    for (int k = 0; k < Kind::products; ++k) {
        const Floats column = load<Floats>(b + k * panel);
        for (int r = 0; r < rows; ++r) sum[r] += (Words)to_int(column * all(a[r * s.a_stride + k]) * scale[r]);
    }
    for (int r = 0; r < rows; ++r) {
        const Floats result = cut_sum(Kind{}, sum[r], cut_c[r]) * power_of_two(top[r] - Kind::kept_below);
        store(s.c + (row + r) * panel + group * lanes, result);
    }
}

template <class Kind, int rows>
inline void step_rows(const StepArguments& s, std::int64_t row) {
    Words largest[rows];
    largest_codes<Kind, rows>(s, row, largest);
    for (int group = 0; group < Kind::groups; ++group) add_products<Kind, rows>(s, row, group, largest);
}

template <class Kind>
void step(const StepArguments& s) {
    std::int64_t row = 0;
    for (; row + block_rows <= s.rows; row += block_rows) step_rows<Kind, block_rows>(s, row);
    for (; row < s.rows; ++row) step_rows<Kind, 1>(s, row);
}

// Any operands, one row at a time.

/// NaN and infinities unchanged; other numbers as their sign: -1, 0 or 1.
inline Floats special_or_sign(Floats v) {
    const Words one = ((Words)v & 0x8000'0000U) | 0x3F80'0000U;
    const Floats sign = v != 0 ? (Floats)one : Floats{};
    return exponent(v) == 128 ? v : sign;
}

/// `result`, or the result of NaN and infinities among the addends.
template <class Kind>
inline Floats with_specials(const StepArguments& s, std::int64_t row, int group, Floats c, Floats result) {
    Floats specials = exponent(c) == 128 ? c : Floats{};
    for (int k = 0; k < Kind::products; ++k) {
        const Floats a = special_or_sign(all(s.a[row * s.a_stride + k]));
        specials += a * special_or_sign(load<Floats>(s.b + k * Kind::panel + group * lanes));
    }
    const Floats kept = exponent(specials) == 128 ? specials : result;
    return ((Ints)kept & 0x7FFF'FFFF) > 0x7F80'0000 ? (Floats)all(0x7FFF'FFFFU) : kept;
}

/// The significand in [1, 2), for a bf16 subnormal below 1; 0 for 0.
inline Floats significand(Floats v) {
    const Floats subnormal = v * power_of_two(all(126));
    const Words normal = ((Words)v & 0x807F'FFFFU) | 0x3F80'0000U;
    return exponent(v) == -127 ? subnormal : (Floats)normal;
}

/// v * 2^exponent for |exponent| <= 378, in two steps that do not round if the result is a normal number.
inline Floats scaled(Floats v, Ints exponent) {
    const Ints first = larger(smaller(exponent, all(126)), all(-126));
    const Ints second = larger(smaller(exponent - first, all(126)), all(-126));
    return v * power_of_two(first) * power_of_two(second);
}

/// The sum in units of 2^unit as fp32, truncated to 24 significant bits and to multiples of 2^-149. A sum that is
/// truncated to zero is +0.
inline Floats cut_sum_to_fp32(const SignedWords& sum, Ints unit) {
    const Ints drop = larger(-149 - unit, Ints{});
    const Words shifted = sum.magnitude >> (Words)drop;
    const Words sign = shifted == 0U ? Words{} : sum.sign;
    const Floats magnitude = scaled(to_float_toward_zero(shifted), unit + drop);
    return (Floats)((Words)magnitude | sign);
}

/// bf16 products may be far outside of fp32's range, so that significands and exponents are computed separately.
inline Floats add_wide_products(const StepArguments& s, std::int64_t row, int group, Floats c, Words largest) {
    constexpr int none = -1000;
    constexpr int bias = 2 * bf16_codes.bias;
    constexpr int smallest = bias - 2 * 126;
    const Ints code = unpack<Bf16>(largest, group);
    const Ints of_products = code < smallest ? all(none) : code - bias;
    const Ints of_c = c == 0 ? all(none) : larger(exponent(c), all(-126));
    const Ints top = larger(larger(of_products, of_c), all(smallest_largest_exponent));
    Words sum{};
    for (int k = 0; k < Bf16::products; ++k) {
        const Ints codes = unpack<Bf16>(load<Words>(s.b_codes + k * lanes), group) +
                           static_cast<std::int32_t>(s.a_codes[row * s.a_stride + k] & 0xFFFFU);
        const Ints field = larger(codes - bias - top + (127 + Bf16::kept_below), Ints{});
        const Floats b = significand(load<Floats>(s.b + k * Bf16::panel + group * lanes));
        sum += (Words)to_int(significand(all(s.a[row * s.a_stride + k])) * b * (Floats)(field << 23));
    }
    const Words cut_c = (Words)to_int(scaled(c, Bf16::kept_below - top));
    return cut_sum_to_fp32(add_with_sign(sum, cut_c), top - Bf16::kept_below);
}

template <class Kind>
void general_step(const StepArguments& s) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
        Words largest[1];
        largest_codes<Kind, 1>(s, row, largest);
        for (int group = 0; group < Kind::groups; ++group) {
            float* at = s.c + row * Kind::panel + group * lanes;
            const Floats c = load<Floats>(at);
            Floats result;
            if constexpr (Kind::products == Bf16::products) {
                result = add_wide_products(s, row, group, c, largest[0]);
            } else {
                add_products<Kind, 1>(s, row, group, largest);
                result = load<Floats>(at);
            }
            store(at, with_specials<Kind>(s, row, group, c, result));
        }
    }
}

/// If nothing is truncated, fp32 holds the sum of a step exactly, in any order.
template <int rows>
inline void exact_rows(const StepArguments& s, std::int64_t row) {
    constexpr int panel = Fp8::panel;
    for (int group = 0; group < Fp8::groups; ++group) {
        Floats sum[rows];
        for (int r = 0; r < rows; ++r) sum[r] = Floats{};
        for (int k = 0; k < Fp8::products; ++k) {
            const Floats column = load<Floats>(s.b + k * panel + group * lanes);
            for (int r = 0; r < rows; ++r) sum[r] += column * all(s.a[(row + r) * s.a_stride + k]);
        }
        for (int r = 0; r < rows; ++r) store(s.c + (row + r) * panel + group * lanes, sum[r]);
    }
}

void exact_step(const StepArguments& s) {
    std::int64_t row = 0;
    for (; row + block_rows <= s.rows; row += block_rows) exact_rows<block_rows>(s, row);
    for (; row < s.rows; ++row) exact_rows<1>(s, row);
}

void combine(const CombineArguments& s) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
        float* c = s.c + row * s.panel;
        float* sum = s.sum + row * s.panel;
        if (s.a_scales == nullptr) {
            for (int j = 0; j < s.panel; ++j) sum[j] += c[j];
        } else {
            for (int j = 0; j < s.panel; ++j) sum[j] = __builtin_fmaf(c[j], s.a_scales[row] * s.b_scales[j], sum[j]);
        }
        for (int j = 0; j < s.panel; ++j) c[j] = 0;
    }
}

}  // namespace

const ExactKernels& exact_kernels() {
    static constexpr ExactKernels kernels{
        .lanes = lanes,
        .fp8 = step<Fp8>,
        .bf16 = step<Bf16>,
        .fp8_general = general_step<Fp8>,
        .bf16_general = general_step<Bf16>,
        .fp8_exact = exact_step,
        .combine = combine,
        .fp8_row_codes = fp8_row_codes,
        .bf16_row_codes = bf16_row_codes,
        .fp8_panel_codes = fp8_panel_codes,
        .bf16_panel_codes = bf16_panel_codes,
    };
    return kernels;
}

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
