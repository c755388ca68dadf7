// The exponents of a row of MXFP4 weights, which decide its canonical order (docs/numerics.md). If they are close, the
// row has one reference; otherwise it has windows of neighbouring exponents.
#pragma once

#include <array>
#include <cstdint>

#include "formats/packed_tile.h"

namespace tilewright::formats {

inline constexpr int ue8m0_bias = 127;
inline constexpr int ue8m0_nan = 255;

/// Blocks of zeros do not count, whatever their scales. Blocks whose scale is NaN do not count either: NaN makes the
/// whole row NaN.
struct RowExponents {
    int largest = -1000;
    int smallest = 1000;
    bool nan = false;

    constexpr bool empty() const { return largest < smallest; }
    constexpr void include(int exponent) {
        largest = exponent > largest ? exponent : largest;
        smallest = exponent < smallest ? exponent : smallest;
    }
    constexpr void include(int scale_code, bool has_nonzero) {
        if (scale_code == ue8m0_nan) {
            nan = true;
        } else if (has_nonzero) {
            include(scale_code - ue8m0_bias);
        }
    }
    constexpr int difference() const { return empty() ? 0 : largest - smallest; }
    constexpr bool wide(int range) const { return difference() > range; }

    /// The exponent that is factored out of the whole row: the largest one. 0 for wide rows, whose windows have their
    /// own.
    constexpr int reference(int range) const { return empty() || wide(range) ? 0 : largest; }
};

/// The windows of the four 1x32 blocks of 128 k-elements, from the largest exponent down. Window 0 has all blocks
/// without an exponent, and always exists.
struct BlockWindows {
    static constexpr int blocks = 4;
    static constexpr int none = no_exponent;

    int count = 1;
    std::array<int, blocks> top{none, none, none, none};  // the largest exponent of each window
    std::array<int, blocks> of_block{};                   // the window of each block
};

constexpr BlockWindows block_windows(const std::array<int, BlockWindows::blocks>& exponents) {
    BlockWindows windows;
    std::array<bool, BlockWindows::blocks> done{};
    for (int window = 0;; ++window) {
        int top = BlockWindows::none;
        for (std::size_t i = 0; i < exponents.size(); ++i) {
            if (!done[i] && exponents[i] > top) top = exponents[i];
        }
        if (top == BlockWindows::none) return windows;
        windows.count = window + 1;
        windows.top[static_cast<std::size_t>(window)] = top;
        for (std::size_t i = 0; i < exponents.size(); ++i) {
            if (done[i] || exponents[i] == BlockWindows::none || top - exponents[i] > fp8_exponent_range) continue;
            windows.of_block[i] = window;
            done[i] = true;
        }
    }
}

}  // namespace tilewright::formats
