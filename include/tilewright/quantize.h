// Quantisers and dequantisers: real matrices to values and scales, and back; encoding and decoding without scales.
#pragma once

#include <tilewright/problem.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tilewright {

/// How values and scales follow from x, the elements, and amax, the largest finite magnitude of a block:
///
///     value = encode(x / s)      s = the scale as stored, in f32; a correctly rounded f32 division; nearest, ties to
///                                even; a number beyond the largest of the format becomes the largest
///
///   scales f32       s = amax / largest (448 for e4m3, 57344 for e5m2), at least 2^-126, rounded to f32
///   scales ue8m0     tensor, row, 128: the smallest power of two that is at least amax / largest, and at least 2^-126
///   1x32 (MX)        s = 2^(floor(log2(amax)) - emax), emax = 8 (e4m3), 15 (e5m2), 2 (e2m1), at least 2^-127. Source:
///                    OCP Microscaling Formats 1.0, 6.3. Numbers above the largest then saturate
///   1x16 (NVFP4)     tensor scale t = amax of the tensor / (448 * 6), at least 2^-117; block scale = ue4m3 of
///                    (amax / 6) / t, at least 2^-9; s = block scale * t. Source: Pretraining Large Language Models
///                    with NVFP4 (arXiv 2509.25149), appendix on NVFP4 quantization
///   none             value = encode(x); fp8: as with a scale of 1; others: beyond the largest number infinity
///
/// Special cases, alike for all of them:
///   zeros        A block without a nonzero number has scale 1 and values 0.
///   tiny blocks  The lower limits above keep scales from being 0; numbers below half the smallest value become 0.
///   NaN          stays NaN and changes no other element. e2m1 has no NaN: the scale of the block is NaN.
///   infinity     stays infinity in e5m2; becomes NaN in e4m3, which has none; in e2m1 the scale of the block is NaN.
///   short blocks The last block of a row or column may have fewer elements; none are invented.
struct QuantizeOptions {
    OperandRecipe recipe{};
    /// Scales are rounded up to a power of two (rounding down would saturate). MX: 2^ceil(log2(amax / largest)), so
    /// that nothing saturates. NVFP4: t = amax / (256 * 6) rounded up, block scales rounded up.
    bool round_up = false;
    /// DeepGEMM's casts (deep_gemm/utils/math.py): s = max(amax, 1e-4) / largest, rounded up to a power of two if
    /// round_up or stored as ue8m0; value = encode(x * (1 / s)); ties of e2m1 go towards zero, and it has no -0. amax
    /// includes NaN and infinity, so that they spoil their block. e4m3 and e2m1, all scales but 1x16.
    bool deep_gemm = false;
};

/// How a conversion runs; nothing here changes a result.
struct ConversionOptions {
    int threads = 0;  // OpenMP threads; 0 = OpenMP's own choice
    /// Called by the calling thread about every 50 ms of a long call. Where it returns true, the call ends by
    /// `Cancelled`; where it throws, by that exception. The output is then written in part.
    std::function<bool()> cancelled{};
    void* stream = nullptr;  // GPU: the CUstream to launch on
};

/// Shape of the scales of a logical operand [rows, k] or [groups, rows, k], as `Operand` documents it; with groups,
/// `tensor` has [groups]. No dimensions for `none`.
Dims scale_shape(Granularity granularity, const Dims& shape);

/// Writes values, scales and (NVFP4) the tensor scale of the logical operand `source` [rows, k] or [groups, rows, k],
/// which is f32, bf16 or f16 in any strides. `out` gives memory of the shapes that `Operand` documents; out.values has
/// the shape of `source` in any strides (a transposed view stores the other layout) and must not share memory with it.
/// Groups are quantised each on its own; a tensor scale of shape [1] is shared by all.
///
/// Tensors of a CUDA device (all of the same): everything with scales, without `deep_gemm`. The kernels run on
/// `how.stream`, can be captured, and return the CPU's bits. Throws Error with every finding.
void quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out,
              const ConversionOptions& how = {});

/// The inverse: value * scale * tensor scale, rounded once. out [rows, k] or [groups, rows, k], f32, bf16 or f16, any
/// strides. Packed weights, in host memory, give the numbers that they were packed of. Throws Error with every finding.
void dequantize(const Operand& operand, const Tensor& out, const ConversionOptions& how = {});

/// Codes of f32 numbers, without scales: one rounding to nearest, ties to even (ue8m0: to the larger). A number beyond
/// the format's largest becomes infinity, or NaN where there is none; with `saturate` the largest, which formats
/// without both always do. source f32 and out of one shape, of one to three dimensions, row-major without gaps (rows of
/// e2m1 begin at whole bytes); not i32 and i64. Throws Error with every finding.
void encode(const Tensor& source, const Tensor& out, bool saturate = false, const ConversionOptions& how = {});

/// The inverse, exact: any format but i32 and i64 to f32.
void decode(const Tensor& source, const Tensor& out, const ConversionOptions& how = {});

/// An operand that owns its memory (row-major, no gaps; values, scales and tensor scale each aligned to 128 bytes).
class OwnedOperand {
public:
    OwnedOperand() = default;
    /// Uninitialised memory for [rows, k] or [groups, rows, k]. Throws Error for a recipe or shape that cannot be.
    OwnedOperand(const Dims& shape, const OperandRecipe& recipe);

    operator const Operand&() const& { return operand_; }
    /// A copy of the views would outlive a temporary's memory: keep the OwnedOperand in a variable.
    operator Operand() const&& = delete;
    const Operand& operand() const { return operand_; }

private:
    std::shared_ptr<std::byte[]> memory_;
    Operand operand_;
};

/// Quantises into memory of its own.
OwnedOperand quantize(const Tensor& source, const QuantizeOptions& options, const ConversionOptions& how = {});

}  // namespace tilewright
