// The sizes of a tile of packed weights. The host and kernels read them here; packed_layout.h has the order of its
// bytes. C++20 without standard headers: device code includes it.
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

}  // namespace tilewright::formats
