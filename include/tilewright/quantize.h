// Quantize real matrices to values and scales, and dequantize them; encode and decode without scales.
#pragma once

#include <tilewright/problem.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tilewright {

/// How values and scales are computed from the elements x and amax, the largest finite magnitude of a block:
///
///     value = encode(x / s)      s = the scale as stored, in f32
///
/// The division is a correctly rounded f32 division. Values are rounded to nearest, ties to even. A number beyond the
/// largest of the format becomes the largest.
///
/// The scales:
/// - f32: s = amax / largest (448 for e4m3, 57344 for e5m2), at least 2^-126, rounded to f32.
/// - ue8m0, 1x128 and 128x128: the smallest power of two that is at least amax / largest, and at least 2^-126.
/// - 1x32 (MX): s = 2^(floor(log2(amax)) - emax), emax = 8 (e4m3), 15 (e5m2), 2 (e2m1), at least 2^-127. Numbers above
///   the largest then saturate. Source: OCP Microscaling Formats 1.0, 6.3.
/// - 1x16 (NVFP4): tensor scale t = amax of the tensor / (448 * 6), at least 2^-117. Block scale = ue4m3 of (amax / 6)
///   / t, at least 2^-9; s = block scale * t. Source: Pretraining Large Language Models with NVFP4 (arXiv 2509.25149),
///   appendix on NVFP4 quantization.
/// - none: value = encode(x). fp8 is encoded as with a scale of 1. In other formats a number beyond the largest becomes
///   infinity.
///
/// Special cases, the same for all of them:
/// - Zeros: a block without a nonzero number has scale 1 and values 0.
/// - Tiny blocks: the lower limits above keep scales from being 0; numbers below half the smallest value become 0.
/// - NaN: stays NaN and changes no other element. e2m1 has no NaN: the scale of the block is NaN.
/// - Infinity: stays infinity in e5m2; becomes NaN in e4m3, which has none; in e2m1 the scale of the block is NaN.
/// - Short blocks: the last block of a row or column may have fewer elements; it is not padded.
struct QuantizeOptions {
    OperandRecipe recipe{};
    /// Round scales up to a power of two (rounding down would saturate). MX: 2^ceil(log2(amax / largest)), so that no
    /// value saturates. NVFP4: t = amax / (256 * 6) rounded up, block scales rounded up.
    bool round_up = false;
    /// Follow DeepGEMM's casts (deep_gemm/utils/math.py). For e4m3 and e2m1, with all scales except 1x16.
    ///
    /// - s = max(amax, 1e-4) / largest, rounded up to a power of two with `round_up` or if stored as ue8m0.
    /// - value = encode(x * (1 / s)).
    /// - Ties of e2m1 are rounded towards zero, and e2m1 has no -0.
    /// - amax includes NaN and infinity, so that they spoil their block.
    bool deep_gemm = false;
};

/// How a conversion runs. No field changes a result.
struct ConversionOptions {
    int threads = 0;  // OpenMP threads; 0 = OpenMP's own choice
    /// Called by the calling thread about every 50 ms of a long call. If it returns true, the call throws `Cancelled`;
    /// if it throws, the call ends with that exception. The output is then written in part.
    std::function<bool()> cancelled{};
    void* stream = nullptr;  // GPU: the CUstream to launch on
};

/// The shape of the scales of a logical operand [rows, k] or [groups, rows, k], as `Operand` documents it. With groups,
/// `tensor` has [groups]. No dimensions for `none`.
Dims scale_shape(Granularity granularity, const Dims& shape);

/// Quantizes `source` and writes values, scales and (NVFP4) the tensor scale to `out`. Throws Error with every finding.
///
/// - `source` is the logical operand [rows, k] or [groups, rows, k] in f32, bf16 or f16, with any strides.
/// - `out` has memory of the shapes that `Operand` documents, not shared with `source`. Its values have the shape of
///   `source` and any strides (a transposed view stores the other layout).
/// - Each group is quantized separately; a tensor scale of shape [1] is shared by all.
/// - GPU: all tensors are on one CUDA device. All recipes with scales are supported, `deep_gemm` is not. The kernels
///   run on `how.stream`, can be captured in a CUDA graph, and return the CPU's bits.
void quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out,
              const ConversionOptions& how = {});

/// The inverse of `quantize`: value * scale * tensor scale, rounded once. `out` is [rows, k] or [groups, rows, k] in
/// f32, bf16 or f16, with any strides. For packed weights, which must be in host memory, the result is the numbers that
/// were packed. Throws Error with every finding.
void dequantize(const Operand& operand, const Tensor& out, const ConversionOptions& how = {});

/// Converts f32 numbers to another format, without scales. Throws Error with every finding.
///
/// - Each number is rounded once to nearest, ties to even (ue8m0: ties to the larger).
/// - A number beyond the format's largest becomes infinity, or NaN if the format has no infinity. With `saturate` it
///   becomes the largest; formats with neither infinity nor NaN always saturate.
/// - `source` (f32) and `out` have the same shape, of one to three dimensions, row-major without gaps. Rows of e2m1
///   begin at whole bytes. i32 and i64 are not supported.
void encode(const Tensor& source, const Tensor& out, bool saturate = false, const ConversionOptions& how = {});

/// The inverse of `encode`: any format except i32 and i64 to f32, exactly. Throws Error with every finding.
void decode(const Tensor& source, const Tensor& out, const ConversionOptions& how = {});

/// An operand that owns its host memory: row-major without gaps; values, scales and tensor scale are each aligned to
/// 128 bytes.
class OwnedOperand {
public:
    OwnedOperand() = default;
    /// Uninitialised memory for [rows, k] or [groups, rows, k]. Throws Error for an invalid recipe or shape.
    OwnedOperand(const Dims& shape, const OperandRecipe& recipe);

    operator const Operand&() const& { return operand_; }
    /// A copy of the views would outlive a temporary's memory: keep the OwnedOperand in a variable.
    operator Operand() const&& = delete;
    const Operand& operand() const { return operand_; }

private:
    std::shared_ptr<std::byte[]> memory_;
    Operand operand_;
};

/// Quantizes into new memory and returns its owner. `source` is in host memory. Throws Error with every finding.
OwnedOperand quantize(const Tensor& source, const QuantizeOptions& options, const ConversionOptions& how = {});

}  // namespace tilewright
