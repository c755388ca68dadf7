// Epilogue scales by ordinary loads: those of each row and column of a tile, which multiply its finished accumulators.
#pragma once

#include "hopper/block/pipeline.h"
#include "hopper/block/scale_view.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// All loads are issued before the first result is stored: one after the other they would take a latency each.
template <int count>
TILEWRIGHT_DEVICE void load_scales(float* to, const ScaleView& view, int batch, int first, int k_block = 0) {
    constexpr int each = (count + warp_threads - 1) / warp_threads;
    float values[each];
    const int lane = lane_index();
#pragma unroll
    for (int i = 0; i < each; ++i) values[i] = scale_at(view, batch, first + i * warp_threads + lane, k_block);
#pragma unroll
    for (int i = 0; i < each; ++i) {
        const int index = i * warp_threads + lane;
        if (index < count) store_shared(to[index], values[i]);
    }
}

/// For rows whose scales are in the mainloop: what multiplies these, 1 / the power of two that they leave to the end,
/// from the first scale of each row.
template <int count>
TILEWRIGHT_DEVICE void load_deferred(float* to, const ScaleView& view, int batch, int first, int k_block) {
    load_scales<count>(to, view, batch, first, k_block);
    for (int index = lane_index(); index < count; index += warp_threads) {
        store_shared(to[index], formats::inverse_power(formats::deferred_power(load_shared(to[index]))));
    }
}

/// The factors of packed rows that have been loaded get a minus sign where their row is wide, as the word behind a
/// factor says. (Those of weights for fp8 have it in memory.)
template <int count>
TILEWRIGHT_DEVICE void sign_wide_rows(float* factors, const ScaleView& view, int batch, int first) {
    constexpr u32 wide = 1U << 16, sign = 0x8000'0000U;
    const float* const flags = static_cast<const float*>(view.data) + 1;
    for (int index = lane_index(); index < count; index += warp_threads) {
        const int row = first + index;
        if (view.data == nullptr || row >= view.rows) continue;
        const float word = load_global(flags + batch * view.batch_stride + row * view.row_stride);
        if ((__builtin_bit_cast(u32, word) & wide) == 0) continue;
        const u32 factor = __builtin_bit_cast(u32, load_shared(factors[index]));
        store_shared(factors[index], __builtin_bit_cast(float, factor | sign));
    }
}

template <Tile tile>
TILEWRIGHT_DEVICE void load_epilogue_scales(Shared<tile>& shared, const Arguments& arguments, const WorkTile& work,
                                            PipelineState<epilogue_scale_slots>& state, int& budget) {
    const int slot = state.stage;
    barrier_wait(shared.epilogue_scales_empty[slot], state.phase, {budget, BarrierName::epilogue_scales_empty, slot});
    float *rows = shared.row_scales[slot], *columns = shared.column_scales[slot];
    if (is_k_grouped(tile) && k_of(work) == 0) {  // a group without k: nothing is scaled
        constexpr ScaleView ones{};
        load_scales<d_rows(tile)>(tile.swap_ab ? columns : rows, ones, 0, 0);
        load_scales<d_columns(tile)>(tile.swap_ab ? rows : columns, ones, 0, 0);
    } else {
        float *const of_a = tile.swap_ab ? columns : rows, *const of_b = tile.swap_ab ? rows : columns;
        const int group = is_k_grouped(tile) ? work.batch : work.group;
        const int first_k_block = is_k_grouped(tile) ? first_k_block_of(work) : 0;
        if constexpr (defers_scales_of_a(tile)) {
            load_deferred<d_rows(tile)>(of_a, arguments.scales_a, work.batch, work.row, first_k_block);
        } else if constexpr (is_nvfp4_a(tile)) {
            load_scales<d_rows(tile)>(of_a, arguments.scales_a, work.group, work.row);
        } else if constexpr (tile.a.scaling == Scaling::epilogue) {
            load_scales<d_rows(tile)>(of_a, arguments.scales_a, work.batch, work.row);
        } else {  // applied in the mainloop, or there is none
            load_scales<d_rows(tile)>(of_a, ScaleView{}, 0, 0);
        }
        if constexpr (defers_scales_of_b(tile)) {
            load_deferred<d_columns(tile)>(of_b, arguments.scales_b, group, work.column, first_k_block);
        } else if constexpr (tile.b.scaling == Scaling::none && !is_nvfp4_b(tile)) {
            load_scales<d_columns(tile)>(of_b, ScaleView{}, 0, 0);
        } else {
            load_scales<d_columns(tile)>(of_b, arguments.scales_b, group, work.column);
        }
        if constexpr (has_wide_rows(tile)) {
            sign_wide_rows<d_columns(tile)>(rows, arguments.scales_b, work.group, work.column);
        }
    }
    sync_warp();
    warp_arrives<tile>(shared.epilogue_scales_full[slot], lane_index());
    state.advance();
}

}  // namespace tilewright::hopper
