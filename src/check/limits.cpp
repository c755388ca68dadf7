#include "check/limits.h"

#include "formats/element.h"
#include "problem/canonical_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright::check {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();

}  // namespace

ErrorClass error_class(const Recipe& recipe, Accumulation accumulation, Arithmetic arithmetic) {
    const auto order = canonical_order(recipe, accumulation);
    if (arithmetic == Arithmetic::fast || !order) return ErrorClass::fp32;
    if (order->step == StepKind::bf16) return ErrorClass::bf16_operands;
    if (order->chain == 0) return ErrorClass::fp8_unpromoted;
    if (is_mxfp4(recipe.a) && is_mxfp4(recipe.b)) return ErrorClass::mxfp4_mxfp4;
    if (order->folded != Folded::none && order->chain == 32) return ErrorClass::mxfp8_mxfp4;
    return ErrorClass::fp8_promoted;
}

std::string_view name(ErrorClass error_class) {
    switch (error_class) {
        case ErrorClass::fp8_promoted: return "fp8, promoted";
        case ErrorClass::fp8_unpromoted: return "fp8, not promoted";
        case ErrorClass::mxfp8_mxfp4: return "MXFP8 with MXFP4";
        case ErrorClass::mxfp4_mxfp4: return "MXFP4 with MXFP4";
        case ErrorClass::bf16_operands: return "bf16 or NVFP4 on a side";
        case ErrorClass::fp32: return "arithmetic `fast`";
    }
    return "unknown class";
}

Limits limits(ErrorClass error_class, std::int64_t k) {
    const auto count = static_cast<double>(k);
    Limits all{.zero_mean = 5e-4, .same_sign = 1.25e-3, .group = 2.5e-3, .row = 4e-3, .magnitude = 0x1p-8};
    switch (error_class) {
        case ErrorClass::fp8_promoted: all.row = 4.5e-3; break;
        case ErrorClass::fp8_unpromoted:
            all = {.zero_mean = 5e-3, .same_sign = none, .group = 5.5e-3, .row = 8e-3, .magnitude = count * 0x1p-15};
            break;
        case ErrorClass::mxfp8_mxfp4:
            all.zero_mean = all.same_sign = 1e-4;
            all.magnitude = 0x1p-10;
            break;
        case ErrorClass::mxfp4_mxfp4:
            all.zero_mean = all.same_sign = 1e-6;
            all.magnitude = (count / 32 + 2) * 0x1p-24;
            break;
        case ErrorClass::bf16_operands:
            all.zero_mean = k <= 4096 ? 1e-5 : 5e-5 * std::max(1.0, count / 16384);
            all.same_sign = 1e-5 + count * 0x1p-27;
            all.magnitude = count * 0x1p-26;
            break;
        case ErrorClass::fp32:
            all.zero_mean = 1e-6 + count * 0x1p-29;
            all.same_sign = 1e-6 + count * 0x1p-26;
            all.magnitude = (count + 8) * 0x1p-24;
            break;
    }
    return all;
}

double relative_limit(const Limits& limits, Format output, bool same_sign, bool row) {
    const double f32 = same_sign ? limits.same_sign : limits.zero_mean;
    if (std::isinf(f32)) return none;
    const double bf16 = row ? limits.row : limits.group;
    switch (output) {
        case Format::bf16: return bf16;
        case Format::f16: return f32 + bf16 / 8;
        default: return row ? 2 * f32 : f32;
    }
}

double unit_roundoff(Format output) { return std::ldexp(1, -1 - formats::fields(output).mantissa_bits); }

double smallest_number(Format output) {
    const formats::Fields& fields = formats::fields(output);
    return std::ldexp(1, fields.smallest_exponent() - fields.mantissa_bits);
}

}  // namespace tilewright::check
