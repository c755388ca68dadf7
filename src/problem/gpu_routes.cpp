#include "problem/gpu_routes.h"

#include "problem/findings.h"

namespace tilewright {
namespace routes {
namespace {

/// A pair without a route. One side decides which others go with it: weights of FP4 or MXFP8, then MXFP8 activations.
/// Sides of other kinds than `fits` are at fault.
struct Refusal {
    Kinds activations;
    Kinds weights;
    Kinds fits_a;
    Kinds fits_b;
    const char* expected;  // null: the activations that have routes with these weights
    const char* advice;
    const char* no_groups_of_k;
};

/// The first row of a pair counts.
constexpr std::array refusals{
    Refusal{any, mxfp4 | nvfp4, 0, any, nullptr, "pass it as bf16", "FP4 weights"},
    Refusal{any, mxfp8, 0, any, nullptr, "quantize it to mxfp8", "1x32 scales"},
    Refusal{mxfp8, any, any, 0, "fp8, mxfp4 or nvfp4 for mxfp8 activations", "", "1x32 scales"},
    Refusal{any, any, coarse_fp8, coarse_fp8, "fp8 with tensor, row, 1x128 or 128x128 scales", "quantize it", nullptr},
};

const Refusal& refusal(const Recipe& recipe) {
    const Refusal* row = refusals.data();
    while (!is_of(*row, recipe)) ++row;
    return *row;
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
            const std::optional<GpuRoute> route = gpu_route({a, b});
            if (route && route->multiplied != canonical_order({a, b}, Accumulation::promoted)->step) return false;
        }
    }
    return true;
}
static_assert(routes_have_the_canonical_order());

}  // namespace
}  // namespace routes

std::vector<Misfit> misfits(const Recipe& recipe) {
    if (gpu_route(recipe)) return {};
    const routes::Refusal& why = routes::refusal(recipe);
    const std::string expected =
        why.expected != nullptr ? why.expected : activations_with(recipe.b) + " for " + name(recipe.b) + " weights";
    std::vector<Misfit> list;
    if ((why.fits_a & routes::kind(recipe.a)) == 0) list.push_back({"a", expected, why.advice});
    if ((why.fits_b & routes::kind(recipe.b)) == 0) list.push_back({"b", expected, why.advice});
    return list;
}

const char* without_groups_of_k(const Recipe& recipe) {
    const std::optional<GpuRoute> route = gpu_route(recipe);
    return route ? route->group->no_groups_of_k : routes::refusal(recipe).no_groups_of_k;
}

std::string activations_with(const OperandRecipe& weights) {
    const auto goes = [&](const OperandRecipe& side) {
        return is_accepted(Recipe{side, weights}) && gpu_route({side, weights});
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
