// The canonical order of a GEMM's additions. The recipe pair decides which tensor-core step multiplies, where its
// chains end and where scales are applied. Pure functions, so that the planner, the CPU backend and the tests share
// them. docs/numerics.md has the reasons.
#pragma once

#include "formats/codec.h"
#include "formats/order.h"
#include "formats/row_exponents.h"

#include <tilewright/problem.h>
#include <tilewright/recipe.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tilewright {

constexpr int step_products(StepKind kind) { return kind == StepKind::fp8 ? 32 : 16; }

/// Products in the tensor core's fp8 sum before promotion to fp32; also the unit in which a plan may split k.
inline constexpr int promotion_interval = 128;

/// NVFP4 decodes its block scales into the values (times `nvfp4_value_factor`); every other scale is applied outside.
constexpr bool scaled_outside(Granularity granularity) {
    return granularity != Granularity::none && granularity != Granularity::block_1x16;
}

constexpr bool is_bf16(const OperandRecipe& side) { return side.values == Format::bf16; }
constexpr bool is_nvfp4(const OperandRecipe& side) { return side.granularity == Granularity::block_1x16; }
constexpr bool is_mxfp4(const OperandRecipe& side) {
    return side.values == Format::e2m1 && side.granularity == Granularity::block_1x32;
}

/// Nothing is folded where the other side has no canonical order.
constexpr Folded folded_side(const Recipe& recipe) {
    if (is_mxfp4(recipe.b)) return Folded::b;
    return is_mxfp4(recipe.a) ? Folded::a : Folded::none;
}

/// Scales that vary along k are applied with their chains, the others in the epilogue. Exception: a 1x32 side applies
/// the other side's scale with its own chains. A folded 1x32 side does not, because it does not scale sums.
constexpr ScaleUse scale_use(const OperandRecipe& side, const OperandRecipe& other, bool folds) {
    if (!scaled_outside(side.granularity)) return ScaleUse::none;
    const bool together = !folds && other.granularity == Granularity::block_1x32;
    return k_block(side.granularity) != 0 || together ? ScaleUse::chains : ScaleUse::end;
}

/// Whether the two scales multiply the sums one after the other and never each other.
constexpr bool scales_apart(const Recipe& recipe) {
    const auto& [a, b] = recipe;
    if (!scaled_outside(a.granularity) || !scaled_outside(b.granularity)) return false;
    if (folded_side(recipe) != Folded::none) return true;
    return scale_use(a, b, false) != scale_use(b, a, false);
}

/// Whether NVFP4's tensor scale is multiplied with the other side's epilogue scale, and not with alpha.
constexpr bool tensor_scale_at_end(const Recipe& recipe) {
    const auto& [a, b] = recipe;
    return (is_nvfp4(a) && scaled_outside(b.granularity)) || (is_nvfp4(b) && scaled_outside(a.granularity));
}

/// A product of scales (or of alpha and tensor scales) in float64: infinite where fp32 overflows. Every arithmetic
/// applies products of scales (except `scales_apart`), not one scale after the other. Overflow is then a property of
/// the call and not of the order.
constexpr double overflow_as_fp32(double product) {
    constexpr double limit = 0x1.ffffffp127;  // from here on fp32 rounds to infinity
    const bool finite = -limit < product && product < limit;
    return finite ? product : product * __builtin_inf();
}
constexpr double scale_product(double a_scale, double b_scale) { return overflow_as_fp32(a_scale * b_scale); }

/// The factor that a sum is multiplied by at the end: alpha and NVFP4's tensor scales.
constexpr double output_factor(float alpha, double a_tensor_scale, double b_tensor_scale) {
    return overflow_as_fp32(double{alpha} * scale_product(a_tensor_scale, b_tensor_scale));
}

/// The operands that the fp8 tensor core can multiply: fp8 itself, and MXFP4 as e4m3.
constexpr bool multiplies_as_fp8(const OperandRecipe& side) { return is_fp8(side.values) || is_mxfp4(side); }

/// The format in which the tensor core multiplies `values`, which it holds exactly.
constexpr Format multiplied_format(Format values, StepKind step) {
    if (step == StepKind::bf16) return Format::bf16;
    return values == Format::e2m1 ? Format::e4m3 : values;
}

/// The largest difference of exponents in a row of the folded side that one reference supports (formats/row_exponents.h
/// has the reason). It is also the exponent of the factor for values with the reference's own scale.
constexpr int fold_range(StepKind step) {
    return step == StepKind::fp8 ? formats::fp8_exponent_range : formats::bf16_exponent_range;
}
constexpr int fold_top(StepKind step) { return step == StepKind::fp8 ? formats::fp8_top_exponent : 0; }

/// Half of the factor of a window's chains.
constexpr int window_half(int top) { return (top - formats::fp8_top_exponent) >> 1; }

/// The order of rows of a folded side whose exponents are further apart:
/// - fp8: every scale of the other side is applied with the chains.
/// - bf16: nothing is folded; chains have 32 products and are multiplied by their scale.
constexpr CanonicalOrder wide_order(CanonicalOrder order) {
    if (order.step == StepKind::fp8) {
        if (order.a == ScaleUse::end) order.a = ScaleUse::chains;
        if (order.b == ScaleUse::end) order.b = ScaleUse::chains;
        order.defers = false;  // a window's factors are multiplied with the scales
        return order;
    }
    return {.step = order.step,
            .chain = 32,
            .a = order.folded == Folded::a ? ScaleUse::chains : ScaleUse::none,
            .b = order.folded == Folded::b ? ScaleUse::chains : ScaleUse::none};
}

/// Nothing for f16 and f32 operands, which Hopper's canonical order does not define. Not for recipes that
/// `is_accepted` refuses.
constexpr std::optional<CanonicalOrder> canonical_order(const Recipe& recipe, Accumulation accumulation) {
    const auto& [a, b] = recipe;
    for (const Format values : {a.values, b.values}) {
        if (values == Format::f16 || values == Format::f32) return std::nullopt;
    }
    CanonicalOrder order;
    order.step = multiplies_as_fp8(a) && multiplies_as_fp8(b) ? StepKind::fp8 : StepKind::bf16;
    order.folded = folded_side(recipe);
    const bool folds = order.folded != Folded::none;
    order.a = order.folded == Folded::a ? ScaleUse::none : scale_use(a, b, folds);
    order.b = order.folded == Folded::b ? ScaleUse::none : scale_use(b, a, folds);
    for (const auto& [side, use] : {std::pair(a.granularity, order.a), std::pair(b.granularity, order.b)}) {
        if (use != ScaleUse::chains || k_block(side) == 0) continue;
        order.chain = order.chain == 0 ? k_block(side) : std::min(order.chain, k_block(side));
    }
    const bool promoted = order.step == StepKind::fp8 && accumulation == Accumulation::promoted;
    if (order.chain == 0 && promoted) order.chain = promotion_interval;
    const bool others_wait = order.has(ScaleUse::end) || folds || tensor_scale_at_end(recipe);
    order.defers = order.has(ScaleUse::chains) && others_wait;
    return order;
}

}  // namespace tilewright
