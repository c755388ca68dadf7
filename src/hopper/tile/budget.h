// Registers per thread and blocks per SM.
#pragma once

#include "hopper/tile/roles.h"
#include "hopper/tile/stage_layout.h"

namespace tilewright::hopper {

inline constexpr int registers_per_sm = 65536;  // 32-bit (CUDA C++ programming guide, 17.7)
inline constexpr int other_registers = 32;      // of a consumer thread: addresses, scales, loop state

/// Blocks that an SM holds at once. With split-K two blocks, if they fit, because clusters of 4 and 8 leave some SMs
/// without a block.
constexpr int blocks_per_sm(const Tile& tile) {
    const bool fit = 2 * (shared_bytes(tile) + 1024) <= shared_bytes_per_sm;
    return splits_k(tile) && tile.shape.warpgroups == 1 && fit ? 2 : 1;
}
/// The registers that a launch gives every thread, in steps of 8. setmaxnreg can only move registers that the launch
/// allocated.
constexpr int launch_registers(const Tile& tile) {
    return min(registers_per_sm / (block_threads(tile) * blocks_per_sm(tile)) / 8 * 8, 248);
}
/// Whether setmaxnreg moves registers from producers to consumers. A single consumer warpgroup has enough without it.
constexpr bool moves_registers(const Tile& tile) { return tile.shape.warpgroups > 1; }
/// Producers that load 1x32 scales hold the scales of several k-blocks.
constexpr int producer_registers(const Tile& tile) {
    if (!moves_registers(tile)) return launch_registers(tile);
    if (tile.shape.warpgroups > 2) return 32;
    return promotes_each_step(tile) ? 56 : 40;
}
constexpr int consumer_registers(const Tile& tile) {
    if (!moves_registers(tile)) return launch_registers(tile);
    const int pool = launch_registers(tile) * block_threads(tile) - producer_registers(tile) * warpgroup_threads;
    return min(pool / (tile.shape.warpgroups * warpgroup_threads) / 8 * 8, 240);
}
/// The registers of a consumer thread that the mma may use. Epilogue scales take some more if alpha and C do too. As
/// NVRTC 13.0 compiles the loops, two kinds differ in their other registers. Loops that decode to bf16 and promote
/// k-blocks have fewer: 256x64 of four warpgroups has wgmmas of 32 columns without spills. Loops that promote steps of
/// bf16 on both sides have more (64x192 of grouped kernels).
constexpr int mma_register_budget(const Tile& tile) {
    const bool of_k_blocks = scales_in_mainloop(tile) && !promotes_each_step(tile);
    const bool of_steps = promotes_each_step(tile) && tile.b.storage == Storage::bf16;
    const int others = other_registers + (of_steps ? 8 : multiplies_bf16(tile) && of_k_blocks ? -8 : 0);
    return consumer_registers(tile) - others - (scales_rows_at_end(tile) && !is_fast(tile) ? 16 : 0);
}

}  // namespace tilewright::hopper
