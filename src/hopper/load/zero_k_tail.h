// k-grouped: writes zeros after a group's end in its last k-block. TMA loads the k-block completely, so that these
// bytes belong to the next group or to none. They may be NaN, and NaN times zero is NaN, so both operands are cleared.
// A warp with little else to do clears them after the bytes have arrived and then arrives at `full`. The mainloop
// therefore sees only whole k-blocks. (Groups that begin anywhere have a tensor map each, which ends with the group:
// group_maps.h.)
#pragma once

#include "hopper/block/k_slice.h"
#include "hopper/block/pipeline.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// The number of bytes that the swizzle moves as a whole.
constexpr int chunk_bytes() { return 16; }

TILEWRIGHT_DEVICE WordQuad& chunk_at(u8* values, int row, int chunk) {
    return *reinterpret_cast<WordQuad*>(values + row * row_bytes + (chunk ^ row % 8) * chunk_bytes());
}

/// Clears the chunks from `first` on in all rows. One store of the warp covers four rows, 512 adjacent bytes.
TILEWRIGHT_DEVICE void clear_chunks(u8* values, int rows, int first, int lane) {
    constexpr int chunks = row_bytes / chunk_bytes(), swizzled_rows = 8;
    const int chunk = lane % chunks, row = lane / chunks;
    if (chunk < first) return;
    // Rows r and r + 4 of eight have different places for a chunk. The places of the next eight rows follow at a
    // constant distance.
    u8* const upper = reinterpret_cast<u8*>(&chunk_at(values, row, chunk));
    u8* const lower = reinterpret_cast<u8*>(&chunk_at(values, row + 4, chunk));
#pragma unroll 4
    for (int begin = 0; begin < rows; begin += swizzled_rows) {
        store_shared(*reinterpret_cast<WordQuad*>(upper + begin * row_bytes), {});
        store_shared(*reinterpret_cast<WordQuad*>(lower + begin * row_bytes), {});
    }
}

/// Clears the bytes after the first `kept` bytes of a chunk in all rows. A lane clears one row in 32.
TILEWRIGHT_DEVICE void zero_rest_of_chunk(u8* values, int rows, int chunk, int kept, int lane) {
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

/// Clears the bytes from `begin` on of `rows` swizzled rows, a multiple of eight; called by a whole warp. The mainloop
/// waits for this if the ring has run dry. So stores are as wide as possible, and if a group ends between chunks no
/// store waits for a load. One word per lane, one row after another, made a tile of 256x128 8 us slower
/// (docs/experiments/011-k-grouped-ends.md).
TILEWRIGHT_DEVICE void clear_columns(u8* values, int rows, int begin, int lane) {
    const int chunk = begin / chunk_bytes(), kept = begin % chunk_bytes();
    if (kept != 0) zero_rest_of_chunk(values, rows, chunk, kept, lane);
    clear_chunks(values, rows, kept == 0 ? chunk : chunk + 1, lane);
}

/// Clears the k-blocks in which groups end, one after the other.
template <Design design, bool clears = design.groups == Groups::k_aligned>
class KTail {
public:
    TILEWRIGHT_DEVICE explicit KTail(Shared<design>& /*shared*/) {}
};

template <Design design>
class KTail<design, true> {
public:
    TILEWRIGHT_DEVICE explicit KTail(Shared<design>& shared) : shared_(shared) {}

    /// Clears the k-block at `stage`, of which the group has `last_k` k-elements. Then arrives at `full` in place of
    /// the load warp.
    TILEWRIGHT_DEVICE void clear(int stage, int last_k, int& budget) {
        const int lane = lane_index();
        barrier_wait(shared_.landed.barriers[stage], phases_ >> stage & 1, {budget, BarrierName::full, stage});
        phases_ ^= 1U << stage;
#pragma unroll 1
        for (int side = 0; side < 2; ++side) {  // a loop, because its code is in every k-grouped kernel
            clear_columns(side == 0 ? shared_.mma_a_values[stage] : shared_.mma_b_values[stage],
                          side == 0 ? design.shape.m : design.shape.n, last_k, lane);
        }
        fence_async_proxy();
        sync_warp();
        if (lane == 0) barrier_arrive(shared_.full[stage]);
        sync_warp();
    }

private:
    Shared<design>& shared_;
    u32 phases_ = 0;  // one bit per stage
};

/// For kernels in which the warp has no other work for a stage. Returns the rest of the wait budget.
template <Design design>
TILEWRIGHT_DEVICE int zero_k_tails(Shared<design>& shared, WorkTiles<design> tiles) {
    KTail<design> rest(shared);
    PipelineState<design.stages> ring{};
    int budget = wait_budget;
    for (WorkTileOf<design> work = tiles.first(budget); work.exists != 0; work = tiles.next(budget)) {
        const int k_blocks = k_slice_of<design>(work).count, last_k = last_k_of<design>(work);
        ring.stage = (ring.stage + k_blocks) % design.stages;
        const int last = ring.previous();
        if (last_k != 0) rest.clear(last, last_k, budget);
        ring.stage = (ring.stage + design.output_stages) % design.stages;
    }
    return budget;
}

}  // namespace tilewright::hopper
