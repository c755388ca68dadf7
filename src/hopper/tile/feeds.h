// How the operands of a tile reach the tensor core, and which rows a thread's accumulators have because of it.
#pragma once

#include "hopper/tile/operands.h"

namespace tilewright::hopper {

/// Where mma A is read from. mma B is always in shared memory.
enum class FeedKind : unsigned char {
    shared,           // mma A too, along k
    transposed,       // mma A is mn-major: it passes through registers, which ldmatrix and byte permutes fill along k
    decoded,          // mma A is packed: its codes become e4m3 in registers
    windowed,         // the same, those of one window of exponents at a time
    decoded_to_bf16,  // mma A is packed for bf16: a box of k at a time
    k_block_to_bf16,  // the same next to scales of each k-block: both boxes of it
};

constexpr FeedKind feed_of(const Tile& tile) {
    if (mma_a(tile).has_windows()) return FeedKind::windowed;
    if (mma_a(tile).is_packed() && multiplies_bf16(tile)) {
        const bool of_k_blocks = scales_in_mainloop(tile) && !promotes_each_step(tile);
        return of_k_blocks ? FeedKind::k_block_to_bf16 : FeedKind::decoded_to_bf16;
    }
    if (mma_a(tile).is_packed()) return FeedKind::decoded;
    return mma_a(tile).is_mn_major() ? FeedKind::transposed : FeedKind::shared;
}
constexpr bool feeds_registers(const Tile& tile) { return feed_of(tile) != FeedKind::shared; }

inline constexpr int wgmma_k_bytes = 32;                       // of one wgmma
inline constexpr int wgmma_steps = row_bytes / wgmma_k_bytes;  // wgmmas of a subtile and box of k
/// wgmmas that multiply a step of a subtile: one of fp8, two of bf16.
constexpr int wgmmas_in_step(const Tile& tile) { return step_k * element_bytes(tile.a.storage) / wgmma_k_bytes; }
inline constexpr int fragment_words = 4;  // of 64 x 32 bytes of mma A, in each thread

/// Registers of each thread for 64 rows of mma A and a box of k, or both.
constexpr int feed_registers(const Tile& tile) {
    const int boxes = feed_of(tile) == FeedKind::k_block_to_bf16 ? k_boxes(tile) : 1;
    return feeds_registers(tile) ? boxes * wgmma_steps * fragment_words : 0;
}

/// ldmatrix transposes pairs of bytes, two neighbouring rows of an mn-major operand: the rows that the tensor core
/// takes for r and r + 8 of a warp's 16 are 2 r and 2 r + 1. Nothing but the epilogue and scales of rows can tell.
constexpr bool pairs_rows(const Tile& tile) { return mma_a(tile).is_mn_major(); }
/// The first of the two rows of a warp's 16 that a lane's accumulators have, and from it to the second.
constexpr int fragment_row(const Tile& tile, int lane) { return pairs_rows(tile) ? lane / 4 * 2 : lane / 4; }
constexpr int fragment_row_step(const Tile& tile) { return pairs_rows(tile) ? 1 : 8; }

}  // namespace tilewright::hopper
