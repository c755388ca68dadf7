// The input of a training step's quantizers on the CPU: groups of tokens in strips of 128, and h in tiles of f32.
#pragma once

#include "formats/matrix_view.h"
#include "formats/swiglu.h"

#include <tilewright/quantize_tokens.h>

#include <cstdint>
#include <vector>

namespace tilewright::formats {

inline constexpr std::int64_t token_block = 128;

/// Up to 128 tokens of one group.
struct TokenStrip {
    std::int64_t group = 0;
    std::int64_t token = 0;
    std::int64_t tokens = 0;
    std::int64_t column = 0;  // of the transposed operand, where the first token is
};

struct TokenGroup {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// The tokens of each group; without ends all tokens are one group. Ends are clamped, as everywhere.
std::vector<TokenGroup> token_groups(const Tensor& ends, std::int64_t tokens);

/// All of them, by ascending token.
std::vector<TokenStrip> token_strips(const Tensor& ends, std::int64_t tokens);

/// h of a source: [tokens, features of h].
class TokenReader {
public:
    /// What `load` works on.
    struct Scratch {
        Tile gate;
        Tile up;
        Tile gradient;
    };

    explicit TokenReader(const TokenSource& source);

    std::int64_t tokens() const { return index_.given() ? index_.shape[0] : x_.rows; }
    std::int64_t features() const { return features_; }
    /// h in the tile's upper left corner; at most 128 features, the first of them a multiple of 128.
    void load(const Region& region, Tile& tile, Scratch& scratch) const;

private:
    void load_rows(const Region& region, Tile& tile, Scratch& scratch) const;
    void load_gradient(const Region& region, Tile& tile, Scratch& scratch) const;
    void load_halves(const Region& features, Tile& gate, Tile& up) const;

    MatrixView x_;
    MatrixView gate_;
    MatrixView up_;
    MatrixView gradient_;
    Tensor index_;
    Activation activation_;
    bool interleaved_;
    SwiGluRule rule_;
    std::int64_t features_;
};

}  // namespace tilewright::formats
