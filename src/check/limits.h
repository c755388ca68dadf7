// How large an error may be, recipe by recipe: the one table of these numbers. docs/numerics.md shows it, and a test
// compares the two.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <string_view>

namespace tilewright::check {

/// Recipes whose sums are cut in the same way.
enum class ErrorClass : std::uint8_t {
    fp8_promoted,    // fp8 products, at most 128 in the tensor core's 14-bit sum.
    fp8_unpromoted,  // All of k in the tensor core.
    mxfp8_mxfp4,     // MXFP8 with MXFP4: at most 32 products, of narrow range.
    mxfp4_mxfp4,     // No product and no sum of 32 is cut: fp32 additions only.
    bf16_operands,   // The tensor core's 24-bit sum.
    fp32,            // The arithmetic `fast`.
};
inline constexpr ErrorClass error_classes[] = {ErrorClass::fp8_promoted,  ErrorClass::fp8_unpromoted,
                                               ErrorClass::mxfp8_mxfp4,   ErrorClass::mxfp4_mxfp4,
                                               ErrorClass::bf16_operands, ErrorClass::fp32};

ErrorClass error_class(const Recipe& recipe, Accumulation accumulation, Arithmetic arithmetic);
std::string_view name(ErrorClass error_class);

/// relL2 is ||D - exact|| / ||exact||. Same sign: sum of |exact| is at least a quarter of the sum of |a b|, so that
/// little cancels and the cuts, all toward zero, add up. Infinity: no limit is of use.
struct Limits {
    double zero_mean;  // relL2 of f32 outputs, of a group or the whole
    double same_sign;
    double group;      // relL2 of bf16 outputs, any sign (none where same_sign has none)
    double row;        // over a row, or a chunk of it
    double magnitude;  // where the running bound costs too much: |error| <= u_out |D| + magnitude * sum of |a b|
};
Limits limits(ErrorClass error_class, std::int64_t k);

/// The limits for a narrower output than f32: f16's unit roundoff is an eighth of bf16's.
double relative_limit(const Limits& limits, Format output, bool same_sign, bool row);

/// Half of a last place, relative: 2^-8 for bf16, 2^-11 for f16, 2^-24 for f32.
double unit_roundoff(Format output);
double smallest_number(Format output);

}  // namespace tilewright::check
