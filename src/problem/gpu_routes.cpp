#include "problem/gpu_routes.h"

#include <array>
#include <vector>

#include "problem/findings.h"

namespace tilewright {
namespace {

/// Sides that travel alike, as bits: a row of the table is for several.
using Kinds = unsigned;
constexpr Kinds row_fp8 = 1;     // fp8 with tensor, row or 1x128 scales
constexpr Kinds block_fp8 = 2;   // fp8 with 128x128 scales
constexpr Kinds folded_fp8 = 4;  // fp8 without scales
constexpr Kinds mxfp8 = 8;
constexpr Kinds mxfp4 = 16;
constexpr Kinds nvfp4 = 32;
constexpr Kinds bf16 = 64;
constexpr Kinds coarse_fp8 = row_fp8 | block_fp8 | folded_fp8;

/// No bit for f16 and f32, which only the CPU multiplies.
constexpr Kinds kind(const OperandRecipe& side) {
    if (is_mxfp4(side)) return mxfp4;
    if (is_nvfp4(side)) return nvfp4;
    if (is_bf16(side)) return bf16;
    if (!is_fp8(side.values)) return 0;
    switch (side.granularity) {
        case Granularity::none: return folded_fp8;
        case Granularity::block_128x128: return block_fp8;
        case Granularity::block_1x32: return mxfp8;
        default: return row_fp8;
    }
}

struct Row {
    Kinds activations;
    Kinds weights;
    GpuRoute route;
};

using enum Arrival;

// The reasons:
// - wgmma multiplies fp8 or bf16. All other formats are decoded, by an earlier launch or in registers.
// - Kernels for 1x32 scales read operands only along k, and none is k-grouped.
// - NVFP4 is multiplied as bf16, because a code times its ue4m3 scale is exact there and not in fp8.
// - Kernels for tiles of MXFP4 have no scales of 128x128 blocks of activations.
// - Expansion was never timed where fp8 is decoded for NVFP4 weights, or where both sides are MXFP4.
constexpr std::array table{
    // activations, weights, {multiplied, a, b, raw, expanded, groups_of_k}
    Row{coarse_fp8, coarse_fp8, {StepKind::fp8, either_order, either_order, false, false, true}},
    Row{coarse_fp8, mxfp8, {StepKind::fp8, along_k, along_k, false, false, false}},
    Row{mxfp8, coarse_fp8 | mxfp8, {StepKind::fp8, along_k, along_k, false, false, false}},
    Row{bf16, mxfp8, {StepKind::bf16, along_k, decoded, false, false, false}},
    Row{nvfp4, mxfp8, {StepKind::bf16, decoded, decoded, false, false, false}},
    Row{row_fp8, mxfp4, {StepKind::fp8, along_k, tiles, true, true, false}},
    Row{mxfp8, mxfp4, {StepKind::fp8, along_k, tiles, false, true, false}},
    Row{mxfp4, mxfp4, {StepKind::fp8, decoded, tiles, false, false, false}},
    Row{row_fp8 | mxfp8, nvfp4, {StepKind::bf16, decoded, tiles, false, false, false}},
    Row{bf16, mxfp4 | nvfp4, {StepKind::bf16, along_k, tiles, false, true, false}},
    Row{nvfp4, mxfp4 | nvfp4, {StepKind::bf16, decoded, tiles, false, true, false}},
};

constexpr const GpuRoute* find_route(const Recipe& recipe) {
    const Kinds a = kind(recipe.a), b = kind(recipe.b);
    for (const Row& row : table) {
        if ((row.activations & a) != 0 && (row.weights & b) != 0) return &row.route;
    }
    return nullptr;
}

/// One side of each kind.
constexpr std::array sides{OperandRecipe{Format::e4m3, Granularity::row, Format::f32},
                           OperandRecipe{Format::e4m3, Granularity::block_1x128, Format::f32},
                           OperandRecipe{Format::e4m3, Granularity::block_128x128, Format::f32},
                           OperandRecipe{Format::e4m3, Granularity::none, Format::f32},
                           OperandRecipe{Format::e4m3, Granularity::block_1x32, Format::ue8m0},
                           OperandRecipe{Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                           OperandRecipe{Format::e2m1, Granularity::block_1x16, Format::ue4m3},
                           OperandRecipe{Format::bf16, Granularity::none, Format::f32}};

constexpr bool routes_have_the_canonical_order() {
    for (const OperandRecipe& a : sides) {
        for (const OperandRecipe& b : sides) {
            const GpuRoute* const route = find_route({a, b});
            if (route == nullptr) continue;
            if (route->multiplied != canonical_order({a, b}, Accumulation::promoted)->step) return false;
        }
    }
    return true;
}
static_assert(routes_have_the_canonical_order());

}  // namespace

std::optional<GpuRoute> gpu_route(const Recipe& recipe) {
    const GpuRoute* const route = find_route(recipe);
    return route == nullptr ? std::nullopt : std::optional(*route);
}

bool is_multiplied_as_bf16(const Recipe& recipe) {
    const GpuRoute* const route = find_route(recipe);
    return route != nullptr && route->multiplied == StepKind::bf16;
}

std::string activations_with(const OperandRecipe& weights) {
    const auto goes = [&](const OperandRecipe& side) {
        return is_accepted(Recipe{side, weights}) && find_route({side, weights}) != nullptr;
    };
    std::vector<std::string> words, scales;
    for (const char* word : {"bf16", "nvfp4", "mxfp4"}) {
        if (goes(*parse_operand_recipe(word))) words.emplace_back(word);
    }
    for (const char* word : {"tensor", "row", "1x128", "128x128"}) {
        if (goes(*parse_operand_recipe(word))) scales.emplace_back(word);
    }
    if (goes(*parse_operand_recipe("mxfp8"))) scales.emplace_back("1x32");
    std::string text;
    for (const std::string& word : words) text += word + ", ";
    return text + (words.empty() ? "" : "or ") + "fp8 with " + validation::either(scales) + " scales";
}

}  // namespace tilewright
