// The combinations of a kernel's fields that have a meaning. Any other fails to compile. src/plan/legality.cpp adds the
// rules that depend on a call or on a device.
#pragma once

#include "hopper/description/kernel.h"

namespace tilewright::hopper {

/// Whether a side's scales multiply the sum of each k-block, one per row.
constexpr bool has_1x128_scales(const Side& side, ScaleUse use) {
    return use == ScaleUse::chains && side.scale_rows == 1 && side.scale_k == 128;
}

/// Whether the pair of scales has kernels for all outputs and orders of scales. Other pairs have kernels for any output
/// and for D of f32. Scales of packed weights are decoded with them. A folded gradient of weights has 1x128 scales with
/// no scales on the other side.
constexpr bool has_all_outputs(const Kernel& kernel) {
    const CanonicalOrder& order = kernel.order;
    if (kernel.b.is_packed()) return true;
    if (order.chain == 32) return false;
    if (order.a == ScaleUse::end) return order.folded == Folded::none;
    if (!has_1x128_scales(kernel.a, order.a)) return false;
    const bool folded = kernel.groups == Groups::k_aligned && kernel.b.scale_rows == 0;
    return folded || order.b == ScaleUse::chains;
}

/// Why the fields contradict each other, or null.
constexpr const char* contradiction(const Kernel& kernel) {
    const auto& [step, chain, use_a, use_b, folded, defers] = kernel.order;
    const Side &a = kernel.a, &b = kernel.b;
    const bool bf16 = step == StepKind::bf16, steps = chain == 32, packed = b.is_packed();
    const bool k_grouped = kernel.is_k_grouped();
    const bool shares = kernel.cluster.shares_operand(), clustered = kernel.cluster.size > 1;
    const bool mn_major = a.form == Form::columns || b.form == Form::columns;
    const bool f32 = kernel.output == Output::f32_by_tma, bf16_output = kernel.output == Output::bf16_by_tma;

    if ((kernel.cluster.use == ClusterUse::none) == clustered) return "a cluster has a use and more than one block";
    if (clustered && kernel.debug.every_lane_arrives) return "blocks of a cluster have one arrival per warp";

    if (a.is_packed()) return "packed weights are b";
    if (packed && !kernel.swap_ab) return "packed weights are decoded on the rows of the tensor core, with swap";
    if (packed && b.values == ValueFormat::e5m2) return "packed weights are decoded to e4m3 or bf16";
    if (packed && (mn_major || shares || k_grouped)) return "packed weights take registers that this kernel needs";
    if ((kernel.swap_ab ? a : b).form == Form::columns) return "an MN-major operand is on the rows of the tensor core";
    if (mn_major && shares) return "an MN-major operand is taken from registers, which blocks do not share";
    if (kernel.wide_rows && !packed) return "only packed weights have wide rows";
    if (b.form == Form::rows_and_tiles && (steps || bf16))
        return "values are read in place for fp8 with scales of rows";

    if (bf16 != (a.values == ValueFormat::bf16)) return "a has the values that the tensor core multiplies";
    if (bf16 != (b.values == ValueFormat::bf16)) return "bf16 is multiplied by bf16";
    if ((a.is_nvfp4() || b.is_nvfp4()) && !bf16) return "NVFP4 is multiplied as bf16";
    if (bf16 && kernel.output != Output::any) return "kernels for bf16 have no version for one output";
    if (bf16 && !packed) {
        if (folded != Folded::b && !b.is_nvfp4() && b.scale_k != 32) return "weights in bf16 were FP4";
        if (mn_major || shares || k_grouped)
            return "kernels of bf16 on both sides are K-major, without pairs of blocks";
    }
    if (bf16 && use_a != ScaleUse::none && !b.is_nvfp4()) return "tokens in bf16 have scales only with NVFP4 weights";

    const bool squares_of_a = use_a == ScaleUse::chains && a.scale_rows == 128;
    const bool squares_of_b = use_b == ScaleUse::chains && b.scale_rows == 128;
    if (!steps && squares_of_a && b.scale_rows != 0 && !squares_of_b)
        return "128x128 scales of a go with the same of b";
    if (steps && (use_a == ScaleUse::end || use_b == ScaleUse::end))
        return "with 1x32 scales the others multiply each step too";
    if (steps && (mn_major || shares || k_grouped || bf16_output || f32))
        return "kernels for 1x32 scales have one version";
    if (steps && packed && kernel.shape.m != 64 * kernel.shape.warpgroups)
        return "kernels for 1x32 scales with packed weights have 64 rows per warpgroup";

    if (k_grouped && (mn_major || clustered)) return "k-grouped kernels are K-major, without clusters";
    if (f32 && (kernel.swap_ab || mn_major || clustered || kernel.groups == Groups::rows))
        return "kernels for D of f32 store rows of one block";
    if (bf16_output && !has_all_outputs(kernel)) return "this pair of scales has no kernel for D of bf16 only";
    if (kernel.scales_along_k && (!bf16_output || !has_1x128_scales(a, use_a)))
        return "only kernels for D of bf16 with 1x128 scales of a have an order of scales";
    return nullptr;
}

}  // namespace tilewright::hopper
