// The way of a tile's D. Consumer warps scale their accumulators and stage them in shared memory. The store warp copies
// them to global memory by TMA. Three outputs have separate files: f32_stage.h for D of f32, element_store.h for D in
// any strides, cluster_reduce.h for split-K.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/schedule/scheduler.h"
#include "hopper/store/convert.h"
#include "hopper/store/element_store.h"
#include "hopper/store/f32_stage.h"
#include "hopper/store/scale.h"

namespace tilewright::hopper {

/// A warpgroup's share of the tile of D and its TMA stores, by the bytes of an element.
struct Share {
    int rows;
    int columns_of_store;
    int pitch;      // bytes of a row of a store
    bool swizzled;  // as rows of 128 bytes are
    int stores;     // along the share's columns
    int halves;     // stores along its rows: a warpgroup of 128 rows has two
    int at_once;    // stores along the columns that are staged together
    int row_step;   // from one warpgroup's share to the next
    int column_step;

    constexpr Share(const Design& design, int bytes)
        : rows(design.swap_ab ? design.shape.n : design.rows_per_warpgroup),
          columns_of_store(design.store_columns(bytes)),
          pitch(columns_of_store * bytes),
          swizzled(pitch == store_row_bytes),
          stores((design.swap_ab ? design.rows_per_warpgroup : design.shape.n) / columns_of_store),
          halves(rows / design.store_rows()),
          at_once(min(design.staging_bytes / (rows * pitch), stores)),
          row_step(design.swap_ab ? 0 : rows),
          column_step(design.swap_ab ? design.rows_per_warpgroup : 0) {}
};

// ---- Consumers stage D, as 16-bit or f32 elements

/// Row `row` of the warpgroup's share, in store `index` of the stores that are staged together.
template <Design design, int bytes>
TILEWRIGHT_DEVICE u8* staged_row(const Consumer<design>& c, int index, int row) {
    constexpr Share share(design, bytes);
    return c.shared.d[c.warpgroup] + (index * share.rows + row) * share.pitch;
}

/// Swap-AB tiles whose lanes have adjacent rows of the accumulators, which are columns of D. A lane has two elements of
/// each of its rows of D, in one word. Eight lanes write 32 bytes of a row. The four groups of eight lanes write every
/// other row, so that no two lanes share a bank.
template <Design design>
TILEWRIGHT_DEVICE void stage_paired(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                    int begin, int count, int lane, bool as_bf16) {
    const int chunk = c.warp * 2 + lane / 16, byte = lane / 4 % 4 * 4;
    const auto store = [&](int row, float low, float high) {
        u8* const place = staged_row<design, 2>(c, half, row) + (chunk ^ row % 8) * 16 + byte;
        store_shared(*reinterpret_cast<u32*>(place), pack_16_bit(low, high, as_bf16));
    };
#pragma unroll
    for (int column = begin; column < begin + count; column += 8) {
        const float* value = fragment<design>(accumulators, half, column);
        const int row = column + lane % 4 * 2;
        store(row, value[0], value[2]);
        store(row + 1, value[1], value[3]);
    }
}

/// Swap-AB tiles: the 16 rows of the accumulators are columns of D. Their `count` columns from `begin` on are rows of
/// D.
template <Design design>
TILEWRIGHT_DEVICE void stage_transposed(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                        int begin, int count, int lane, bool as_bf16) {
    if constexpr (design.feed == FeedKind::transposed) {
        return stage_paired<design>(c, accumulators, half, begin, count, lane, as_bf16);
    }
    const int chunk = c.warp * 2 + lane / 8 % 2;  // of 16 bytes
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const bool is_pair = column + 8 < begin + count;  // if the number of 8-column groups is odd, the last is
                                                          // written twice
        const float* low = fragment<design>(accumulators, half, column);
        const float* high = is_pair ? fragment<design>(accumulators, half, column + 8) : low;
        const int row = column + lane % 8 + (is_pair ? lane / 16 * 8 : 0);
        store_matrix_transposed(staged_row<design, 2>(c, half, row) + (chunk ^ row % 8) * 16, pack_16_bit(low, as_bf16),
                                pack_16_bit(low + 2, as_bf16), pack_16_bit(high, as_bf16),
                                pack_16_bit(high + 2, as_bf16));
    }
}

/// Stages a warp's 16 rows of `half`, `count` columns from `begin` on, as bf16 or f16.
template <Design design>
TILEWRIGHT_DEVICE void stage_16_bit(const Consumer<design>& c, const Accumulators<design>& accumulators, int half,
                                    int begin, int count, int lane, bool as_bf16) {
    if constexpr (design.swap_ab) return stage_transposed<design>(c, accumulators, half, begin, count, lane, as_bf16);
    constexpr Share share(design, 2);
    constexpr int columns = share.columns_of_store;
    const auto pack = [&](const float* pair) { return pack_16_bit(pair, as_bf16); };
    // A lane gives stmatrix the address of one of the warp's 16 rows. The first rows of all lanes precede the second.
    const int fragment_row_of_lane = design.feed == FeedKind::transposed ? lane % 8 * 2 + lane / 8 % 2 : lane % 16;
    const int row = half * wgmma_m + c.warp * warp_rows + fragment_row_of_lane;
    const int swizzle = share.swizzled ? row % 8 : 0;
#pragma unroll
    for (int column = begin; column < begin + count; column += 16) {
        const float* low = fragment<design>(accumulators, half, column);
        const float* high = fragment<design>(accumulators, half, column + 8);
        // Lanes 0 .. 15 have the addresses of the rows in the first 8 columns, the other lanes in the second 8.
        u8* place = staged_row<design, 2>(c, column / columns, row);
        int chunk = column % columns / 8 + lane / 16;
        if (column / columns != (column + 8) / columns && lane >= 16) {
            place = staged_row<design, 2>(c, (column + 8) / columns, row);
            chunk = 0;
        }
        store_matrix(place + (chunk ^ swizzle) * 16, pack(low), pack(low + 2), pack(high), pack(high + 2));
    }
}

/// Tells the store warp that the warp's part of the warpgroup's D is staged.
template <Design design>
TILEWRIGHT_DEVICE void give_to_store(Consumer<design>& c, int lane) {
    fence_async_proxy();
    sync_warp();
    warp_arrives<design>(c.shared.staged[c.warpgroup], lane);
    c.staged.advance();
    c.stamp(Event::staged);
}

/// Stages the warpgroup's share for the store warp.
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_by_tma(Consumer<design>& c, const Accumulators<design>& accumulators) {
    constexpr int halves = design.rows_per_warpgroup / wgmma_m;
    constexpr Share share(design, bytes);
    const int lane = lane_index();
#pragma unroll
    for (int begin = 0; begin < share.stores; begin += share.at_once) {
        c.stamp(Event::epilogue);
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.phase, {c.budget, BarrierName::stored, c.warpgroup});
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            if constexpr (bytes == 2) {
                stage_16_bit<design>(c, accumulators, half, 0, design.shape.n, lane,
                                     c.arguments.format == OutputFormat::bf16);
            } else {
                const int row = half * wgmma_m + c.warp * warp_rows;
#pragma unroll
                for (int i = 0; i < min(share.at_once, share.stores - begin); ++i) {
                    stage_32_bit<design>(accumulators, staged_row<design, 4>(c, i, row), half,
                                         (begin + i) * share.columns_of_store, lane);
                }
            }
        }
        give_to_store<design>(c, lane);
    }
}

/// Stages one subtile, for epilogues that overlap the next tile's mainloop.
template <Design design>
TILEWRIGHT_DEVICE void store_subtile(Consumer<design>& c, Accumulators<design>& accumulators, int subtile) {
    const int lane = lane_index();
    if (subtile == 0) {
        c.stamp(Event::epilogue);
        if constexpr (design.has_epilogue_scales) scale_accumulators<design>(c, accumulators);
        barrier_wait(c.shared.stored[c.warpgroup], c.staged.phase, {c.budget, BarrierName::stored, c.warpgroup});
    }
    constexpr int columns = design.wgmma_n;
    stage_16_bit<design>(c, accumulators, subtile / design.wgmmas_along_n, subtile % design.wgmmas_along_n * columns,
                         columns, lane, true);
    if (subtile == design.subtiles - 1) give_to_store<design>(c, lane);
}

// ---- Consumers choose the way of D

/// A tile of D from its accumulators.
template <Design design>
TILEWRIGHT_DEVICE void store(Consumer<design>& c, Accumulators<design>& accumulators, const WorkTileOf<design>& work) {
    if constexpr (design.has_epilogue_scales) scale_accumulators<design>(c, accumulators);
    if constexpr (design.output == Output::f32_by_tma) {
        stage_f32<design>(c, accumulators, work);
    } else if constexpr (design.output != Output::any) {
        store_by_tma<design, 2>(c, accumulators);
    } else {
        if (!c.by_tma) return store_by_element<design>(c, accumulators, work);
        if (design.is_k_grouped() || c.arguments.addend.data == nullptr) {
            multiply_by_alpha<design>(accumulators, c.arguments, work);
        } else {
            add_bias<design>(c, accumulators, work);
        }
        if (element_bytes(c.arguments.format) == 2) {
            if constexpr (design.stores_by_tma(2)) store_by_tma<design, 2>(c, accumulators);
        } else {
            if constexpr (design.stores_by_tma(4)) store_by_tma<design, 4>(c, accumulators);
        }
    }
}

// ---- The store warp. All stores of a tile at once would delay the loads of the next tile, in all blocks at the same
// time. So the stores are paced over the time that the next tile takes.

/// Stores a warpgroup's staged stores from `begin` on row by row, because rows after row_end belong to the next group.
/// Eight lanes store a row, 16 bytes each. Two rows are read before the first is written.
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_tail_rows(const Shared<design>& shared, const Arguments& arguments,
                                       const WorkTileOf<design>& work, int warpgroup, int begin, int stores) {
    constexpr Share share(design, bytes);
    constexpr int chunk_bytes = int(sizeof(Quad)), chunks = share.pitch / chunk_bytes;
    constexpr int lanes = store_row_bytes / chunk_bytes, rows_at_once = warp_threads / lanes, in_flight = 2;
    static_assert(share.rows % (in_flight * rows_at_once) == 0);
    const OutputView& d = arguments.output;
    const int row_of_lane = lane_index() / lanes, chunk = lane_index() % lanes;
    const int first = work.row + warpgroup * share.row_step;
    const int rows = min(work.row_end - first, share.rows);
    const i64 step = rows_at_once * d.row_stride * bytes;
#pragma unroll 1
    for (int store = 0; store < stores; ++store) {
        const int column = work.column + warpgroup * share.column_step + (begin + store) * share.columns_of_store +
                           chunk * (chunk_bytes / bytes);
        if (chunk >= chunks || column >= arguments.n) continue;
        const u8* const from = shared.d[warpgroup] + store * share.rows * share.pitch;
        u8* to = static_cast<u8*>(d.data) +
                 (work.batch * d.batch_stride + (first + row_of_lane) * d.row_stride + column) * bytes;
#pragma unroll 1
        for (int row = row_of_lane; row < rows; row += in_flight * rows_at_once) {
            Quad values[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int at = row + i * rows_at_once;  // the row in the warpgroup's share; it may be outside of the
                                                        // group
                const int swizzled = share.swizzled ? chunk ^ at % 8 : chunk;
                values[i] =
                    load_shared(*reinterpret_cast<const Quad*>(from + at * share.pitch + swizzled * chunk_bytes));
            }
#pragma unroll
            for (int i = 0; i < in_flight; ++i, to += step) {
                if (row + i * rows_at_once < rows) store_global(reinterpret_cast<Quad*>(to), values[i]);
            }
        }
    }
    sync_warp();
}

/// Stores a warpgroup's staged stores from `begin` on by TMA. While another tile follows (`more`), they are `pace`
/// nanoseconds apart.
template <Design design, int bytes>
TILEWRIGHT_DEVICE void store_share(const Shared<design>& shared, const Arguments& arguments,
                                   const WorkTileOf<design>& work, int warpgroup, int begin, int stores, bool issues,
                                   bool more, int pace) {
    constexpr Share share(design, bytes);
    constexpr int rows = design.store_rows();
    const int row = work.row + warpgroup * share.row_step;
    for (int i = 0; i < stores * share.halves; ++i) {
        if (issues) {
            tma_store(arguments.d, shared.d[warpgroup] + i * rows * share.pitch,
                      work.column + warpgroup * share.column_step + (begin + i / share.halves) * share.columns_of_store,
                      row + i % share.halves * rows, work.batch);
            tma_store_commit();
        }
        if (more) pause(pace);
    }
}

/// Nanoseconds between two stores: half of the time that the tensor cores need for a tile, at 1.7 GHz.
template <Design design, int bytes>
constexpr int pace_over(int k_blocks) {
    constexpr Share share(design, bytes);
    return k_blocks * design.tensor_clocks() * 3 / 10 / (share.stores * share.halves * design.shape.warpgroups);
}

/// Fetches the bias of a tile into L2, because the consumers' loads of it begin after the last product.
template <Design design>
TILEWRIGHT_DEVICE void prefetch_bias(const Arguments& arguments, const WorkTileOf<design>& work) {
    if (work.exists == 0 || arguments.addend.data == nullptr) return;
    const OutputView& bias = arguments.addend;
    const int bytes = element_bytes(arguments.addend_format), columns_per_sector = 32 / bytes;
    const int end = min(work.column + design.d_columns, arguments.n);
    const i64 matrix = work.scales_of_b() * bias.batch_stride;
    for (int column = work.column + lane_index() * columns_per_sector; column < end;
         column += warp_threads * columns_per_sector) {
        prefetch_global(static_cast<const u8*>(bias.data) + (matrix + column * bias.column_stride) * bytes);
    }
}

/// Returns the rest of the wait budget.
template <Design design, int bytes>
TILEWRIGHT_DEVICE int store_tiles(Shared<design>& shared, const Arguments& arguments, WorkTiles<design> tiles) {
    constexpr Share share(design, bytes);
    int pace = pace_over<design, bytes>(k_slice_of<design>(arguments).count);
    const bool issues = lane_index() == 0;
    int budget = wait_budget;
    u32 phases = 0;  // one bit per warpgroup
    constexpr bool adds_bias = design.output == Output::any && !design.is_k_grouped();
    WorkTileOf<design> work = tiles.first(budget);
    if constexpr (adds_bias) prefetch_bias<design>(arguments, work);
    while (work.exists != 0) {
        const WorkTileOf<design> next = tiles.next(budget);
        if constexpr (adds_bias) prefetch_bias<design>(arguments, next);
        if constexpr (design.is_k_grouped()) pace = pace_over<design, bytes>(k_slice_of<design>(next).count);
        for (int begin = 0; begin < share.stores; begin += share.at_once) {
            const int stores = min(share.at_once, share.stores - begin);
            for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
                if (!has_rows<design>(work, arguments.m, warpgroup)) continue;
                barrier_wait(shared.staged[warpgroup], phases >> warpgroup & 1,
                             {budget, BarrierName::staged, warpgroup});
                const int row = work.row + warpgroup * share.row_step;
                if constexpr (design.groups == Groups::rows) {
                    if (row + share.rows > work.row_end) {
                        store_tail_rows<design, bytes>(shared, arguments, work, warpgroup, begin, stores);
                        continue;
                    }
                }
                store_share<design, bytes>(shared, arguments, work, warpgroup, begin, stores, issues, next.exists != 0,
                                           pace);
            }
            if (issues) tma_store_wait_read();
            sync_warp();  // a lane that still waited for `staged` would miss its phase when the share is staged again
            for (int warpgroup = 0; warpgroup < design.shape.warpgroups; ++warpgroup) {
                if (!has_rows<design>(work, arguments.m, warpgroup)) continue;
                if (issues) barrier_arrive(shared.stored[warpgroup]);
                phases ^= 1U << warpgroup;
            }
            sync_warp();
        }
        work = next;
    }
    if (issues) tma_store_wait();
    return budget;
}

}  // namespace tilewright::hopper
