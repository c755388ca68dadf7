// Quantisers and dequantisers: real matrices to values and scales, and back.
#pragma once

#include <tilewright/problem.h>

#include <cstddef>
#include <memory>

namespace tilewright {

/// How scales follow from the largest magnitude (amax) of their block. Values are encode(x / s), a correctly rounded
/// f32 division, to nearest even, saturating.
struct QuantizeOptions {
    OperandRecipe recipe{};
    bool round_up =
        false;  // round scales up to a power of two (rounding down would saturate); MX: instead of OCP's floor
    bool deep_gemm = false;  // DeepGEMM's casts: amax floored at 1e-4, s = amax / 448, values encode(x * (1 / s))
};

/// Writes values, scales and (NVFP4) the tensor scale of the logical operand `source` [rows, k] or [groups, rows, k],
/// which is f32, bf16 or f16 in any strides. `out` gives memory of the shapes that `Operand` documents; out.values has
/// the shape of `source` in any strides (a transposed view stores the other layout). Throws Error.
void quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out);

/// The inverse: out [rows, k] or [groups, rows, k], f32, bf16 or f16, any strides.
void dequantize(const Operand& operand, const Tensor& out);

/// An operand that owns its memory (row-major, no gaps).
class OwnedOperand {
public:
    OwnedOperand() = default;
    /// Uninitialised memory for [rows, k] or [groups, rows, k].
    OwnedOperand(const Dims& shape, const OperandRecipe& recipe);

    operator const Operand&() const { return operand_; }
    const Operand& operand() const { return operand_; }

private:
    std::shared_ptr<std::byte[]> memory_;
    Operand operand_;
};

/// Quantises into memory of its own.
OwnedOperand quantize(const Tensor& source, const QuantizeOptions& options);

}  // namespace tilewright
