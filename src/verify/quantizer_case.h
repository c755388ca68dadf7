// A matrix of numbers, its quantization, and memory for it: one case of a row of quantizers.h.
#pragma once

#include <tilewright/quantize_tokens.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verify/quantizers.h"

namespace tilewright::verify {

struct QuantizerSpec {
    Quantizer quantizer{};
    Format numbers = Format::bf16;
    Format codes = Format::e4m3;
    bool round_up = false;
    bool gpt_oss = false;  // SwiGLU with a limit, and gate and up in turns
    std::uint64_t seed = 1;
};

std::string describe(const QuantizerSpec& spec);

/// How far codes are from the numbers they are of: the one that is closest to its bound, or farthest beyond.
struct QuantizerVerdict {
    double error = 0;
    double bound = 0;
    double ratio = 0;
    std::string failure{};
};

class QuantizerCase {
public:
    explicit QuantizerCase(const QuantizerSpec& spec);

    const TokenSource& source() const { return source_; }
    /// The written operand: `rows` or `columns` of quantize_tokens.
    const TokenOperand& out() const { return out_; }
    bool round_up() const { return spec_.round_up; }
    /// Whether `quantize` has this form too, which is then called.
    bool is_matrix() const { return !spec_.quantizer.columns && !spec_.quantizer.folds && !spec_.quantizer.swiglu; }

    /// Codes and scales in host memory against float64.
    QuantizerVerdict judge() const;

private:
    /// Where element (token, feature) of h is in the codes, and its scale in the scales.
    std::int64_t code_index(std::int64_t token, std::int64_t feature) const;
    std::int64_t scale_index(std::int64_t token, std::int64_t feature) const;
    std::int64_t column_of(std::int64_t token) const;
    std::int64_t group_of(std::int64_t token) const;
    double number(std::int64_t token, std::int64_t feature) const;
    double exact(std::int64_t token, std::int64_t feature) const;
    std::string gap_failure() const;

    void place_source();
    void place_output();

    QuantizerSpec spec_;
    std::vector<std::byte> x_, codes_, scales_;
    std::vector<float> token_factors_, feature_factors_;
    TokenSource source_;
    TokenOperand out_;
};

}  // namespace tilewright::verify
