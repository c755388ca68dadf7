// k-grouped, groups that TMA cannot load, because the addresses or strides of their rows are not multiples of 16 bytes.
// A warp with little else to do loads their values byte by byte to the places where TMA would put them. This is correct
// but slow: if time matters, pad groups of tokens to 16.
#pragma once

#include "hopper/load/zero_k_tail.h"

namespace tilewright::hopper {

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
TILEWRIGHT_DEVICE void load_odd_rows(u8* to, int rows, const UnalignedRows& from, int lane) {
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

/// Loads the k-blocks of such groups, one after the other. The load warp arrives at `landed`, together with the scales
/// that TMA loads. This warp makes the arrival at `full`.
template <Design design, bool maps = design.groups == Groups::k_anywhere>
class UnalignedGroups {
public:
    TILEWRIGHT_DEVICE UnalignedGroups(Shared<design>& /*shared*/, const Arguments& /*arguments*/) {}
};

template <Design design>
class UnalignedGroups<design, true> {
public:
    TILEWRIGHT_DEVICE UnalignedGroups(Shared<design>& shared, const Arguments& arguments)
        : shared_(shared), arguments_(arguments) {}

    /// Loads the tile's i-th k-block into `stage`.
    TILEWRIGHT_DEVICE void load(int stage, int i, const WorkTileOf<design>& work, const GroupOrigin& origin,
                                int& budget) {
        const GroupValues values = GroupValues::unpacked(arguments_.a_last);
        const int lane = lane_index(), k = i * design.stage_k;
        barrier_wait(shared_.landed.barriers[stage], phases_ >> stage & 1, {budget, BarrierName::full, stage});
        phases_ ^= 1U << stage;
        load_odd_rows(shared_.values_of_a(stage), design.d_rows,
                      {.values = values.a.at(origin.begin, arguments_.m),
                       .stride = values.a.stride_of(origin.k),
                       .first = work.row,
                       .end = arguments_.m,
                       .k = k,
                       .k_end = work.k},
                      lane);
        load_odd_rows(shared_.values_of_b(stage), design.d_columns,
                      {.values = values.b.at(origin.begin, arguments_.n),
                       .stride = values.b.stride_of(origin.k),
                       .first = work.column,
                       .end = arguments_.n,
                       .k = k,
                       .k_end = work.k},
                      lane);
        fence_async_proxy();
        sync_warp();
        if (lane == 0 && budget >= 0) barrier_arrive(shared_.full[stage]);
        sync_warp();
    }

private:
    Shared<design>& shared_;
    const Arguments& arguments_;
    u32 phases_ = 0;  // one bit per stage
};

/// For kernels in which the warp has no other work for a stage. Returns the rest of the wait budget.
template <Design design>
TILEWRIGHT_DEVICE int load_unaligned_groups(Shared<design>& shared, const Arguments& arguments,
                                            WorkTiles<design> tiles) {
    UnalignedGroups<design> odd(shared, arguments);
    int stage = 0, budget = wait_budget;
    for (WorkTileOf<design> work = tiles.first(budget); work.exists != 0; work = tiles.next(budget)) {
        const int k_blocks = k_slice_of<design>(work).count;
        if (!is_tma_aligned(tiles.origin, GroupValues::unpacked(arguments.a_last).any_flat())) {
            for (int i = 0; i < k_blocks; ++i) odd.load((stage + i) % design.stages, i, work, tiles.origin, budget);
        }
        stage = (stage + k_blocks + design.output_stages) % design.stages;
    }
    return budget;
}

}  // namespace tilewright::hopper
