// k-grouped: finishes k-blocks that TMA loads only in part, or not at all. A warp with little else to do waits at
// `unfinished` for what TMA loads and adds the rest. Then it makes the load warp's arrival at `full`. The mainloop
// therefore sees only whole k-blocks. There are two kinds:
//
// - Groups that begin at multiples of 128. TMA loads their last k-block completely, so that the bytes after the end
//   belong to the next group or to none. They may be NaN, and NaN times zero is NaN, so both operands are cleared.
// - Groups that begin anywhere, with addresses or strides of rows that are not multiples of 16 bytes. TMA cannot load
//   them, and the warp loads their values byte by byte. This is correct but slow: if time matters, pad groups of tokens
//   to 16. (Aligned groups have a tensor map each, which ends with the group: group_maps.h.)
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/f32_parts.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

// ---- Bytes after the end of a group

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

// ---- Groups that TMA cannot load

/// A k-block of an operand: `rows` rows from row `first` on, 128 of the group's k-elements from k on. Rows from `end`
/// on do not exist.
struct UnalignedRows {
    const u8* values;  // of the group
    i64 stride;
    int first;
    int end;
    int k;
    int k_end;
};

/// A lane loads four bytes of each row.
TILEWRIGHT_DEVICE void load_unaligned_rows(u8* to, int rows, const UnalignedRows& from, int lane) {
    constexpr int word_bytes = 4;
    const int k = from.k + lane * word_bytes;
    const u8* row_values = from.values + from.first * from.stride + k;
#pragma unroll 2
    for (int row = 0; row < rows; ++row, row_values += from.stride) {
        u32 word = 0;
#pragma unroll
        for (int i = 0; i < word_bytes; ++i) {
            const bool inside = from.first + row < from.end && k + i < from.k_end;
            word |= inside ? u32(load_global(row_values + i)) << (8 * i) : 0;
        }
        store_shared(*reinterpret_cast<u32*>(to + row * row_bytes + (lane / 4 ^ row % 8) * 16 + lane % 4 * word_bytes),
                     word);
    }
}

// ---- The warp's work for a stage

/// Kernels that are not k-grouped: nothing.
template <Design design, bool finishes = design.is_k_grouped()>
class KBlockFinish {
public:
    TILEWRIGHT_DEVICE KBlockFinish(Shared<design>& /*shared*/, const ArgumentsOf<design>& /*arguments*/) {}

    /// The tile's i-th k-block is in `stage`.
    TILEWRIGHT_DEVICE void after_k_block(int /*stage*/, int /*i*/, const WorkTileOf<design>& /*work*/,
                                         const WorkTiles<design>& /*tiles*/, int& /*budget*/) {}
    /// The tile's last k-block is in `stage`.
    TILEWRIGHT_DEVICE void after_tile(int /*stage*/, const WorkTileOf<design>& /*work*/, int& /*budget*/) {}
};

template <Design design>
class KBlockFinish<design, true> {
public:
    TILEWRIGHT_DEVICE KBlockFinish(Shared<design>& shared, const ArgumentsOf<design>& arguments)
        : shared_(shared), arguments_(arguments) {}

    /// The tile's i-th k-block is in `stage`.
    TILEWRIGHT_DEVICE void after_k_block(int stage, int i, const WorkTileOf<design>& work,
                                         const WorkTiles<design>& tiles, int& budget) {
        if constexpr (design.groups == Groups::k_anywhere) {
            const GroupValues& values = arguments_.groups_of_k;
            if (is_tma_aligned(tiles.origin, values.any_flat())) return;
            const int lane = lane_index(), k = i * design.stage_k;
            wait(stage, budget);
            load_unaligned_rows(shared_.values_of_a(stage), design.d_rows,
                                {.values = values.a.at(tiles.origin.begin, arguments_.m),
                                 .stride = values.a.stride_of(tiles.origin.k),
                                 .first = work.row,
                                 .end = arguments_.m,
                                 .k = k,
                                 .k_end = work.k},
                                lane);
            load_unaligned_rows(shared_.values_of_b(stage), design.d_columns,
                                {.values = values.b.at(tiles.origin.begin, arguments_.n),
                                 .stride = values.b.stride_of(tiles.origin.k),
                                 .first = work.column,
                                 .end = arguments_.n,
                                 .k = k,
                                 .k_end = work.k},
                                lane);
            give(stage, lane, budget);
        }
    }

    /// The tile's last k-block is in `stage`.
    TILEWRIGHT_DEVICE void after_tile(int stage, const WorkTileOf<design>& work, int& budget) {
        if constexpr (design.groups == Groups::k_aligned) {
            const int last_k = work.k % design.stage_k;  // of the last k-block, if the group ends within it
            if (last_k == 0) return;
            const int lane = lane_index();
            wait(stage, budget);
#pragma unroll 1
            for (int side = 0; side < 2; ++side) {  // a loop, because its code is in every k-grouped kernel
                clear_columns(side == 0 ? shared_.mma_a_values[stage] : shared_.mma_b_values[stage],
                              side == 0 ? design.shape.m : design.shape.n, last_k, lane);
            }
            give(stage, lane, budget);
        }
    }

private:
    /// Waits for the bytes that TMA loads.
    TILEWRIGHT_DEVICE void wait(int stage, int& budget) {
        barrier_wait(shared_.unfinished.items[stage], phases_ >> stage & 1, {budget, BarrierName::full, stage});
        phases_ ^= 1U << stage;
    }
    /// Makes the load warp's arrival, unless a wait has timed out.
    TILEWRIGHT_DEVICE void give(int stage, int lane, int budget) {
        fence_async_proxy();
        sync_warp();
        if (lane == 0 && budget >= 0) barrier_arrive(shared_.full[stage]);
        sync_warp();
    }

    Shared<design>& shared_;
    const ArgumentsOf<design>& arguments_;
    u32 phases_ = 0;  // of `unfinished`; one bit per stage
};

/// For kernels in which the warp has no other work for a stage. Returns the rest of the wait budget.
template <Design design>
TILEWRIGHT_DEVICE int finish_k_blocks(Shared<design>& shared, const ArgumentsOf<design>& arguments,
                                      WorkTiles<design> tiles) {
    KBlockFinish<design> finish(shared, arguments);
    PipelineState<design.stages> ring{};
    int budget = wait_budget;
    for (WorkTileOf<design> work = tiles.first(budget); work.exists != 0; work = tiles.next(budget)) {
        const int k_blocks = k_slice_of<design>(work).count;
        if constexpr (design.groups == Groups::k_anywhere) {
            for (int i = 0; i < k_blocks; ++i)
                finish.after_k_block((ring.stage + i) % design.stages, i, work, tiles, budget);
        }
        ring.stage = (ring.stage + k_blocks) % design.stages;
        finish.after_tile(ring.previous(), work, budget);
        ring.stage = (ring.stage + F32Parts(design).stages) % design.stages;
    }
    return budget;
}

}  // namespace tilewright::hopper
