#include "safetensors/scale_blocks.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t largest_block = std::int64_t{1} << 20;

/// The last two sizes of the scales, and whether each group has its own.
struct Lines {
    std::int64_t lines = 1;
    std::int64_t columns = 1;
    bool shared = true;
};

std::int64_t count(std::int64_t size, std::int64_t block) { return block == 0 ? 1 : (size + block - 1) / block; }

/// One scale for each row of the operand; [n] and [groups, n] are that too.
Lines of_rows(const StoredShape& values, std::int64_t size, bool shared) {
    if (values.transposed) return {.lines = 1, .columns = size, .shared = shared};
    return {.lines = size, .columns = 1, .shared = shared};
}

std::optional<Lines> lines_of(const StoredShape& values, const std::vector<std::uint64_t>& shape) {
    const auto size = [&](std::size_t i) { return static_cast<std::int64_t>(shape[i]); };
    if (std::ranges::all_of(shape, [](std::uint64_t one) { return one == 1; })) return Lines{};
    if (std::ranges::find(shape, 0U) != shape.end()) return std::nullopt;
    if (!values.groups) {
        if (shape.size() == 1) return of_rows(values, size(0), true);
        if (shape.size() == 2) return Lines{.lines = size(0), .columns = size(1)};
        return std::nullopt;
    }
    if (size(0) != *values.groups || shape.size() > 3) return std::nullopt;
    if (shape.size() == 1) return Lines{.shared = false};
    if (shape.size() == 3) return Lines{.lines = size(1), .columns = size(2), .shared = false};
    if (size(1) == 1) return Lines{.shared = false};
    return of_rows(values, size(1), false);
}

bool is_exact(const StoredShape& values, const Lines& scales, const ScaleBlocks& blocks) {
    return scales.lines == count(values.rows, blocks.rows) && scales.columns == count(values.columns, blocks.columns);
}

bool is_padded(const StoredShape& values, const Lines& scales, const ScaleBlocks& blocks) {
    return scales.lines >= count(values.rows, blocks.rows) && scales.columns >= count(values.columns, blocks.columns);
}

/// Tensor cores take the scales of MX and NVFP4 in tiles of 128 rows and 4 columns, whose padding looks like this.
bool may_be_interleaved(const Lines& scales) { return scales.lines % 128 == 0 && scales.columns % 4 == 0; }

ScaleBlocks turned(const StoredShape& values, const ScaleBlocks& blocks) {
    return values.transposed ? ScaleBlocks{blocks.columns, blocks.rows} : blocks;
}

/// The granularities that everyone has, for operands [n, k].
std::vector<ScaleBlocks> usual(const BlockRules& rules) {
    std::vector<ScaleBlocks> all;
    if (rules.configured) all.push_back(*rules.configured);
    if (rules.squares) all.push_back({128, 128});
    for (const ScaleBlocks& one : {ScaleBlocks{0, 0}, ScaleBlocks{1, 0}, ScaleBlocks{128, 128}, ScaleBlocks{1, 128}}) {
        all.push_back(one);
    }
    if (rules.powers) all.push_back({1, 32});
    return all;
}

/// Squares, or blocks of a row, of a power of two that have exactly this shape; there is at most one such size.
std::optional<ScaleBlocks> power_blocks(const StoredShape& values, const Lines& scales) {
    for (std::int64_t block = 2; block < largest_block; block *= 2) {
        for (const ScaleBlocks& one : {ScaleBlocks{block, block}, turned(values, {1, block})}) {
            if (is_exact(values, scales, one)) return one;
        }
    }
    return std::nullopt;
}

std::string shape_text(const StoredShape& values, const ScaleBlocks& blocks) {
    const std::string groups = values.groups ? fmt::format("{}, ", *values.groups) : "";
    return fmt::format("[{}{}, {}]", groups, count(values.rows, blocks.rows), count(values.columns, blocks.columns));
}

StoredScales stored(const StoredShape& values, const Lines& lines, const ScaleBlocks& blocks) {
    return {.blocks = blocks,
            .lines = lines.lines,
            .columns = lines.columns,
            .shared = lines.shared,
            .padded = !is_exact(values, lines, blocks)};
}

ScaleFit fit_fixed(const StoredShape& values, const Lines& lines, const ScaleBlocks& blocks) {
    if (is_exact(values, lines, blocks)) return {.scales = stored(values, lines, blocks)};
    const std::string expected = shape_text(values, blocks);
    if (!is_padded(values, lines, blocks) || power_blocks(values, lines)) return {.expected = expected};
    if (may_be_interleaved(lines)) {
        return {.expected = expected + ", or its form interleaved in tiles of 128 rows and 4 columns,"};
    }
    return {.scales = stored(values, lines, blocks)};
}

/// Where no usual granularity has that shape: another block size, or known blocks with padding, but not where both do.
ScaleFit fit_unusual(const StoredShape& values, const Lines& lines, const BlockRules& rules) {
    const ScaleBlocks known = turned(values, rules.configured.value_or(ScaleBlocks{128, 128}));
    const bool padded = is_padded(values, lines, known);
    const auto others = power_blocks(values, lines);
    if (others && padded) {
        return {.expected =
                    fmt::format("{}, because blocks of {}x{} and padded blocks of {}x{} both have that shape,",
                                shape_text(values, known), others->rows, others->columns, known.rows, known.columns)};
    }
    if (others && !rules.configured) return {.scales = stored(values, lines, *others)};
    if (padded && (rules.configured || rules.squares)) return {.scales = stored(values, lines, known)};
    if (rules.configured) {
        return {.expected = fmt::format("{} by config.json's blocks of {}x{}", shape_text(values, known), known.rows,
                                        known.columns)};
    }
    return {.expected = fmt::format("one scale, {} or {}", shape_text(values, turned(values, {1, 0})),
                                    shape_text(values, turned(values, {128, 128})))};
}

}  // namespace

ScaleFit fit_scales(const StoredShape& values, const std::vector<std::uint64_t>& scales, const BlockRules& rules) {
    const std::optional<Lines> lines = lines_of(values, scales);
    if (rules.fixed) {
        const ScaleBlocks fixed = turned(values, *rules.fixed);
        if (lines) return fit_fixed(values, *lines, fixed);
        return {.expected = shape_text(values, fixed)};
    }
    const Lines given = lines.value_or(Lines{.lines = 0, .columns = 0});
    for (const ScaleBlocks& blocks : usual(rules)) {
        const ScaleBlocks here = turned(values, blocks);
        if (is_exact(values, given, here)) return {.scales = stored(values, given, here)};
    }
    return fit_unusual(values, given, rules);
}

}  // namespace tilewright::safetensors
