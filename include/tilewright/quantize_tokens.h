// Quantizers of a training step. A matrix [tokens, features] is read once, and the operands that products need are
// written. One is contracted along features (forward, dgrad), one along tokens (wgrad); a call writes either or both.
#pragma once

#include <tilewright/quantize.h>

#include <cstdint>
#include <limits>

namespace tilewright {

/// How h, the matrix that is quantized, is computed.
enum class Activation : std::uint8_t {
    none,             // h is x.
    swiglu,           // With x [tokens, 2 features] as gate and up: h [tokens, features] = swiglu(gate, up).
    swiglu_gradient,  // With x as above: h [tokens, 2 features] is the gradient of x; `gradient` [tokens, features] is
                      // that of swiglu's result.
};

/// swiglu(gate, up) and, for the gradient dh of its result, the gradients of gate and up:
///
///     h      = g * s * (u + beta)
///
///     d gate = dh * (u + beta) * (s + alpha * g * s * (1 - s))    or 0 where gate > limit
///
///     d up   = dh * (g * s)    or 0 where up > limit or up < -limit
///
///     g = min(gate, limit), u = up clamped to -limit .. limit, s = sigmoid(alpha * g) = 1 / (1 + exp(-alpha * g))
///
/// The defaults are SwiGLU as DeepSeek-V3 and others define it (Shazeer, GLU Variants Improve Transformer, arXiv
/// 2002.05202). gpt-oss uses alpha 1.702, beta 1, limit 7, interleaved (`swiglu` of the torch model in
/// github.com/openai/gpt-oss).
///
/// Computed in f32, each operation rounded once, in the order of src/formats/swiglu.h. h is not rounded to the format
/// of x.
struct SwiGlu {
    float alpha = 1;
    float beta = 0;
    float limit = std::numeric_limits<float>::infinity();
    bool interleaved = false;  // true: gate and up alternate in x; false: all of gate first
};

struct TokenSource {
    Tensor x{};  // f32, bf16 or f16
    /// int32 [tokens], with `Activation::none` only: the row of x that each token is. Clamped, never trusted. The
    /// tokens of a layer of experts are then gathered while they are quantized. Not given: the rows of x are the
    /// tokens.
    Tensor index{};
    Activation activation = Activation::none;
    SwiGlu swiglu{};
    Tensor gradient{};  // swiglu_gradient only; in the format of x
    /// Groups of tokens, as in `Grouping::m_grouped_offsets`: int32 or int64 [groups], the token at which group i ends.
    /// Clamped, never trusted. Not given: all tokens are one group.
    Tensor ends{};
};

/// One operand to write: encode((h * factors) / scale), by the rules of `QuantizeOptions`.
struct TokenOperand {
    /// The memory to write to; if its values are not given, nothing is written. fp8 with `tensor`, `row`, `1x128` or
    /// `128x128` scales.
    Operand operand{};
    /// Optional factors that h is multiplied by before it is quantized, first f32 [tokens], then f32 [features] or
    /// [groups, features]. They are the scales that another operand of a product would need along k; with this form the
    /// other operand has no scales.
    Tensor token_factors{};
    Tensor feature_factors{};
};

/// Writes `rows`, which is h as [tokens, features], and `columns`, its transpose as [features, columns]. Throws Error
/// with every finding.
///
/// - Columns: group i's tokens begin at the first multiple of 128 at or after the end of group i - 1. Zeros fill the
///   gap. `tokens + 127 * groups` columns are always enough. Columns after the last group are not written. This is the
///   operand of k-grouped products with aligned ends.
/// - Scales of `columns`: 1x128 and 128x128 have one per 128 columns; `row` has [groups, features] (without ends
///   [features]); `tensor` has [1] or [groups].
/// - Scales of `rows` are those of a matrix without groups; 128x128 only without ends.
/// - Scales are f32 or, for blocks, ue8m0; `round_up` rounds them up to powers of two.
/// - Speed of 1x128 scales in f32: products are a quarter faster if scales of features are adjacent and a column of
///   scales begins at a multiple of 16 bytes.
/// - GPU: all tensors are on one CUDA device. The kernels run on `how.stream`, read no size on the host, can be
///   captured in a CUDA graph, and return the CPU's bits.
void quantize_tokens(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                     bool round_up = false, const ConversionOptions& how = {});

/// The number of columns (of `columns` and of its scales) that is enough for `groups` groups of `tokens` tokens in
/// total. A multiple of 128.
constexpr std::int64_t column_limit(std::int64_t tokens, std::int64_t groups) {
    return (tokens + 127 * (groups > 0 ? groups : 1)) / 128 * 128;
}

/// The shapes of `columns` and of its scales, for a matrix [tokens, features]. groups: 0 without ends.
Dims columns_shape(std::int64_t tokens, std::int64_t features, std::int64_t groups);
Dims column_scale_shape(Granularity granularity, std::int64_t tokens, std::int64_t features, std::int64_t groups);

/// Transposes an operand whose 1x128 scales are powers of two (f32 or ue8m0) without quantizing again: values [tokens,
/// features] become [features, columns] as in `quantize_tokens`. Throws Error with every finding.
///
/// - A block of 128 tokens x 128 features gets the largest scale of its tokens with a nonzero value in it. The scale is
///   1 if no token has one.
/// - Values with a smaller scale are shifted: encode(value * (scale of the token / scale of the block)). This is exact
///   except for values that become subnormal. If a scale is not a power of two, the product is rounded.
/// - The scales of `columns` are 1x128, equal for the 128 features of a block, or 128x128.
/// - Operands without scales (granularity `none`): the values are moved, and no scales are written.
/// - GPU: as in `quantize_tokens`.
void transpose_codes(const Operand& rows, const Tensor& ends, const Operand& columns,
                     const ConversionOptions& how = {});

}  // namespace tilewright
