// Quantisers of a training step: a matrix [tokens, features] is read once, and the operands of the products that need
// it are written: one that is contracted along features (forward, dgrad), one along tokens (wgrad), or both.
#pragma once

#include <tilewright/quantize.h>

#include <cstdint>
#include <limits>

namespace tilewright {

/// What h, the matrix that is quantised, is made of.
enum class Activation : std::uint8_t {
    none,             // h = x
    swiglu,           // x [tokens, 2 features] has gate and up, h [tokens, features] = swiglu(gate, up)
    swiglu_gradient,  // h [tokens, 2 features] is the gradient of that x, `gradient` [tokens, features] the one of
                      // swiglu
};

/// swiglu(gate, up) = g * s * (u + beta), with g = min(gate, limit), u = up clamped to -limit .. limit and
/// s = sigmoid(alpha * g) = 1 / (1 + exp(-alpha * g)); for the gradient dh of it
///
///     d gate = dh * (u + beta) * (s + alpha * g * s * (1 - s)), 0 where gate > limit
///     d up   = dh * (g * s), 0 where up > limit or up < -limit
///
/// The defaults are SwiGLU as DeepSeek-V3 and others have it (Shazeer, GLU Variants Improve Transformer, arXiv
/// 2002.05202). gpt-oss (`swiglu` of the torch model in github.com/openai/gpt-oss): alpha 1.702, beta 1, limit
/// 7, interleaved. In f32, each operation rounded once, in the order of src/formats/swiglu.h; h is not rounded to the
/// format of x.
struct SwiGlu {
    float alpha = 1;
    float beta = 0;
    float limit = std::numeric_limits<float>::infinity();
    bool interleaved = false;  // x has gate and up in turns; otherwise all of gate first
};

struct TokenSource {
    Tensor x{};  // f32, bf16 or f16
    Activation activation = Activation::none;
    SwiGlu swiglu{};
    Tensor gradient{};  // swiglu_gradient only; in the format of x
    /// Groups of tokens, as in `Grouping::m_grouped_offsets`: int32 or int64 [groups], the token at which group i ends.
    /// Clamped, never trusted. Not given: all tokens are one group.
    Tensor ends{};
};

/// One operand that is written: encode((h * factors) / scale), with the rules of `QuantizeOptions`.
struct TokenOperand {
    /// Values not given: none is written. fp8 with a granularity of `tensor`, `row`, `1x128` or `128x128`.
    Operand operand{};
    /// The folded form: h is multiplied by these before it is quantised, f32 [tokens], and f32 [features] or [groups,
    /// features], in this order, where they are given. The scales that another operand of a product would need along k,
    /// and which it then does not have.
    Tensor token_factors{};
    Tensor feature_factors{};
};

/// Writes `rows`, h as [tokens, features], and `columns`, its transpose as [features, columns]: group i's tokens begin
/// at the multiple of 128 that follows the end of group i - 1, with zeros in between, so that
/// tokens + 127 * groups columns are always enough; those beyond the last group are not written. This is
/// `columns` of the k-grouped products with aligned ends, and scales follow: for 1x128 and 128x128 one for each 128
/// columns (1x128 in f32: products are a quarter faster where scales of features are adjacent and a column of them
/// begins at a multiple of 16 bytes), for `row` [groups, features] (without ends [features]), for `tensor` [1] or
/// [groups]. The scales of `rows` are those of a matrix without groups; 128x128 only without ends.
///
/// Scales f32 or (blocks) ue8m0; rounded up to powers of two with `round_up`. Tensors of a CUDA device (all of the
/// same): the kernels run on `how.stream`, read no size on the host, can be captured, and return the CPU's bits. Throws
/// Error with every finding.
void quantize_tokens(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                     bool round_up = false, const ConversionOptions& how = {});

/// Columns of `columns` and of its scales that `groups` groups of `tokens` tokens in all never exceed: a multiple of
/// 128.
constexpr std::int64_t column_limit(std::int64_t tokens, std::int64_t groups) {
    return (tokens + 127 * (groups > 0 ? groups : 1)) / 128 * 128;
}

/// The transpose of an operand whose 1x128 scales are powers of two (f32 or ue8m0), without quantising again: codes
/// [tokens, features] become [features, columns] as above. The scale of 128 tokens x 128 features is the largest of
/// those of the tokens that have a code other than zero (1 if none has), and codes with a smaller one are shifted:
/// encode(value * (scale of the token / scale of the block)), exact but for what becomes subnormal. The scales of
/// `columns` are 1x128, alike for the 128 features of a block, or 128x128. A scale that is no power of two is treated
/// as any other: the product is rounded. Of a CUDA device as above.
void transpose_codes(const Operand& rows, const Tensor& ends, const Operand& columns,
                     const ConversionOptions& how = {});

}  // namespace tilewright
