// Which pairs of operands a Hopper GPU multiplies, and how each side gets to its tensor cores: one table. Validation,
// the plan of the workspace, the planner's class of kernels, `verify` and `tilewright support` read it.
#pragma once

#include <tilewright/recipe.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "problem/canonical_order.h"

namespace tilewright {

/// The way of one side's values to the tensor cores.
enum class Arrival : std::uint8_t {
    either_order,  // Read as they are, along k or along their rows. workspace_plan.h says which are copied along k.
    along_k,       // Read along k. Values along their rows are copied.
    only_along_k,  // Read along k. Values along their rows are refused.
    decoded,       // Decoded into the workspace, to the format that is multiplied.
    tiles,         // FP4 weights, packed in tiles in advance or by the call, and decoded in registers.
};

/// Pairs that a GPU runs in the same groupings and layouts.
struct PairGroup {
    const char* title;             // as `tilewright support` names it
    const char* no_groups_of_k{};  // The operand that no k-grouped kernel has; null: there are k-grouped kernels.
};
inline constexpr PairGroup fp8_pairs{"fp8 x fp8"};
inline constexpr PairGroup mxfp8_pairs{"MXFP8 x fp8; fp8, MXFP8 or NVFP4 x MXFP8", "1x32 scales"};
inline constexpr PairGroup bf16_mxfp8_pairs{"bf16 x MXFP8", "1x32 scales"};
inline constexpr PairGroup bf16_fp4_pairs{"bf16 x MXFP4 or NVFP4", "FP4 weights"};
inline constexpr PairGroup fp4_pairs{"other activations x MXFP4 or NVFP4", "FP4 weights"};
inline constexpr std::array pair_groups{&fp8_pairs, &mxfp8_pairs, &bf16_mxfp8_pairs, &bf16_fp4_pairs, &fp4_pairs};

struct GpuRoute {
    StepKind multiplied = StepKind::fp8;  // The format of both sides on the tensor cores: `CanonicalOrder::step`.
    Arrival a = Arrival::either_order;
    Arrival b = Arrival::either_order;
    const PairGroup* group = &fp8_pairs;
    /// Rows per group from which packed weights are expanded first, to the format that is multiplied; 0: never.
    int expanded_rows = 0;
    bool raw = false;         // Weights that are not packed may be read in place, with only their scales in tiles.
    bool ones_for_b = false;  // The kernel is that of scales of rows on both sides. B's are ones.

    constexpr bool operator==(const GpuRoute&) const = default;
};

namespace routes {

/// Sides that travel alike, as bits: a row of the table is for several.
using Kinds = unsigned;
constexpr Kinds end_fp8 = 1;    // fp8 with tensor or row scales
constexpr Kinds chain_fp8 = 2;  // fp8 with 1x128 scales
constexpr Kinds row_fp8 = end_fp8 | chain_fp8;
constexpr Kinds block_fp8 = 4;   // fp8 with 128x128 scales
constexpr Kinds folded_fp8 = 8;  // fp8 without scales
constexpr Kinds scaled_fp8 = row_fp8 | block_fp8;
constexpr Kinds coarse_fp8 = scaled_fp8 | folded_fp8;
constexpr Kinds mxfp8 = 16;
constexpr Kinds mxfp4 = 32;
constexpr Kinds nvfp4 = 64;
constexpr Kinds bf16 = 128;
constexpr Kinds cpu_only = 256;  // f16 and f32
constexpr Kinds any = ~0U;

constexpr Kinds kind(const OperandRecipe& side) {
    if (is_mxfp4(side)) return mxfp4;
    if (is_nvfp4(side)) return nvfp4;
    if (is_bf16(side)) return bf16;
    if (!is_fp8(side.values)) return cpu_only;
    switch (side.granularity) {
        case Granularity::none: return folded_fp8;
        case Granularity::block_1x128: return chain_fp8;
        case Granularity::block_128x128: return block_fp8;
        case Granularity::block_1x32: return mxfp8;
        default: return end_fp8;
    }
}

template <class Row>
constexpr bool is_of(const Row& row, const Recipe& recipe) {
    return (row.activations & kind(recipe.a)) != 0 && (row.weights & kind(recipe.b)) != 0;
}

struct Row {
    Kinds activations;
    Kinds weights;
    GpuRoute route;
};

/// The least rows per group with which packed weights are expanded. Kernels that decode take longer from there on than
/// the expansion plus its product. On one H200, with n 4096 and k 7168:
///
/// - A with 1x128 scales: some 540 measured, 700 by the planner's model.
/// - A with epilogue scales: some 1240.
/// - A with 1x32 scales was not timed. Its kernels promote four times as often, with scales of columns that expanded
///   weights do not need. By counts they gain from fewer rows on.
///
/// The numbers for bf16 activations are predictions, because only 4 x 8192 rows were timed. bf16 is multiplied at 790
/// TFLOP/s. Memory moves 2.53 bytes per element at 3.96 TB/s. Kernels that decode were timed on one H200. Both ways
/// then take equally long at these rows per group:
///
/// - n 4096, k 7168: MXFP4 1600, NVFP4 730.
/// - n 7168, k 2048: MXFP4 1300, NVFP4 690.
///
/// NVFP4 was timed when its kernels had a fifth more instructions. The model now gives more than 1,024
/// (tests/plan/expanded_test.cpp).
constexpr int chain_rows = 768, end_rows = 1280, bf16_mxfp4_rows = 2048, bf16_nvfp4_rows = 1280;

using enum Arrival;

// The reasons:
// - wgmma multiplies fp8 or bf16. All other formats are decoded, by an earlier launch or in registers.
// - Kernels for 1x32 scales read operands only along k, and none is k-grouped.
// - NVFP4 is multiplied as bf16, because a code times its ue4m3 scale is exact there and not in fp8.
// - Kernels for tiles of MXFP4 have no scales of 128x128 blocks of activations.
// - Expansion was never timed where fp8 is decoded for NVFP4 weights, or where both sides are MXFP4.
// - Kernels with scales only of A's rows would save no time.
constexpr std::array table{
    // activations, weights, {multiplied, a, b, group, expanded_rows, raw, ones_for_b}
    Row{end_fp8, folded_fp8, {StepKind::fp8, either_order, either_order, &fp8_pairs, 0, false, true}},
    Row{coarse_fp8, scaled_fp8, {StepKind::fp8, either_order, either_order, &fp8_pairs}},
    Row{chain_fp8 | block_fp8, folded_fp8, {StepKind::fp8, either_order, either_order, &fp8_pairs}},
    Row{coarse_fp8, mxfp8, {StepKind::fp8, along_k, along_k, &mxfp8_pairs}},
    Row{mxfp8, coarse_fp8 | mxfp8, {StepKind::fp8, along_k, along_k, &mxfp8_pairs}},
    Row{nvfp4, mxfp8, {StepKind::bf16, decoded, decoded, &mxfp8_pairs}},
    Row{bf16, mxfp8, {StepKind::bf16, only_along_k, decoded, &bf16_mxfp8_pairs}},
    Row{bf16, mxfp4, {StepKind::bf16, only_along_k, tiles, &bf16_fp4_pairs, bf16_mxfp4_rows}},
    Row{bf16, nvfp4, {StepKind::bf16, only_along_k, tiles, &bf16_fp4_pairs, bf16_nvfp4_rows}},
    Row{end_fp8, mxfp4, {StepKind::fp8, along_k, tiles, &fp4_pairs, end_rows, true}},
    Row{chain_fp8, mxfp4, {StepKind::fp8, along_k, tiles, &fp4_pairs, chain_rows, true}},
    Row{mxfp8, mxfp4, {StepKind::fp8, along_k, tiles, &fp4_pairs, chain_rows}},
    Row{mxfp4, mxfp4, {StepKind::fp8, decoded, tiles, &fp4_pairs}},
    Row{row_fp8 | mxfp8, nvfp4, {StepKind::bf16, decoded, tiles, &fp4_pairs}},
    Row{nvfp4, mxfp4, {StepKind::bf16, decoded, tiles, &fp4_pairs, bf16_mxfp4_rows}},
    Row{nvfp4, nvfp4, {StepKind::bf16, decoded, tiles, &fp4_pairs, bf16_nvfp4_rows}},
};

}  // namespace routes

/// The route of a pair, or nothing: only the CPU multiplies such a pair.
constexpr std::optional<GpuRoute> gpu_route(const Recipe& recipe) {
    for (const routes::Row& row : routes::table) {
        if (routes::is_of(row, recipe)) return row.route;
    }
    return std::nullopt;
}

/// Whether a kernel loads such values from where the caller, or a copy along k, has them.
constexpr bool is_read_in_place(Arrival arrival) { return arrival != Arrival::decoded && arrival != Arrival::tiles; }

/// Whether a GPU multiplies the pair as bf16.
constexpr bool is_multiplied_as_bf16(const Recipe& recipe) {
    const std::optional<GpuRoute> route = gpu_route(recipe);
    return route && route->multiplied == StepKind::bf16;
}

/// An operand without which the pair would have a route.
struct Misfit {
    const char* operand;   // "a" or "b"
    std::string expected;  // "bf16, nvfp4, or fp8 with row scales for mxfp4 weights"
    const char* advice;
};
/// The operands at fault in a pair without a route. Empty for other pairs.
std::vector<Misfit> misfits(const Recipe& recipe);

/// The operand that no k-grouped kernel has, "FP4 weights" or "1x32 scales", with a route or without; null if k-grouped
/// kernels have both.
const char* without_groups_of_k(const Recipe& recipe);

/// The activations that have routes with these weights, in words: "bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32
/// scales".
std::string activations_with(const OperandRecipe& weights);

}  // namespace tilewright
