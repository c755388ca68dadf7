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

/// Bytes that swizzling moves as a whole.
constexpr int chunk_bytes() { return 16; }

TILEWRIGHT_DEVICE WordQuad& chunk_at(u8* values, int row, int chunk) {
    return *reinterpret_cast<WordQuad*>(values + row * row_bytes + (chunk ^ row % 8) * chunk_bytes());
}

/// Clears the chunks from `first` on of all rows: a store of the warp has those of four rows, 512 bytes that are
/// adjacent.
TILEWRIGHT_DEVICE void clear_chunks(u8* values, int rows, int first, int lane) {
    constexpr int chunks = row_bytes / chunk_bytes(), swizzled_rows = 8;
    const int chunk = lane % chunks, row = lane / chunks;
    if (chunk < first) return;
    // Rows r and r + 4 of eight have other places for a chunk; those of the next eight follow at a constant distance.
    u8* const upper = reinterpret_cast<u8*>(&chunk_at(values, row, chunk));
    u8* const lower = reinterpret_cast<u8*>(&chunk_at(values, row + 4, chunk));
#pragma unroll 4
    for (int begin = 0; begin < rows; begin += swizzled_rows) {
        store_shared(*reinterpret_cast<WordQuad*>(upper + begin * row_bytes), {});
        store_shared(*reinterpret_cast<WordQuad*>(lower + begin * row_bytes), {});
    }
}

/// Clears what follows the first `kept` bytes of a chunk in all rows, of which a lane has one in 32.
TILEWRIGHT_DEVICE void clear_rest_of_chunk(u8* values, int rows, int chunk, int kept, int lane) {
    constexpr int words = chunk_bytes() / 4;
    u32 masks[words];
#pragma unroll
    for (int i = 0; i < words; ++i) {
        const int of_word = kept - 4 * i;  // bytes that are kept
        masks[i] = of_word >= 4 ? ~0U : of_word <= 0 ? 0 : (1U << (8 * of_word)) - 1;
    }
#pragma unroll 4
    for (int row = lane; row < rows; row += warp_threads) {
        WordQuad& place = chunk_at(values, row, chunk);
        WordQuad quad = load_shared(place);
#pragma unroll
        for (int i = 0; i < words; ++i) quad.values[i] &= masks[i];
        store_shared(place, quad);
    }
}

/// Clears the bytes from `begin` on of `rows` swizzled rows, a multiple of eight, by a warp. The mainloop waits for it
/// if the ring has run dry, so stores are as wide as they can be and none waits for a load where a group ends between
/// chunks: with a word for each lane of one row after another a tile of 256x128 took 8 us longer (docs/tried.md).
TILEWRIGHT_DEVICE void clear_columns(u8* values, int rows, int begin, int lane) {
    const int chunk = begin / chunk_bytes(), kept = begin % chunk_bytes();
    if (kept != 0) clear_rest_of_chunk(values, rows, chunk, kept, lane);
    clear_chunks(values, rows, kept == 0 ? chunk : chunk + 1, lane);
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
#pragma unroll 1
        for (int side = 0; side < 2; ++side) {  // one loop: its code is in each kernel of groups
            clear_columns(side == 0 ? shared_.mma_a_values[stage] : shared_.mma_b_values[stage],
                          side == 0 ? tile.shape.m : tile.shape.n, last_k, lane);
        }
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
