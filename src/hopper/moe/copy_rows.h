// The rows of the first product from tokens that are quantized already. Bytes and scales of a token are copied to the
// rows of its choices.
#pragma once

#include "hopper/moe/fused_route.h"

namespace tilewright::hopper {

/// 16 bytes of a row, or fewer.
template <bool fresh>
TILEWRIGHT_DEVICE IntQuad load_bytes(const u8* from, int count, bool vectors) {
    if (vectors) return count > 0 ? load_element<fresh>(reinterpret_cast<const IntQuad*>(from)) : IntQuad{};
    IntQuad bytes{};
#pragma unroll
    for (int i = 0; i < copy_bytes; ++i) {
        if (i < count) bytes.values[i / 4] |= int(u32(load_element<fresh>(from + i)) << i % 4 * 8);
    }
    return bytes;
}

TILEWRIGHT_DEVICE void store_bytes(const IntQuad& bytes, u8* to, int count, bool vectors) {
    if (vectors) {
        if (count > 0) store_global(reinterpret_cast<IntQuad*>(to), bytes);
        return;
    }
#pragma unroll
    for (int i = 0; i < copy_bytes; ++i) {
        if (i < count) store_global(to + i, u8(u32(bytes.values[i / 4]) >> i % 4 * 8));
    }
}

template <bool fresh>
TILEWRIGHT_DEVICE u32 load_scale(const CopyRowsArguments& a, const void* scales, const RowPlace& row, int index) {
    const i64 at = scale_index(a.scales, row.group, row.row, index);
    if (a.wide_scales) return load_element<fresh>(static_cast<const u32*>(scales) + at);
    return load_element<fresh>(static_cast<const u8*>(scales) + at);
}

TILEWRIGHT_DEVICE void store_scale(const CopyRowsArguments& a, u32 scale, const RowPlace& row, int index) {
    const i64 at = scale_index(a.to.scales, row.group, row.row, index);
    if (a.wide_scales) {
        store_global(static_cast<u32*>(a.to.scales.data) + at, scale);
    } else {
        store_global(static_cast<u8*>(a.to.scales.data) + at, u8(scale));
    }
}

/// A token is read once for all its places, because it may be another rank's, and not at all if it has none. Only
/// scales that outnumber the threads are read for each place.
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
    const u8* const row = first + from.group * a.group_stride + from.row * a.row_stride + part.feature;
    const int count = part.end - part.feature, own = thread_index(), scale_count = part.first ? a.scale_count : 0;
    IntQuad bytes{};
    u32 scale = 0;
    bool is_loaded = false;
    for_each_place<spec.routes>(a.places, a.grid, a.existing, part.row, found, [&](int, const RowPlace& place) {
        if (!is_loaded) {
            bytes = load_bytes<spec.meets>(row, count, a.vectors);
            if (own < scale_count) scale = load_scale<spec.meets>(a, scales, from, own);
            is_loaded = true;
        }
        store_bytes(bytes, a.to.data + place.group * a.to.group_stride + place.row * a.to.row_stride + part.feature,
                    count, a.vectors);
        if (own < scale_count) store_scale(a, scale, place, own);
        for (int i = own + block_threads(); i < scale_count; i += block_threads())
            store_scale(a, load_scale<spec.meets>(a, scales, from, i), place, i);
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
