// The canonical order of a GEMM's additions, as a rule: from the recipe pair follows which tensor-core step multiplies,
// where its chains end and where scales are applied. Pure, so that the planner, the CPU backend and the tests share it.
// docs/numerics.md has the reasons.
#pragma once

#include <tilewright/problem.h>
#include <tilewright/recipe.h>

#include <algorithm>
#include <optional>

namespace tilewright {

/// Which tensor-core instruction multiplies, after both operands were decoded to its format exactly.
enum class StepKind : std::uint8_t {
    fp8,   // 32 products; e4m3 or e5m2 on either side, e2m1 as e4m3
    bf16,  // 16 products; as soon as one side is bf16 or NVFP4 (e2m1 times its ue4m3 scale, exact in bf16)
};

constexpr int step_products(StepKind kind) { return kind == StepKind::fp8 ? 32 : 16; }

/// Products in the tensor core's fp8 sum before promotion to fp32; also the unit in which a plan may split k.
inline constexpr int promotion_interval = 128;

/// When a side's scale multiplies the sums.
enum class ScaleUse : std::uint8_t {
    none,    // never: there is none, or it is decoded into the values
    chains,  // with each chain
    end,     // once, after the last chain
};

/// After each chain acc = fma(p, s, acc), after the last acc * e: s and e are the products of the scales of their use,
/// rounded to fp32. A use that no side has is left out: acc = acc + p.
struct CanonicalOrder {
    StepKind step = StepKind::fp8;
    /// Products in one chain from zero; 0: all of k (of a slice, where a plan splits k).
    int chain = 0;
    ScaleUse a = ScaleUse::none;
    ScaleUse b = ScaleUse::none;

    constexpr bool has(ScaleUse use) const { return a == use || b == use; }
    constexpr bool operator==(const CanonicalOrder&) const = default;
};

/// NVFP4 decodes its block scales into the values; every other scale is applied outside.
constexpr bool scaled_outside(Granularity granularity) {
    return granularity != Granularity::none && granularity != Granularity::block_1x16;
}

/// What varies along k goes with its chains, the rest waits for the end; 1x32 takes the other side's scale with it.
constexpr ScaleUse scale_use(Granularity side, Granularity other) {
    if (!scaled_outside(side)) return ScaleUse::none;
    return k_block(side) != 0 || other == Granularity::block_1x32 ? ScaleUse::chains : ScaleUse::end;
}

/// Whether the two scales multiply the sums one after the other and never each other.
constexpr bool scales_apart(Granularity a, Granularity b) {
    return scaled_outside(a) && scaled_outside(b) && scale_use(a, b) != scale_use(b, a);
}

/// A product of scales (or of alpha and tensor scales) in float64: infinite where fp32 overflows. Every arithmetic
/// applies products of scales (but for `scales_apart`), not one scale after the other, so that this is a property of
/// the call and not of the order.
constexpr double overflow_as_fp32(double product) {
    constexpr double limit = 0x1.ffffffp127;  // from here on fp32 rounds to infinity
    const bool finite = -limit < product && product < limit;
    return finite ? product : product * __builtin_inf();
}
constexpr double scale_product(double a_scale, double b_scale) { return overflow_as_fp32(a_scale * b_scale); }

/// What a sum is multiplied by at the end: alpha and NVFP4's tensor scales.
constexpr double output_factor(float alpha, double a_tensor_scale, double b_tensor_scale) {
    return overflow_as_fp32(double{alpha} * scale_product(a_tensor_scale, b_tensor_scale));
}

/// What the fp8 tensor core can take: fp8 itself, and MXFP4 as e4m3.
constexpr bool multiplies_as_fp8(const OperandRecipe& side) {
    return is_fp8(side.values) || (side.values == Format::e2m1 && side.granularity == Granularity::block_1x32);
}

/// The format in which the tensor core multiplies `values`, which it holds exactly.
constexpr Format multiplied_format(Format values, StepKind step) {
    if (step == StepKind::bf16) return Format::bf16;
    return values == Format::e2m1 ? Format::e4m3 : values;
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
    order.a = scale_use(a.granularity, b.granularity);
    order.b = scale_use(b.granularity, a.granularity);
    for (const Granularity side : {a.granularity, b.granularity}) {
        if (!scaled_outside(side) || k_block(side) == 0) continue;
        order.chain = order.chain == 0 ? k_block(side) : std::min(order.chain, k_block(side));
    }
    const bool promoted = order.step == StepKind::fp8 && accumulation == Accumulation::promoted;
    if (order.chain == 0 && promoted) order.chain = promotion_interval;
    return order;
}

}  // namespace tilewright
