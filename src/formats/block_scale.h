// Scales: from the largest magnitude of a block to the number that is stored for it, and numbers in units of it. The
// rules are stated in quantize.h.
#pragma once

#include <tilewright/recipe.h>

#include <cstdint>

namespace tilewright::formats {

/// The largest magnitudes of a block, as bits of f32, which compare as the magnitudes do, NaN largest.
struct Peak {
    std::int32_t all = 0;     // infinity and NaN included
    std::int32_t finite = 0;  // among the finite elements

    void include(const Peak& other);
    void include(const float* numbers, std::int64_t count);
    bool is_finite() const { return all == finite; }
};

struct ScaleRule {
    OperandRecipe recipe;
    bool round_up = false;
    bool deep_gemm = false;

    /// NVFP4's scale of the tensor.
    float tensor_scale(const Peak& peak) const;
    /// The stored scale of a block, exact in the recipe's scale format. `tensor_scale` is 1 for all but NVFP4.
    double scale(const Peak& peak, float tensor_scale) const;
    /// Numbers in units of the scale, ready to be encoded.
    void divide(float* numbers, std::int64_t count, double scale, float tensor_scale) const;
};

}  // namespace tilewright::formats
