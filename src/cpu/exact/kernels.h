// The inner loops of the arithmetic `bit_exact`: one tensor-core step for some rows of A and one panel of columns of B.
// They are vectorised over the columns and compiled once per instruction level. Every level returns the same bits.
//
// Operands arrive decoded to fp32, which holds every fp8 and bf16 value, together with their exponents as small codes.
// The code of a number is its exponent + bias, the code of zero is 0. The bias is so large that a product with a zero
// has a smaller sum of codes than any other product. Codes of several columns share a 32-bit word, so that one vector
// addition and one maximum serve them all. Word i of a panel holds columns i, i + lanes, i + 2 lanes, ..., lowest bits
// first.
#pragma once

#include "cpu/isa.h"

#include <cstdint>

namespace tilewright::cpu {

/// The coding of exponents per kind of step.
struct ExponentCode {
    int bits;  // bits of one code
    int bias;  // code of 2^0
    // Code of the smallest product of two nonzero operands, without general numbers.
    int smallest_of_result;

    constexpr int columns_per_word() const { return 32 / bits; }
    /// Times a code: the code in all fields of a word.
    constexpr std::uint32_t replicate() const { return bits == 8 ? 0x0101'0101U : 0x1'0001U; }
};
inline constexpr ExponentCode fp8_codes{.bits = 8, .bias = 44, .smallest_of_result = -28};

/// The range of bf16 operands whose products, sums and scales all stay within fp32: 2^-50 to below 2^51, and 0. Steps
/// with other operands are `general`.
inline constexpr int bf16_range_exponent = 50;
inline constexpr ExponentCode bf16_codes{.bits = 16, .bias = 380, .smallest_of_result = -2 * bf16_range_exponent};

/// One step, in place in the accumulators c. k runs over the step's 32 or 16 products.
struct StepArguments {
    const float* a = nullptr;                // [rows, k], rows `a_stride` apart.
    const std::uint32_t* a_codes = nullptr;  // As a; each code in all fields of its word.
    const float* b = nullptr;                // [k, panel].
    const std::uint32_t* b_codes = nullptr;  // [k, lanes].
    float* c = nullptr;                      // [rows, panel].
    std::int64_t a_stride = 0;
    std::int64_t rows = 0;
};

/// The end of a chain: acc = fma(c, s_a * s_b, acc), or acc + c without scales; then c = 0.
struct CombineArguments {
    float* c = nullptr;               // [rows, panel]
    float* sum = nullptr;             // [rows, panel]
    const float* a_scales = nullptr;  // [rows]; null: no scales
    const float* b_scales = nullptr;  // [panel]
    std::int64_t rows = 0;
    int panel = 0;
};

/// Writes the codes of decoded values.
struct CodeArguments {
    const float* values = nullptr;   // [count]. `panel_codes`: [count / panel, panel].
    std::uint32_t* codes = nullptr;  // [count]. `panel_codes`: [count / panel, lanes].
    std::int64_t count = 0;          // A multiple of 16. `panel_codes`: a multiple of the panel.
    // The smallest exponent of the format that is multiplied, with which its subnormals count.
    std::int32_t smallest_exponent = 0;
};

/// The bits of the largest magnitude and of the smallest nonzero one. If all are zero: 0 and 0x7FFF'FFFF.
struct Extent {
    std::int32_t largest = 0;
    std::int32_t smallest = 0;
};

struct ExactKernels {
    int lanes;  // floats in a vector; a panel has lanes * columns_per_word columns

    /// For operands without NaN or infinity; c is zero or the result of such steps.
    void (*fp8)(const StepArguments&);
    /// The same, for bf16 operands within that range.
    void (*bf16)(const StepArguments&);
    /// For any operands.
    void (*fp8_general)(const StepArguments&);
    void (*bf16_general)(const StepArguments&);
    /// fp8 steps in which no product is truncated and c is zero: e2m1 x e2m1. Codes are not read.
    void (*fp8_exact)(const StepArguments&);

    void (*combine)(const CombineArguments&);

    Extent (*fp8_row_codes)(const CodeArguments&);
    Extent (*bf16_row_codes)(const CodeArguments&);
    Extent (*fp8_panel_codes)(const CodeArguments&);
    Extent (*bf16_panel_codes)(const CodeArguments&);
};

/// The kernels of a level that this CPU has.
const ExactKernels& exact_kernels(Isa isa);

// One definition per level. kinds.h declares the functions of codes.cpp, which the table names.
namespace baseline {
const ExactKernels& exact_kernels();
}
#if defined(__x86_64__)
namespace avx2 {
const ExactKernels& exact_kernels();
}
namespace avx512 {
const ExactKernels& exact_kernels();
}
#endif

}  // namespace tilewright::cpu
