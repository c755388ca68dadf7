#include "formats/token_source.h"

#include "formats/element.h"

#include <algorithm>

namespace tilewright::formats {

std::vector<TokenGroup> token_groups(const Tensor& ends, std::int64_t tokens) {
    if (!ends.given()) return {{.begin = 0, .end = tokens}};
    std::vector<TokenGroup> groups(static_cast<std::size_t>(ends.shape[0]));
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < ends.shape[0]; ++i) {
        const std::int64_t given = load_integer(ends.data, ends.format, i * ends.strides[0]);
        const std::int64_t end = std::clamp(given, begin, tokens);
        groups[static_cast<std::size_t>(i)] = {.begin = begin, .end = end};
        begin = end;
    }
    return groups;
}

std::vector<TokenStrip> token_strips(const Tensor& ends, std::int64_t tokens) {
    std::vector<TokenStrip> strips;
    const std::vector<TokenGroup> groups = token_groups(ends, tokens);
    std::int64_t column = 0;
    for (std::int64_t group = 0; group < std::ssize(groups); ++group) {
        auto [begin, end] = groups[static_cast<std::size_t>(group)];
        for (; begin < end; begin += std::min(token_block, end - begin), column += token_block) {
            strips.push_back(
                {.group = group, .token = begin, .tokens = std::min(token_block, end - begin), .column = column});
        }
    }
    return strips;
}

TokenReader::TokenReader(const TokenSource& source)
    : x_(matrix_view(source.x)),
      gate_(x_),
      up_(x_),
      index_(source.index),
      activation_(source.activation),
      interleaved_(source.swiglu.interleaved),
      rule_{source.swiglu.alpha, source.swiglu.beta, limit_of(source.swiglu.limit)},
      features_(activation_ == Activation::swiglu ? x_.columns / 2 : x_.columns) {
    if (activation_ == Activation::swiglu_gradient) gradient_ = matrix_view(source.gradient);
    if (x_.data != nullptr) up_.data = x_.at(0, 0, interleaved_ ? 1 : x_.columns / 2);
    if (interleaved_) gate_.column_stride = up_.column_stride = 2 * x_.column_stride;
}

void TokenReader::load_halves(const Region& features, Tile& gate, Tile& up) const {
    formats::load(gate_, features, gate);
    formats::load(up_, features, up);
}

void TokenReader::load(const Region& region, Tile& tile, Scratch& scratch) const {
    if (index_.given()) return load_rows(region, tile, scratch);
    if (activation_ == Activation::none) return formats::load(x_, region, tile);
    if (activation_ == Activation::swiglu_gradient) return load_gradient(region, tile, scratch);
    Tile& up = scratch.up;
    load_halves(region, tile, up);
    for (std::int64_t i = 0; i < region.rows; ++i) {
        for (std::int64_t j = 0; j < region.columns; ++j) tile.row(i)[j] = swiglu(tile.row(i)[j], up.row(i)[j], rule_);
    }
}

/// The rows of x that the index names, clamped.
void TokenReader::load_rows(const Region& region, Tile& tile, Scratch& scratch) const {
    for (std::int64_t i = 0; i < region.rows; ++i) {
        const std::int64_t named = load_integer(index_.data, index_.format, (region.row + i) * index_.strides[0]);
        const Region row{.row = std::clamp<std::int64_t>(named, 0, x_.rows - 1),
                         .column = region.column,
                         .rows = 1,
                         .columns = region.columns};
        formats::load(x_, row, scratch.gate);
        std::copy_n(scratch.gate.row(0), region.columns, tile.row(i));
    }
}

void TokenReader::load_gradient(const Region& region, Tile& tile, Scratch& scratch) const {
    const std::int64_t half = x_.columns / 2;
    const std::int64_t end = region.column + region.columns;
    Tile& gate = scratch.gate;
    Tile& up = scratch.up;
    Tile& gradient = scratch.gradient;
    // The features of swiglu whose gate, up or both are among the tile's columns: without turns two runs may be.
    const auto run = [&](std::int64_t first, std::int64_t last, bool gates, bool ups) {
        if (first >= last) return;
        const Region features{.row = region.row, .column = first, .rows = region.rows, .columns = last - first};
        load_halves(features, gate, up);
        formats::load(gradient_, features, gradient);
        for (std::int64_t i = 0; i < region.rows; ++i) {
            for (std::int64_t j = 0; j < features.columns; ++j) {
                const SwiGluGradient both = swiglu_gradient(gate.row(i)[j], up.row(i)[j], gradient.row(i)[j], rule_);
                const std::int64_t gate_column = interleaved_ ? 2 * (first + j) : first + j;
                const std::int64_t up_column = interleaved_ ? gate_column + 1 : half + first + j;
                if (gates) tile.row(i)[gate_column - region.column] = both.gate;
                if (ups) tile.row(i)[up_column - region.column] = both.up;
            }
        }
    };
    if (interleaved_) return run(region.column / 2, end / 2, true, true);
    run(region.column, std::min(end, half), true, false);
    run(std::max(region.column, half) - half, end - half, false, true);
}

}  // namespace tilewright::formats
