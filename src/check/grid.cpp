// How large the integers of the exact grid may be.
#include "check/data.h"

#include "problem/canonical_order.h"

#include <algorithm>
#include <cmath>

namespace tilewright::check {
namespace {

/// The largest value of a side in units of its grid, including scales that vary along k. The units of e2m1 are halves,
/// and quarters for its ue4m3 scales of 1/2 to 2.
double grid_units(const OperandRecipe& side, int amplitude, bool with_scales) {
    double units = side.values == Format::e2m1 ? 12 : amplitude;
    if (k_block(side.granularity) != 0 && (with_scales || side.granularity == Granularity::block_1x16)) units *= 4;
    return units;
}

double sum_bound(std::int64_t terms, double largest) {
    const auto count = static_cast<double>(terms);
    return largest * std::min(count, 12 * std::sqrt(count));
}

bool uses_fp8_core(const Recipe& recipe) { return multiplies_as_fp8(recipe.a) && multiplies_as_fp8(recipe.b); }

bool grid_is_exact(const CaseSpec& spec, int amplitude) {
    const auto product = [&](bool with_scales) {
        return grid_units(spec.recipe.a, amplitude, with_scales) * grid_units(spec.recipe.b, amplitude, with_scales);
    };
    std::int64_t chain = spec.accumulation == Accumulation::promoted ? 128 : spec.k;
    for (const OperandRecipe& side : {spec.recipe.a, spec.recipe.b}) {
        if (side.granularity == Granularity::block_1x32) chain = std::min<std::int64_t>(chain, 32);
    }
    // The tensor core keeps 14 bits of fp8 sums; fp32 keeps 24, of which two are left to alpha and C.
    const bool chain_fits = !uses_fp8_core(spec.recipe) || sum_bound(chain, product(false)) < 0x1p14;
    return chain_fits && sum_bound(spec.k, product(true)) < 0x1p22;
}

}  // namespace

int grid_amplitude(const CaseSpec& spec) {
    int amplitude = 8;
    while (amplitude > 1 && !grid_is_exact(spec, amplitude)) --amplitude;
    return amplitude;
}

}  // namespace tilewright::check
