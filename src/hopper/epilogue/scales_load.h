// Loads epilogue scales by ordinary loads: one per row and per column of a tile. They multiply the finished
// accumulators.
#pragma once

#include "hopper/block/pipeline.h"
#include "hopper/block/scale_view.h"
#include "hopper/block/shared_memory.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// The scales of a tile's rows or columns on their way to shared memory. All loads are issued before the first result
/// is stored. If each were stored before the next load, each would take a latency.
template <int count>
struct LoadedScales {
    TILEWRIGHT_DEVICE LoadedScales(const ScaleView& view, int batch, int first, int k_block = 0) {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            values[i] = scale_at(view, batch, first + i * warp_threads + lane_index(), k_block);
        }
    }

    /// `defers`: these are the first scales of rows whose scales enter in the mainloop. The function stores the factor
    /// of these scales: 1 / the power of two that they leave to the epilogue.
    TILEWRIGHT_DEVICE void store(float* to, bool defers) const {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int index = i * warp_threads + lane_index();
            const float scale = defers ? formats::inverse_power(formats::deferred_power(values[i])) : values[i];
            if (index < count) store_shared(to[index], scale);
        }
    }

    static constexpr int each = (count + warp_threads - 1) / warp_threads;
    float values[each];
};

/// Gives the loaded factors of packed rows a minus sign if their row is wide. The word after a factor tells this.
/// (The factors of weights for fp8 have the sign in memory.)
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
    float *const of_a = tile.swap_ab ? columns : rows, *const of_b = tile.swap_ab ? rows : columns;
    if (is_k_grouped(tile) && k_of(work) == 0) {  // a group without k: nothing is scaled
        constexpr ScaleView ones{};
        LoadedScales<d_rows(tile)>(ones, 0, 0).store(of_a, false);
        LoadedScales<d_columns(tile)>(ones, 0, 0).store(of_b, false);
    } else {
        // A side without an epilogue scale gets 1: its scales are applied in the mainloop and leave nothing to the
        // epilogue.
        constexpr bool defers_a = defers_scales_of_a(tile), defers_b = defers_scales_of_b(tile);
        constexpr bool has_a = defers_a || is_nvfp4_a(tile) || tile.a.scaling == Scaling::epilogue;
        constexpr bool has_b = defers_b || is_nvfp4_b(tile) || tile.b.scaling != Scaling::none;
        const int group = is_k_grouped(tile) ? work.batch : work.group;
        const int first_k_block = is_k_grouped(tile) && (defers_a || defers_b) ? first_k_block_of(work) : 0;
        const LoadedScales<d_rows(tile)> a(has_a ? arguments.scales_a : ScaleView{},
                                           is_nvfp4_a(tile) && !defers_a ? work.group : work.batch, work.row,
                                           defers_a ? first_k_block : 0);
        // Slices of k that begin later wait for scales that defer: there both sides are loaded first. Others may spill.
        constexpr bool both_first = defers_scales(tile) && splits_k(tile);
        if constexpr (!both_first) a.store(of_a, defers_a);
        const LoadedScales<d_columns(tile)> b(has_b ? arguments.scales_b : ScaleView{}, group, work.column,
                                              defers_b ? first_k_block : 0);
        if constexpr (both_first) a.store(of_a, defers_a);
        b.store(of_b, defers_b);
        if constexpr (has_wide_rows(tile)) {
            sign_wide_rows<d_columns(tile)>(rows, arguments.scales_b, work.group, work.column);
        }
    }
    sync_warp();
    warp_arrives<tile>(shared.epilogue_scales_full[slot], lane_index());
    state.advance();
}

}  // namespace tilewright::hopper
