#include "check/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tilewright::check {
namespace {

constexpr int e4m3_smallest = -6;
constexpr int bf16_smallest = -126;

/// The exponent of a block with a number other than 0 and a scale that is a number.
std::optional<int> exponent_of_block(const Slab& slab, std::int64_t row, std::int64_t k) {
    const float scale = slab.scale(row, k);
    const float* const values = slab.values.data() + row * slab_k + k;
    const bool counts =
        std::isfinite(scale) && std::any_of(values, values + slab_scale_k, [](float v) { return v != 0; });
    return counts ? std::optional(std::ilogb(scale)) : std::nullopt;
}

/// The differences that one reference serves, and how far above it the values are multiplied.
int largest_difference(StepKind step) { return step == StepKind::fp8 ? 11 : 120; }
int lift(StepKind step) { return step == StepKind::fp8 ? 6 : 0; }

struct Range {
    int low = std::numeric_limits<int>::max();
    int high = std::numeric_limits<int>::min();
    bool nan = false;
};

FoldedLine line_of(const Range& range, StepKind step) {
    FoldedLine line;
    if (range.low <= range.high) {
        line.wide = range.high - range.low > largest_difference(step);
        line.reference = range.high;
    }
    line.end = static_cast<float>(std::ldexp(1.0, line.reference - lift(step)));
    if (line.wide) line.end = 1;
    if (range.nan) line.end = std::numeric_limits<float>::quiet_NaN();
    return line;
}

}  // namespace

std::vector<FoldedLine> folded_lines(const SlabRange& whole, StepKind step) {
    std::vector<Range> ranges(static_cast<std::size_t>(whole.rows));
    Slab slab;
    for (std::int64_t k = 0; k < whole.k_count; k += slab_k) {
        SlabRange part = whole;
        part.k = k;
        part.k_count = std::min(slab_k, whole.k_count - k);
        decode(part, step, slab);
        for (std::int64_t row = 0; row < whole.rows; ++row) {
            Range& range = ranges[static_cast<std::size_t>(row)];
            for (std::int64_t at = 0; at < part.k_count; at += slab_scale_k) {
                range.nan = range.nan || std::isnan(slab.scale(row, at));
                const std::optional<int> exponent = exponent_of_block(slab, row, at);
                if (!exponent) continue;
                range.low = std::min(range.low, *exponent);
                range.high = std::max(range.high, *exponent);
            }
        }
    }
    std::vector<FoldedLine> lines;
    lines.reserve(ranges.size());
    for (const Range& range : ranges) lines.push_back(line_of(range, step));
    return lines;
}

void fold(const std::vector<FoldedLine>& lines, StepKind step, Slab& slab) {
    const int smallest = step == StepKind::fp8 ? e4m3_smallest : bf16_smallest;
    for (std::size_t row = 0; row < lines.size(); ++row) {
        if (lines[row].wide) continue;
        for (std::int64_t k = 0; k < slab_k; k += slab_scale_k) {
            const auto exponent = exponent_of_block(slab, static_cast<std::int64_t>(row), k);
            if (!exponent) continue;
            for (std::int64_t i = k; i < k + slab_scale_k; ++i) {
                const std::size_t at = row * slab_k + static_cast<std::size_t>(i);
                slab.values[at] = std::ldexp(slab.values[at], *exponent - lines[row].reference + lift(step));
                slab.exponents[at] = exponent_of(slab.values[at], smallest);
            }
        }
    }
}

std::vector<FoldedWindow> folded_windows(const Slab& slab, std::int64_t row, std::int64_t k) {
    std::array<std::optional<int>, 4> left{};
    for (std::int64_t i = 0; i < 4; ++i)
        left[static_cast<std::size_t>(i)] = exponent_of_block(slab, row, k + i * slab_scale_k);
    std::vector<FoldedWindow> windows;
    for (;;) {
        const auto largest = *std::max_element(left.begin(), left.end());  // nothing is less than a number
        if (!largest && !windows.empty()) return windows;
        FoldedWindow& window = windows.emplace_back();
        window.exponents.fill(no_exponent);
        const int exponent = largest.value_or(0) - lift(StepKind::fp8);
        window.half = static_cast<int>(std::floor(exponent / 2.0));
        window.factor = static_cast<float>(std::ldexp(1.0, exponent - window.half));
        if (!largest) return windows;
        for (std::size_t block = 0; block < left.size(); ++block) {
            if (!left[block] || *left[block] < *largest - largest_difference(StepKind::fp8)) continue;
            for (std::size_t i = block * 32; i < block * 32 + 32; ++i) {
                const float value = slab.values[static_cast<std::size_t>(row * slab_k + k) + i];
                window.values[i] = std::ldexp(value, *left[block] - *largest + lift(StepKind::fp8));
                window.exponents[i] = exponent_of(window.values[i], e4m3_smallest);
            }
            left[block].reset();
        }
    }
}

std::int64_t WideRows::multiply(std::int64_t row, const Stretch& k, const Elements& element) const {
    return order.step == StepKind::fp8 ? multiply_windows(row, k, element) : multiply_blocks(row, k, element);
}

std::int64_t WideRows::multiply_windows(std::int64_t row, const Stretch& k, const Elements& element) const {
    std::int64_t chains = 0;
    const ScaleUse use = order.folded == Folded::a ? order.b : order.a;
    for (const FoldedWindow& window : folded_windows(folded, row, k.begin)) {
        for (std::int64_t at = k.begin; at < k.end; at += 32) {
            const bool ends = (at + 32) % order.chain == 0 || at + 32 >= k.end;
            for (std::int64_t i = 0; i < others; ++i) {
                element(i).add_step(order.step, window.step_row(at - k.begin), other.step_row(i, at));
                if (!ends) continue;
                const float scale = use == ScaleUse::none ? 1 : other.scale(i, at);
                element(i).multiply_chain(window.half);
                element(i).end_chain({.of_a = scale, .of_b = window.factor});
            }
            chains += ends ? 1 : 0;
        }
    }
    return chains;
}

/// bf16: chains of 32, each times its scale.
std::int64_t WideRows::multiply_blocks(std::int64_t row, const Stretch& k, const Elements& element) const {
    std::int64_t chains = 0;
    for (std::int64_t at = k.begin; at < k.end; at += 16) {
        const bool ends = (at + 16) % 32 == 0 || at + 16 >= k.end;
        for (std::int64_t i = 0; i < others; ++i) {
            element(i).add_step(order.step, folded.step_row(row, at), other.step_row(i, at));
            if (ends) element(i).end_chain({.of_a = folded.scale(row, at)});
        }
        chains += ends ? 1 : 0;
    }
    return chains;
}

}  // namespace tilewright::check
