// The words of `explain`: a kernel, and what a call writes into its workspace first.
#include <fmt/format.h>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "problem/canonical_order.h"

namespace tilewright::planner {
namespace {

using hopper::FeedKind;

// ---- The path through a kernel

std::string feed_words(const hopper::Design& tile) {
    const std::string from =
        tile.b.form == hopper::Form::rows_and_tiles ? "unpacked FP4 weights" : "packed FP4 weights";
    switch (tile.feed) {
        case FeedKind::shared: return "both operands from shared memory";
        case FeedKind::transposed:
            return std::string(tile.a.form == hopper::Form::columns ? "a" : "b") + " transposed in registers";
        case FeedKind::decoded: return from + " decoded to e4m3 in registers";
        case FeedKind::windowed: return from + " decoded to e4m3 in registers, wide rows once per exponent window";
        case FeedKind::decoded_to_bf16: return from + " decoded to bf16 in registers";
    }
    return "";
}

/// In the order in which multiply/mainloop.h chooses.
std::string loop_words(const hopper::Design& tile) {
    if (tile.order.chain == hopper::step_k) return "sums of 32 k-elements, each scaled and added in fp32";
    if (tile.order.chain == 0) {
        const std::string all = "one sum over k in the tensor core";
        return tile.wide_rows ? all + ", wide rows again in sums of 32 k-elements" : all;
    }
    std::string sums = tile.order.has(ScaleUse::chains) ? "sums of 128 k-elements, each scaled and added in fp32"
                                                        : "sums of 128 k-elements, each added in fp32";
    if (tile.loop == hopper::Loop::two_partials) return sums + ", two at a time";
    if (tile.loop != hopper::Loop::filling_next) return sums;
    const bool decodes = tile.feed != FeedKind::transposed;
    return sums + (decodes ? ", the next rows decoded meanwhile" : ", the next rows transposed meanwhile");
}

/// 1x128 and 1x32 scales, which change along k.
std::string row_scale_route(const KernelPlan& kernel) {
    const hopper::Design& tile = kernel.tile;
    if (tile.order.chain == hopper::step_k) return "loaded by a warp for every 32 k-elements";
    if (kernel.scales_by_tma) return tile.k_blocks_per_scale_copy == 4 ? "by TMA, for four k-blocks at once" : "by TMA";
    return tile.scale_route.copies ? "copied by a warp for every k-block" : "loaded by a warp for every k-block";
}

std::string scale_words(const KernelPlan& kernel) {
    const hopper::Design& tile = kernel.tile;
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
    if (tile.order.has(ScaleUse::chains)) add("of rows in the loop, " + row_scale_route(kernel));
    if (tile.block_scales_per_k_block > 0) add("of 128x128 blocks in the loop, loaded by a warp in chunks");
    if (tile.has_epilogue_scales) {
        add("of rows or tensors at the end");
    } else if (tile.a.is_nvfp4() || tile.b.is_nvfp4()) {
        add("of NVFP4 tensors with alpha");
    }
    return text.empty() ? "none" : text;
}

std::string output_words(const KernelPlan& kernel) {
    if (kernel.tile.cluster.k_slices > 1) return "slices of k added in order, stored by threads";
    const char* const stored = kernel.stores_by_tma ? "stored by TMA" : "stored by threads";
    if (kernel.tile.output != hopper::Output::f32_by_tma) return stored;
    return fmt::format("f32, {} through the memory that C is loaded into", stored);
}

// ---- The workspace

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
    return {.operand = packing.raw ? "b.scales" : "b",
            .what = packing.raw ? "arranged in tiles" : "packed",
            .why = packing.raw ? "the kernel reads the codes of unpacked weights in place, and their scales in tiles"
                               : "kernels read these FP4 weights only packed; pack_weights does it once for all calls",
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

KernelPath kernel_path(const KernelPlan& kernel) {
    const hopper::Design& design = kernel.tile;
    return {.feed = feed_words(design),
            .loop = loop_words(design),
            .scales = scale_words(kernel),
            .output = output_words(kernel)};
}

}  // namespace tilewright::planner
