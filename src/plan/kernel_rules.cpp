// The combinations of a kernel's fields that contradict each other, each with its reason.
#include "plan/kernel_class.h"

namespace tilewright::planner {

using hopper::Form, hopper::Groups, hopper::Output, hopper::Side, hopper::ValueFormat;

const char* contradiction(const hopper::Kernel& kernel) {
    const Side &a = kernel.a, &b = kernel.b;
    const bool bf16 = kernel.order.step == StepKind::bf16, steps = kernel.order.chain == hopper::step_k;
    const bool packed = b.is_packed(), k_grouped = kernel.is_k_grouped();
    const bool shares = kernel.cluster.shares_operand(), clustered = kernel.cluster.size() > 1;
    const bool mn_major = a.form == Form::columns || b.form == Form::columns;
    const bool f32 = kernel.output == Output::f32_by_tma, bf16_output = kernel.output == Output::bf16_by_tma;

    const hopper::Cluster& cluster = kernel.cluster;
    if (int(cluster.rows > 1) + int(cluster.columns > 1) + int(cluster.k_slices > 1) > 1)
        return "the blocks of a cluster share a, share b or split k";
    if (clustered && kernel.debug.every_lane_arrives) return "blocks of a cluster have one arrival per warp";

    if (a.is_packed()) return "packed weights are b";
    if (packed && !kernel.swap_ab) return "packed weights are decoded on the rows of the tensor core, with swap";
    if (packed && b.values == ValueFormat::e5m2) return "packed weights are decoded to e4m3 or bf16";
    if (packed && (mn_major || shares || k_grouped)) return "packed weights take registers that this kernel needs";
    if (kernel.wide_rows && !packed) return "only packed weights have wide rows";
    if (b.form == Form::rows_and_tiles && (steps || bf16))
        return "values are read in place for fp8 with scales of rows";

    if (!kernel.swap_ab && b.form == Form::columns) return "an N-major b is on the rows of the tensor core, with swap";
    if (kernel.swap_ab && a.form == Form::columns)
        return "an M-major a is on the rows of the tensor core, without swap";
    if (mn_major && shares) return "an MN-major operand is taken from registers, which blocks do not share";
    if (bf16 && !packed && (mn_major || shares || k_grouped))
        return "kernels of bf16 on both sides are K-major, without pairs of blocks";
    if (steps && (mn_major || shares || k_grouped))
        return "kernels for 1x32 scales are K-major, without pairs of blocks";
    if (steps && packed && kernel.shape.m != 64 * kernel.shape.warpgroups)
        return "kernels for 1x32 scales with packed weights have 64 rows per warpgroup";
    if (k_grouped && (mn_major || clustered)) return "k-grouped kernels are K-major, without clusters";

    const bool expanded = kernel.order.folded == Folded::b && !packed;
    if ((steps || bf16 || expanded) && kernel.output != Output::any)
        return "kernels for bf16, 1x32 scales or expanded weights are for any output";
    if (f32 && (kernel.swap_ab || mn_major || clustered || kernel.groups == Groups::rows))
        return "kernels for D of f32 store rows of one block";
    if (kernel.scales_along_k && (!bf16_output || !has_1x128_scales(a, kernel.order.a)))
        return "only kernels for D of bf16 with 1x128 scales of a have an order of scales";
    return nullptr;
}

}  // namespace tilewright::planner
