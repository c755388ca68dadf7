// k-grouped, groups that begin anywhere or are one matrix after another: each group and operand has its own tensor map.
// It holds the group's address, row stride and k, which only the device knows. TMA then reads zeros after a group's
// end. The load warp writes a group's maps ahead of the group's first tile; a map in use is never overwritten.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/scheduler.h"

namespace tilewright::hopper {

/// The maps of groups that a block's loads may still use, and the maps of the next group. Each stage holds a k-block in
/// flight, and each group with maps has at least one k-block.
template <Design design>
struct BlockMaps {
    static constexpr int groups = design.stages + 1;
    alignas(128) TensorMap a[groups];  // tensormap.replace takes objects of 1024 bits
    alignas(128) TensorMap b[groups];
};

/// In the kernel's module, so that a call needs no workspace. Each running block claims one entry. There are more than
/// two entries per SM, because several launches of the kernel may run at once. A launch that times out keeps its
/// entries.
inline constexpr int map_entries = 512;
template <Design design>
struct MapsOfBlocks {
    u32 claimed[map_entries];
    BlockMaps<design> maps[map_entries];
};
#ifdef __CUDACC_RTC__
template <Design design>
__device__ MapsOfBlocks<design> maps_of_blocks;
#else
template <Design design>
inline MapsOfBlocks<design> maps_of_blocks;
#endif

/// The maps that the load warp uses. One thread writes and uses them.
template <Design design, bool maps = design.groups == Groups::k_anywhere>
class GroupMaps {};

template <Design design>
class GroupMaps<design, true> {
public:
    TILEWRIGHT_DEVICE void claim_entry() {
        int entry = 0;
        if (lane_index() == 0) entry = claim(maps_of_blocks<design>.claimed, map_entries);
        entry_ = same_in_warp(entry);
    }
    /// Called after all loads have arrived.
    TILEWRIGHT_DEVICE void release_entry() {
        if (lane_index() == 0) release(maps_of_blocks<design>.claimed[entry_]);
    }

    /// Called ahead of the loads of a tile.
    TILEWRIGHT_DEVICE void take(const ArgumentsOf<design>& arguments, const WorkTileOf<design>& work,
                                const GroupOrigin& origin) {
        const GroupValues values = arguments.groups_of_k;
        loads_ = is_tma_aligned(origin, values.any_flat());
        if (work.batch == group_ || !loads_ || work.k == 0) return;
        group_ = work.batch;
        slot_ = slot_ + 1 == BlockMaps<design>::groups ? 0 : slot_ + 1;
        if (is_elected()) {
            write_tensor_map(map_of_a(), arguments.a, values.a.at(origin.begin, arguments.m), work.k,
                             values.a.stride_of(origin.k));
            write_tensor_map(map_of_b(), arguments.b, values.b.at(origin.begin, arguments.n), work.k,
                             values.b.stride_of(origin.k));
            fence_tensor_maps(map_of_a(), map_of_b());
        }
        sync_warp();
    }

    /// Whether TMA loads the tile's values; if not, another warp does (finish_k_blocks.h).
    TILEWRIGHT_DEVICE bool loads() const { return loads_; }
    TILEWRIGHT_DEVICE TensorMap& map_of_a() const { return maps_of_blocks<design>.maps[entry_].a[slot_]; }
    TILEWRIGHT_DEVICE TensorMap& map_of_b() const { return maps_of_blocks<design>.maps[entry_].b[slot_]; }

private:
    int entry_ = 0;
    int slot_ = 0;
    int group_ = -1;  // the group of the maps at slot_
    bool loads_ = true;
};

}  // namespace tilewright::hopper
