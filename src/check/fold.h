// MXFP4 as the canonical order multiplies it, for the oracle: from decoded values and scales, not from codes.
#pragma once

#include "check/running.h"
#include "check/slab.h"

#include <array>
#include <functional>
#include <vector>

namespace tilewright::check {

/// One row of the folded side, over all of a GEMM's k.
struct FoldedLine {
    bool wide = false;
    int reference = 0;
    float end = 1;            // factor of the sum
    std::int64_t chains = 0;  // of a wide one, so far
};

/// whole: all of the GEMM's k, from 0.
std::vector<FoldedLine> folded_lines(const SlabRange& whole, StepKind step);

/// Values of lines that are not wide become relative to their reference.
void fold(const std::vector<FoldedLine>& lines, StepKind step, Slab& slab);

/// The codes of one window of 128 k-elements, relative to the window's largest exponent; all others are 0.
struct FoldedWindow {
    static constexpr std::int64_t k = 128;
    std::array<float, k> values{};
    std::array<std::int32_t, k> exponents{};
    int half = 0;      // the chain is multiplied by 2^half
    float factor = 1;  // and by this

    StepRow step_row(std::int64_t at) const {
        return {.values = values.data() + at, .exponents = exponents.data() + at};
    }
};
std::vector<FoldedWindow> folded_windows(const Slab& slab, std::int64_t row, std::int64_t k);

/// The products of wide rows of the folded side with all rows of the other.
struct WideRows {
    const CanonicalOrder& order;
    const Slab& folded;
    const Slab& other;
    std::int64_t others = 0;

    struct Stretch {
        std::int64_t begin = 0;  // k of the slab, a multiple of 128
        std::int64_t end = 0;
    };
    using Elements = std::function<Running&(std::int64_t)>;
    /// Up to 128 k-elements of one row. Returns the number of chains.
    std::int64_t multiply(std::int64_t row, const Stretch& k, const Elements& element) const;

private:
    std::int64_t multiply_windows(std::int64_t row, const Stretch& k, const Elements& element) const;
    std::int64_t multiply_blocks(std::int64_t row, const Stretch& k, const Elements& element) const;
};

}  // namespace tilewright::check
