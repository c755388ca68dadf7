// Groups of k that TMA cannot load, because their rows begin at addresses or have strides that are no multiples of 16
// bytes: a warp that has little else to do loads their values byte by byte, to where TMA would put them. Right, not
// fast: groups of tokens are padded to 16 where time matters.
#pragma once

#include "hopper/mainloop/clear_rest.h"

namespace tilewright::hopper {

/// A k-block of an operand: `rows` rows from row `first` of those before `end` on, 128 of the group's k from k on.
struct OddRows {
    const u8* values;  // of the group
    i64 stride;
    int first;
    int end;
    int k;
    int k_end;
};

/// A lane has four bytes of each row.
TILEWRIGHT_DEVICE void load_odd_rows(u8* to, int rows, const OddRows& from, int lane) {
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

/// The k-blocks of such groups, one after the other. The load warp's arrival for each, with the scales that TMA loads,
/// is at `landed`; this warp makes that at `full`.
template <Tile tile, bool maps = maps_groups(tile)>
class OddGroups {
public:
    TILEWRIGHT_DEVICE OddGroups(Shared<tile>& /*shared*/, const Arguments& /*arguments*/) {}
};

template <Tile tile>
class OddGroups<tile, true> {
public:
    TILEWRIGHT_DEVICE OddGroups(Shared<tile>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments) {}

    /// The tile's i-th k-block, at `stage`.
    TILEWRIGHT_DEVICE void load(int stage, int i, const WorkTile& work, const GroupOrigin& origin, int& budget) {
        const GroupValues values = GroupValues::unpacked(arguments_.a_last);
        const int lane = lane_index(), k = i * tile.shape.k;
        barrier_wait(shared_.landed.barriers[stage], phases_ >> stage & 1, {budget, BarrierName::full, stage});
        phases_ ^= 1U << stage;
        load_odd_rows(shared_.values_of_a(stage), d_rows(tile),
                      {.values = values.a.at(origin.begin, arguments_.m),
                       .stride = values.a.stride_of(origin.k),
                       .first = work.row,
                       .end = arguments_.m,
                       .k = k,
                       .k_end = k_of(work)},
                      lane);
        load_odd_rows(shared_.values_of_b(stage), d_columns(tile),
                      {.values = values.b.at(origin.begin, arguments_.n),
                       .stride = values.b.stride_of(origin.k),
                       .first = work.column,
                       .end = arguments_.n,
                       .k = k,
                       .k_end = k_of(work)},
                      lane);
        fence_async_proxy();
        sync_warp();
        if (lane == 0 && budget >= 0) barrier_arrive(shared_.full[stage]);
        sync_warp();
    }

private:
    Shared<tile>& shared_;
    const Arguments& arguments_;
    u32 phases_ = 0;  // a bit for each stage
};

/// Where nothing else is to be done for a stage. Returns the wait budget that is left.
template <Tile tile>
TILEWRIGHT_DEVICE int load_odd_groups(Shared<tile>& shared, const Arguments& arguments, WorkTiles<tile> tiles) {
    OddGroups<tile> odd(shared, arguments);
    int stage = 0, budget = wait_budget;
    for (WorkTile work = tiles.first(budget); work.exists != 0; work = tiles.next(budget)) {
        const int k_blocks = k_slice_of<tile>(work).count;
        if (!tma_takes(tiles.origin, GroupValues::unpacked(arguments.a_last).any_flat())) {
            for (int i = 0; i < k_blocks; ++i) odd.load((stage + i) % tile.stages, i, work, tiles.origin, budget);
        }
        stage = (stage + k_blocks + output_stages(tile)) % tile.stages;
    }
    return budget;
}

}  // namespace tilewright::hopper
