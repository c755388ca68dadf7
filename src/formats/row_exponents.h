// The exponents of a row of MXFP4 weights, which decide its canonical order (docs/numerics.md). If they are close, the
// row has one reference; otherwise it has windows of neighbouring exponents.
#pragma once

#include <array>
#include <cstdint>

namespace tilewright::formats {

/// The largest difference of exponents in a row that one reference supports.
///
/// - fp8: 2^s * e2m1 is an e4m3 number without subnormal codes for twelve exponents s, -5 .. 6.
/// - bf16: 0.5 * 2^-120 is far from bf16's subnormal numbers.
inline constexpr int fp8_exponent_range = 11;
inline constexpr int bf16_exponent_range = 120;

/// The exponent that the weights with the reference's own scale have in e4m3: 6, so that the others have -5 .. 6.
inline constexpr int fp8_top_exponent = 6;

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
    static constexpr int none = -1000;  // the exponent of a block that does not count

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
