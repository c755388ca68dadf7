// Loads epilogue scales by ordinary loads: one per row and per column of a tile. They multiply the finished
// accumulators.
#pragma once

#include "hopper/block/ring.h"
#include "hopper/block/scale_view.h"
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

/// Which packed rows are wide (`Shared::wide`). The word after a row's factor tells it (`formats::PackedRow`).
template <int count>
TILEWRIGHT_DEVICE void load_wide_flags(int* to, const ScaleView& view, int batch, int first) {
    constexpr u32 flag = u32{formats::packed_row_wide} << 16;
    const int* const words = static_cast<const int*>(view.data) + 1;
#pragma unroll 4  // at most: a producer has few registers
    for (int i = 0; i < count / warp_threads; ++i) {
        const int row = first + i * warp_threads + lane_index();
        const bool exists = view.data != nullptr && row < view.rows;
        const int word = exists ? load_global(words + batch * view.batch_stride + row * view.row_stride) : 0;
        const u32 wide = ballot((u32(word) & flag) != 0);
        if (lane_index() == 0) store_shared(to[i], int(wide));
    }
}

template <Design design>
TILEWRIGHT_DEVICE void load_epilogue_scales(Shared<design>& shared, const Arguments& arguments,
                                            const WorkTileOf<design>& work, PipelineState<epilogue_scale_slots>& state,
                                            int& budget) {
    const int slot = state.stage;
    barrier_wait(shared.epilogue_scales_empty[slot], state.phase, {budget, BarrierName::epilogue_scales_empty, slot});
    float *rows = shared.row_scales[slot], *columns = shared.column_scales[slot];
    float *const of_a = design.swap_ab ? columns : rows, *const of_b = design.swap_ab ? rows : columns;
    if (work.lacks_k()) {  // a group without k: nothing is scaled
        constexpr ScaleView ones{};
        LoadedScales<design.d_rows>(ones, 0, 0).store(of_a, false);
        LoadedScales<design.d_columns>(ones, 0, 0).store(of_b, false);
        if constexpr (design.wide_rows) load_wide_flags<design.d_columns>(shared.wide.items[slot], ones, 0, 0);
    } else {
        // A side without an epilogue scale gets 1: its scales are applied in the mainloop and leave nothing to the
        // epilogue.
        constexpr bool defers_a = design.order.defers_a(), defers_b = design.order.defers_b();
        constexpr bool has_a = defers_a || design.a.is_nvfp4() || design.order.a == ScaleUse::end;
        constexpr bool has_b = defers_b || design.b.scale_rows != 0;
        const int group = work.scales_of_b();
        const int first_k_block = defers_a || defers_b ? work.first_k_block() : 0;
        const LoadedScales<design.d_rows> a(has_a ? arguments.scales_a : ScaleView{},
                                            design.a.is_nvfp4() && !defers_a ? group : work.batch, work.row,
                                            defers_a ? first_k_block : 0);
        // Both sides are loaded first where a tile may wait for the sum of their latencies. Slices of k that begin
        // later wait for scales that defer, and groups may have many short tiles. Other kernels may spill.
        constexpr bool both_first =
            design.order.defers && (design.cluster.k_slices > 1 || design.groups == Groups::rows);
        if constexpr (!both_first) a.store(of_a, defers_a);
        const LoadedScales<design.d_columns> b(has_b ? arguments.scales_b : ScaleView{}, group, work.column,
                                               defers_b ? first_k_block : 0);
        if constexpr (both_first) a.store(of_a, defers_a);
        b.store(of_b, defers_b);
        if constexpr (design.wide_rows)
            load_wide_flags<design.d_columns>(shared.wide.items[slot], arguments.scales_b, group, work.column);
    }
    sync_warp();
    warp_arrives<design>(shared.epilogue_scales_full[slot], lane_index());
    state.advance();
}

}  // namespace tilewright::hopper
