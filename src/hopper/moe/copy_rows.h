// The rows of the first product from tokens that are quantized already. Bytes and scales of a token are copied to the
// rows of its choices.
#pragma once

#include "hopper/moe/fused_route.h"

namespace tilewright::hopper {

/// 16 bytes of a row, or fewer.
template <bool fresh>
TILEWRIGHT_DEVICE void copy_lane_bytes(const u8* from, u8* to, int count, bool vectors) {
    if (vectors) {
        if (count > 0)
            store_global(reinterpret_cast<IntQuad*>(to), load_element<fresh>(reinterpret_cast<const IntQuad*>(from)));
        return;
    }
    for (int i = 0; i < min(count, copy_bytes); ++i) store_global(to + i, load_element<fresh>(from + i));
}

/// The scales of a row, by the block.
template <bool fresh>
TILEWRIGHT_DEVICE void copy_scales(const CopyRowsArguments& a, const void* scales, const RowPlace& from,
                                   const RowPlace& to) {
    for (int i = thread_index(); i < a.scale_count; i += block_threads()) {
        const i64 read = scale_index(a.scales, from.group, from.row, i);
        const i64 written = scale_index(a.to.scales, to.group, to.row, i);
        if (a.wide_scales) {
            store_global(static_cast<u32*>(a.to.scales.data) + written,
                         load_element<fresh>(static_cast<const u32*>(scales) + read));
        } else {
            store_global(static_cast<u8*>(a.to.scales.data) + written,
                         load_element<fresh>(static_cast<const u8*>(scales) + read));
        }
    }
}

template <CopyRowsSpec spec>
TILEWRIGHT_DEVICE void copy_token(const CopyRowsArguments& a, const RowPart& part, const int* found) {
    RowPlace from = place_of(a.grid, part.row);
    const u8* first = a.from;
    const void* scales = a.scales.data;
    if constexpr (spec.from_ranks) {
        first = at_rank(a.ranks, from.group, first);
        scales = at_rank(a.ranks, from.group, scales);
        from.group = 0;
    }
    const u8* const bytes = first + from.group * a.group_stride + from.row * a.row_stride + part.feature;
    for_each_place<spec.routes>(a.places, a.grid, a.existing, part.row, found, [&](int, const RowPlace& place) {
        u8* const to = a.to.data + place.group * a.to.group_stride + place.row * a.to.row_stride + part.feature;
        copy_lane_bytes<spec.meets>(bytes, to, part.end - part.feature, a.vectors);
        if (part.first) copy_scales<spec.meets>(a, scales, from, place);
    });
}

template <CopyRowsSpec spec>
TILEWRIGHT_DEVICE RowPart copied_part(const CopyRowsArguments& a, int at) {
    const RowPart part = part_of(a.grid, at, copy_bytes);
    return spec.from_ranks ? in_turn(part, a.ranks) : part;
}

template <CopyRowsSpec spec>
__global__ void __launch_bounds__(copy_threads, 4) copy_rows(const __grid_constant__ CopyRowsArguments a) {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    if constexpr (spec.announces) announce_choices(a.announce);
    const int parts = a.grid.rows * a.grid.parts;
    if constexpr (spec.routes) {
        auto& shared = shared_memory<FusedShared>();
        if constexpr (spec.meets) meet_ranks(a.meet);
        order_choices<spec.meets>(a.route, block_threads(), shared);
        for (int at = block_index(); at < parts; at += block_count()) {
            const RowPart part = copied_part<spec>(a, at);
            place_token(a.route, part.row, part.first, block_threads(), shared);
            copy_token<spec>(a, part, shared.places);
        }
        write_ends(a.route, block_threads(), shared);
    } else {
        for (int at = block_index(); at < parts; at += block_count()) {
            copy_token<spec>(a, copied_part<spec>(a, at), nullptr);
        }
    }
}

}  // namespace tilewright::hopper
