// One operand of the product: how its values lie in memory, where its scales enter, what a stage of it takes.
#pragma once

#include "base/math.h"

namespace tilewright::hopper {

/// How an operand lies in memory. e2m1 is expanded to the format of the product on its way into registers.
enum class Storage : unsigned char { e4m3, e5m2, e2m1, bf16 };

/// Where the scales of an operand enter.
enum class Scaling : unsigned char {
    none,       // no scales
    after,      // per tensor, per row: constant along k, so they multiply the finished sum once
    row_128,    // 1x128: one f32 for each row and 128 of k, in the main loop
    block_128,  // 128x128: one f32 for 128 rows and 128 of k, in the main loop
    row_32,     // 1x32: one power of two for each row and 32 of k, in the main loop
    decoded,    // 1x16 (NVFP4): exact in bf16, so they are multiplied in while the values are expanded
};

inline constexpr int tile_alignment = 1024;  // of swizzled shared memory
inline constexpr int box_rows_limit = 256;   // of one TMA box

constexpr int bits(Storage storage) { return storage == Storage::bf16 ? 16 : storage == Storage::e2m1 ? 4 : 8; }

/// One operand of the product, seen from the tensor core.
struct Side {
    Storage storage = Storage::e4m3;
    Scaling scaling = Scaling::after;
    int rows = 0;
    bool shared = false;  // by multicast
    int box_limit = box_rows_limit;

    constexpr bool scaled_in_loop() const {
        return scaling == Scaling::row_128 || scaling == Scaling::block_128 || scaling == Scaling::row_32;
    }
    constexpr bool scaled_in_loop_by_row() const { return scaled_in_loop() && scaling != Scaling::block_128; }
    constexpr int value_bytes(int k) const { return round_up(rows * k * bits(storage) / 8, tile_alignment); }
    /// In the ring, f32 for each row. 128x128 scales come in larger pieces beside it (block_scale_bytes).
    constexpr int scale_bytes(int k) const {
        if (scaling == Scaling::row_128) return rows * 4;
        return scaling == Scaling::row_32 ? rows * k / 32 : 0;
    }
};

}  // namespace tilewright::hopper
