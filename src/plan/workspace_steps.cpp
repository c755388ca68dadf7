#include "plan/workspace_steps.h"

#include "problem/canonical_order.h"

namespace tilewright::planner {
namespace {

std::string reason(CopyReason why) {
    switch (why) {
        case CopyReason::strides: return "TMA does not support its strides";
        case CopyReason::groups_of_rows:
            return "groups may begin at any row, and TMA loads only from multiples of 16 bytes";
        case CopyReason::groups_of_k: return "k-grouped kernels read fp8 only along k";
        case CopyReason::scales_of_32: return "kernels for 1x32 scales read fp8 only along k";
        case CopyReason::packed_weights: return "only one operand may pass through registers, and FP4 weights do";
        case CopyReason::both_along_rows:
            return "only one operand may pass through registers, and this one is not the larger";
        case CopyReason::many_rows:
            return "for this many rows one copy takes less time than a transposition for each tile of D";
    }
    return "";
}

WorkspaceStep step(const CopyAlongK& copy, const char* operand) {
    return {.operand = operand, .what = "copied along k", .why = reason(copy.why), .bytes = copy.bytes()};
}

/// `other`: the recipe of the other side, in the caller's formats.
WorkspaceStep step(const DecodedOperand& decoding, const char* operand, const OperandRecipe& other) {
    const std::string format(name(decoding.values));
    const bool of_fp4 = decoding.from.recipe.values == Format::e2m1;
    return {.operand = operand,
            .what = "decoded to " + format,
            .why = (of_fp4 ? "FP4 activations are multiplied as " : name(other) + " is multiplied as ") + format,
            .bytes = decoding.bytes()};
}

WorkspaceStep step(const WeightPacking& packing) {
    if (packing.raw) {
        return {.operand = "b.scales",
                .what = "arranged in tiles",
                .why = "the kernel reads the codes of unpacked weights in place, and their scales in tiles",
                .bytes = packing.packed.bytes};
    }
    return {.operand = "b",
            .what = "packed",
            .why = "kernels read these FP4 weights only packed; pack_weights does it once for all calls",
            .bytes = packing.packed.bytes};
}

WorkspaceStep step(const ExpandedWeights& expansion) {
    const std::string format(name(expansion.values));
    return {.operand = "b.packed",
            .what = "expanded to " + format,
            .why = "for this many rows a kernel of " + format + " weights takes less time than one that decodes",
            .bytes = expansion.bytes()};
}

}  // namespace

std::vector<WorkspaceStep> workspace_steps(const GpuCall& call) {
    const WorkspacePlan& before = call.before;
    std::vector<WorkspaceStep> steps;
    if (before.copy_a) steps.push_back(step(*before.copy_a, "a.values"));
    if (before.copy_b) steps.push_back(step(*before.copy_b, "b.values"));
    if (before.decode_a) steps.push_back(step(*before.decode_a, "a.values", call.geometry.b.recipe));
    if (before.decode_b) steps.push_back(step(*before.decode_b, "b.values", call.geometry.a.recipe));
    if (before.expand_b) steps.push_back(step(*before.expand_b));
    if (before.pack_b) steps.push_back(step(*before.pack_b));
    return steps;
}

}  // namespace tilewright::planner
