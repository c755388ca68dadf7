// The inner loops of the arithmetic `bit_exact`: one tensor-core step for some rows of A and one panel of columns of B,
// vectorised over the columns. Compiled once for each instruction level; every level returns the same bits.
//
// Operands arrive decoded to fp32, which holds every fp8 and bf16 value, together with their exponents as small codes:
// a number's code is its exponent + bias, a zero's code is 0, and the bias is so large that a product with a zero has a
// smaller sum of codes than any other. Codes of several columns share a 32-bit word, so that one vector addition and
// one maximum serve them all: word i of a panel holds columns i, i + lanes, i + 2 lanes, ..., lowest bits first.
#pragma once

#include "cpu/isa.h"

#include <cstdint>

namespace tilewright::cpu {

/// How exponents are coded for each kind of step.
struct ExponentCode {
    int bits;                // of one code
    int bias;                // code of 2^0
    int smallest_of_result;  // of a product of two nonzero operands, without general numbers

    constexpr int columns_per_word() const { return 32 / bits; }
    /// Times a code: the code in all the fields of a word.
    constexpr std::uint32_t replicate() const { return bits == 8 ? 0x0101'0101U : 0x1'0001U; }
};
inline constexpr ExponentCode fp8_codes{.bits = 8, .bias = 44, .smallest_of_result = -28};

/// The range of bf16 operands whose products, sums and scales all stay within fp32: 2^-50 to below 2^51, and 0. Steps
/// with other operands are `general`.
inline constexpr int bf16_range_exponent = 50;
inline constexpr ExponentCode bf16_codes{.bits = 16, .bias = 380, .smallest_of_result = -2 * bf16_range_exponent};

/// One step, in place in the accumulators c. k runs over the step's 32 or 16 products.
struct StepArguments {
    const float* a = nullptr;                // [rows, k], rows `a_stride` apart
    const std::uint32_t* a_codes = nullptr;  // the same; each code in all the fields of its word
    const float* b = nullptr;                // [k, panel]
    const std::uint32_t* b_codes = nullptr;  // [k, lanes]
    float* c = nullptr;                      // [rows, panel]
    std::int64_t a_stride = 0;
    std::int64_t rows = 0;
};

/// The end of a chain: acc = fma(c, s_a * s_b, acc), or acc + c without scales; c = 0.
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
    const float* values = nullptr;       // [count]; `panel_codes`: [count / panel, panel]
    std::uint32_t* codes = nullptr;      // [count]; `panel_codes`: [count / panel, lanes]
    std::int64_t count = 0;              // a multiple of 16; `panel_codes`: of the panel
    std::int32_t smallest_exponent = 0;  // of the format that is multiplied, with which its subnormals count
};

/// The bits of the largest magnitude and of the smallest that is not zero; without any: 0 and 0x7FFF'FFFF.
struct Extent {
    std::int32_t largest = 0;
    std::int32_t smallest = 0;
};

struct ExactKernels {
    int lanes;  // floats in a vector; a panel has lanes * columns_per_word columns

    /// No NaN or infinity, c zero or the result of such steps.
    void (*fp8)(const StepArguments&);
    /// The same; and bf16 operands within that range.
    void (*bf16)(const StepArguments&);
    /// Any operands.
    void (*fp8_general)(const StepArguments&);
    void (*bf16_general)(const StepArguments&);
    /// fp8 steps in which no product is cut and c is zero: e2m1 with e2m1. Codes are not read.
    void (*fp8_exact)(const StepArguments&);

    void (*combine)(const CombineArguments&);

    Extent (*fp8_row_codes)(const CodeArguments&);
    Extent (*bf16_row_codes)(const CodeArguments&);
    Extent (*fp8_panel_codes)(const CodeArguments&);
    Extent (*bf16_panel_codes)(const CodeArguments&);
};

/// The kernels of a level that this CPU has.
const ExactKernels& exact_kernels(Isa isa);

// One definition for each level. The functions of codes.cpp, which the table names, are declared in kinds.h.
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
