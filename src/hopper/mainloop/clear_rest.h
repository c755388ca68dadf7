// Groups of k: zeros behind a group's end in its last k-block, which TMA loads to its end. The bytes there are those of
// the next group or of no one, NaN maybe, and NaN times zero is NaN: so both operands are cleared. By a warp that has
// little else to do, between the arrival of the bytes and that at `full`: the mainloop sees whole k-blocks alone.
// (Groups that begin anywhere have a tensor map each, whose extent ends with them: group_maps.h.)
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// Clears the bytes from `begin` on of `rows` swizzled rows. A lane has four bytes of each row.
TILEWRIGHT_DEVICE void clear_columns(u8* values, int rows, int begin, int lane) {
    constexpr int word_bytes = 4;
    const int kept = begin - lane * word_bytes;  // bytes of the lane's word
    if (kept >= word_bytes) return;
    const u32 mask = kept <= 0 ? 0 : (1U << (8 * kept)) - 1;
#pragma unroll 4
    for (int row = 0; row < rows; ++row) {
        int& word =
            *reinterpret_cast<int*>(values + row * row_bytes + (lane / 4 ^ row % 8) * 16 + lane % 4 * word_bytes);
        store_shared(word, mask == 0 ? 0 : int(u32(load_shared(word)) & mask));
    }
}

/// The k-blocks in which groups end, one after the other.
template <Tile tile, bool clears = clears_rests(tile)>
class RestOfGroups {
public:
    TILEWRIGHT_DEVICE explicit RestOfGroups(Shared<tile>& /*shared*/) {}
};

template <Tile tile>
class RestOfGroups<tile, true> {
public:
    TILEWRIGHT_DEVICE explicit RestOfGroups(Shared<tile>& shared) : shared_(shared) {}

    /// The k-block at `stage`, of whose k the group has `last_k`. In place of the load warp's arrival at `full`.
    TILEWRIGHT_DEVICE void clear(int stage, int last_k, int& budget) {
        const int lane = lane_index();
        barrier_wait(shared_.landed.barriers[stage], phases_ >> stage & 1, {budget, BarrierName::full, stage});
        phases_ ^= 1U << stage;
        clear_columns(shared_.mma_a_values[stage], tile.shape.m, last_k, lane);
        clear_columns(shared_.mma_b_values[stage], tile.shape.n, last_k, lane);
        fence_async_proxy();
        sync_warp();
        if (lane == 0) barrier_arrive(shared_.full[stage]);
        sync_warp();
    }

private:
    Shared<tile>& shared_;
    u32 phases_ = 0;  // a bit for each stage
};

/// Where nothing else is to be done for a stage. Returns the wait budget that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int clear_rests(Shared<tile>& shared, WorkTiles<tile> tiles) {
    RestOfGroups<tile> rest(shared);
    PipelineState<tile.stages> ring{};
    int budget = wait_budget;
    for (WorkTile work = tiles.first(budget); work.exists != 0; work = tiles.next(budget)) {
        const int k_blocks = k_slice_of<tile>(work).count, last_k = last_k_of<tile>(work);
        ring.stage = (ring.stage + k_blocks) % tile.stages;
        const int last = ring.stage == 0 ? tile.stages - 1 : ring.stage - 1;
        if (last_k != 0) rest.clear(last, last_k, budget);
        ring.stage = (ring.stage + output_stages(tile)) % tile.stages;
    }
    return budget;
}

}  // namespace tilewright::hopper
