// The sizes and numbers of packed weights that the host and kernels share. packed_layout.h has the order of the bytes.
// C++20 without standard headers: device code includes it.
#pragma once

namespace tilewright::formats {

inline constexpr int packed_rows = 64;
inline constexpr int packed_k = 128;
inline constexpr int packed_code_bytes = packed_rows * packed_k / 2;
inline constexpr int most_windows = 4;                   // of a row in a tile: one for each of its 1x32 scales
inline constexpr int windows_head_bytes = 16;            // about all windows: PackedWindows
inline constexpr int packed_window_bytes = packed_rows;  // the exponents of one window

/// `scale_k`: k-elements per scale, each a byte. `windows`: those that the tile has room for; 0: no row is wide.
constexpr int packed_tile_bytes(int scale_k, int windows = 0) {
    const int of_windows = windows == 0 ? 0 : windows_head_bytes + windows * packed_window_bytes;
    return packed_code_bytes + packed_rows * (packed_k / scale_k) + of_windows;
}

/// The number of a tile among those of a matrix. The two row tiles of 128 rows are adjacent.
template <class Int>
constexpr Int packed_tile_index(Int row_tiles, Int k_blocks, Int row_tile, Int k_block) {
    const Int first = row_tile / 2 * 2, together = row_tiles - first < 2 ? row_tiles - first : 2;
    return first * k_blocks + k_block * together + row_tile % 2;
}

/// The largest difference of exponents in a row that one reference supports.
///
/// - fp8: 2^s * e2m1 is an e4m3 number without subnormal codes for twelve exponents s, -5 .. 6.
/// - bf16: 0.5 * 2^-120 is far from bf16's subnormal numbers.
inline constexpr int fp8_exponent_range = 11;
inline constexpr int bf16_exponent_range = 120;

/// The exponent that the weights with the reference's own scale have in e4m3: 6, so that the others have -5 .. 6.
inline constexpr int fp8_top_exponent = 6;

inline constexpr int no_exponent = -1000;  // of a block that does not count (row_exponents.h)
inline constexpr int no_window = -128;     // the stored exponent of a row without this window

// Flags of a row (PackedRow).
inline constexpr unsigned char packed_row_wide = 1;
inline constexpr unsigned char packed_row_kept = 2;  // its scales are in the last section

}  // namespace tilewright::formats
