// The paths by which a tile's operands reach the tensor core, and the rows of a thread's accumulators that follow from
// the path.
#pragma once

#include "hopper/tile/operands.h"

namespace tilewright::hopper {

/// The source of mma A. mma B is always in shared memory.
enum class FeedKind : unsigned char {
    shared,  // Shared memory too; K-major.
    // mma A is MN-major: it passes through registers, which ldmatrix and byte permutes fill along k.
    transposed,
    decoded,          // mma A is packed: its values become e4m3 in registers.
    windowed,         // As decoded, but one exponent window of values at a time.
    decoded_to_bf16,  // mma A is packed for bf16: one box of k at a time.
    k_block_to_bf16,  // As decoded_to_bf16 with scales per k-block: both boxes of the k-block.
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
inline constexpr int wgmma_steps = row_bytes / wgmma_k_bytes;  // wgmmas per subtile and box of k
/// wgmmas that multiply a step of a subtile: one of fp8, two of bf16.
constexpr int wgmmas_in_step(const Tile& tile) { return step_k * element_bytes(tile.a.storage) / wgmma_k_bytes; }
inline constexpr int fragment_words = 4;  // per thread, for 64 x 32 bytes of mma A

/// Registers per thread for 64 rows of mma A and one box of k, or both boxes.
constexpr int feed_registers(const Tile& tile) {
    const int boxes = feed_of(tile) == FeedKind::k_block_to_bf16 ? k_boxes(tile) : 1;
    return feeds_registers(tile) ? boxes * wgmma_steps * fragment_words : 0;
}

/// Pairs of bytes, which are two adjacent rows of an MN-major operand, are transposed by ldmatrix. For r and r + 8 of a
/// warp's 16 rows, the tensor core therefore takes rows 2 r and 2 r + 1. Only the epilogue and row scales see this.
constexpr bool pairs_rows(const Tile& tile) { return mma_a(tile).is_mn_major(); }
/// The first of the two rows of a warp's 16 that a lane's accumulators have, and the distance to the second row.
constexpr int fragment_row(const Tile& tile, int lane) { return pairs_rows(tile) ? lane / 4 * 2 : lane / 4; }
constexpr int fragment_row_step(const Tile& tile) { return pairs_rows(tile) ? 1 : 8; }

}  // namespace tilewright::hopper
