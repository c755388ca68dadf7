// The quantizers' kernels. `quantize` reads each number of a matrix once and writes one operand or two. Scales that
// span more than a tile are computed first by clear_scales, measure and finish_scales, which read the matrix once more.
//
// A block has a tile in its registers, and waits only for the loads; other blocks of the SM load at the same time. The
// reasons for the tile's shape are in quantizer.h. One operand of x takes about the time of its bytes. With two
// operands, with factors and with SwiGLU, instructions count as much (docs/experiments/023-quantizers.md).
#pragma once

#include "hopper/quantize/copy.h"
#include "hopper/quantize/prefetch.h"

namespace tilewright::hopper {

/// Sets columns between groups to zeros, which a negative factor of a feature would turn into -0.
TILEWRIGHT_DEVICE void clear_missing(const TokenTile& tile, Codes& codes) {
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j) {
        if (TokenTile::lane_token() + j < tile.tokens) continue;
#pragma unroll
        for (u32& word : codes[j]) word = 0;
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void write_operand(const CopyArguments& to, const TokenTile& tile, int features, Numbers<q>& h,
                                     QuantizeShared& shared, Codes& codes) {
    const auto numbers = fold<q, copy>(h, to.factors, tile, features, shared);
    LaneScales scales;
    if constexpr (is_by_feature(copy.scaled)) {
        scales = find_feature_scales(to, tile, features, numbers, shared);
    } else {
        scales = find_token_scales(to, tile, numbers, shared);
    }
    h.forget();
    encode_lane(numbers, scales, shared, codes);
    if constexpr (copy.transposed && copy.feature_factors) clear_missing(tile, codes);
    store_operand<q, copy>(to, tile, features, codes, shared);
}

/// Writes the second operand if both have the same quantized values: its scale is the first one's.
template <Quantizer q>
TILEWRIGHT_DEVICE void write_again(const QuantizeArguments& arguments, const TokenTile& tile, const Codes& codes,
                                   QuantizeShared& shared) {
    constexpr CopySpec first = q.rows, second = q.columns;
    if constexpr (second.scaled == ScaledBy::square) {
        if (thread_index() == 0) {
            const i64 from = scale_index<first>(arguments.rows, tile, 0, 0);
            const float scale = first.ue8m0 ? 0.0F : static_cast<const float*>(arguments.rows.scales.data)[from];
            const u32 exponent = first.ue8m0 ? static_cast<const u8*>(arguments.rows.scales.data)[from] : 0U;
            store_scale<second>(arguments.columns.scales, scale_index<second>(arguments.columns, tile, 0, 0),
                                first.ue8m0 ? from_bits(exponent << 23) : scale);
        }
    }
    store_operand<q, second>(arguments.columns, tile, arguments.features, codes, shared);
}

/// Writes the operands of a tile whose numbers are loaded.
template <Quantizer q>
TILEWRIGHT_DEVICE void write_tile(const QuantizeArguments& arguments, const TokenTile& tile, Numbers<q>& h,
                                  QuantizeShared& shared) {
    Codes codes;
    if constexpr (is_written(q.rows)) {
        if (has_room<q.rows>(arguments.rows, tile)) {
            write_operand<q, q.rows>(arguments.rows, tile, arguments.features, h, shared, codes);
        }
    }
    if constexpr (is_written(q.columns)) {
        if (!has_room<q.columns>(arguments.columns, tile)) return;
        if constexpr (shares_codes(q)) {
            write_again<q>(arguments, tile, codes, shared);
        } else {
            if constexpr (reads_twice(q)) load_tile<q>(arguments, tile, h);
            write_operand<q, q.columns>(arguments.columns, tile, arguments.features, h, shared, codes);
        }
    }
}

template <Quantizer q>
__global__ void __launch_bounds__(quantize_threads, blocks_per_sm(q))
    quantize(const __grid_constant__ QuantizeArguments arguments) {
    auto& shared = shared_memory<QuantizeShared>();
    TokenTile tile = token_tile<q>(arguments, shared.tile);
    if (tile.tokens <= 0) return;
    Numbers<q> h;
    load_tile<q>(arguments, tile, h);
    if constexpr (is_prefetched(q)) prefetch_later<q>(arguments, tile);
    write_tile(arguments, tile, h, shared);
    if constexpr (q.paired) {
        tile.feature += arguments.features / 2;
        load_ups(lane_has(arguments, tile), h);
        write_tile(arguments, tile, h, shared);
    }
}

/// Raises an operand's measured scales, which are bits of magnitudes so far, to the tile's values.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void raise_scales(const CopyArguments& to, const TokenTile& tile, int features,
                                    const FoldedNumbers<q, copy>& numbers, QuantizeShared& shared) {
    u32* const peaks_in_memory = static_cast<u32*>(to.scales.data);
    if constexpr (copy.scaled == ScaledBy::feature) {
        Peaks<q, copy, false> peaks;
        finite_peaks(numbers, peaks);
        const float peak = reduce_features(peaks, shared);
        const int feature = thread_index();
        if (feature >= quantize_block || tile.feature + feature >= features) return;
        raise_global(peaks_in_memory + scale_index<copy>(to, tile, 0, feature), bits_of(peak));
    } else {
        Peaks<q, copy, true> peaks;
        finite_peaks(numbers, peaks);
        if constexpr (copy.scaled == ScaledBy::all) {
            const float peak = reduce_tile(peaks, shared);
            if (thread_index() == 0) raise_global(peaks_in_memory + tile.group * to.scales.group_stride, bits_of(peak));
            return;
        }
        const float peak = reduce_tokens(peaks);
        const int token = TokenTile::lane_token() + own_token();
        if (lane_index() % 2 != 0 || token >= tile.tokens) return;
        raise_global(peaks_in_memory + scale_index<copy>(to, tile, token, 0), bits_of(peak));
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void measure_operand(const CopyArguments& to, const TokenTile& tile, int features, Numbers<q>& h,
                                       QuantizeShared& shared) {
    raise_scales(to, tile, features, fold<q, copy>(h, to.factors, tile, features, shared), shared);
}

template <Quantizer q>
__global__ void __launch_bounds__(quantize_threads, blocks_per_sm(q))
    measure(const __grid_constant__ QuantizeArguments arguments) {
    auto& shared = shared_memory<QuantizeShared>();
    const TokenTile tile = token_tile<q>(arguments, shared.tile);
    if (tile.tokens <= 0) return;
    Numbers<q> h;
    load_tile<q>(arguments, tile, h);
    if constexpr (is_measured(q.rows)) {
        if (has_room<q.rows>(arguments.rows, tile)) {
            measure_operand<q, q.rows>(arguments.rows, tile, arguments.features, h, shared);
        }
    }
    if constexpr (is_measured(q.columns)) {
        if (has_room<q.columns>(arguments.columns, tile)) {
            if constexpr (is_measured(q.rows) && rows_take_h(q)) load_tile<q>(arguments, tile, h);
            measure_operand<q, q.columns>(arguments.columns, tile, arguments.features, h, shared);
        }
    }
}

/// The thread's scale; null if no scale is left for it.
TILEWRIGHT_DEVICE u32* own_scale(const MeasuredScales& all) {
    const i64 index = i64(block_index()) * quantize_threads + thread_index();
    if (index >= i64(all.groups) * all.tokens * all.features) return nullptr;
    const i64 of_group = index / all.features;
    return static_cast<u32*>(all.scales.data) +
           scale_index(all.scales, int(of_group / all.tokens), int(of_group % all.tokens), int(index % all.features));
}

template <CopySpec copy>
__global__ void __launch_bounds__(quantize_threads, 2) clear_scales(const __grid_constant__ MeasuredScales all) {
    if (u32* const scale = own_scale(all); scale != nullptr) store_global(scale, 0U);
}

/// Converts magnitudes to scales.
template <CopySpec copy>
__global__ void __launch_bounds__(quantize_threads, 2) finish_scales(const __grid_constant__ MeasuredScales all) {
    u32* const scale = own_scale(all);
    if (scale != nullptr) store_global(scale, bits_of(scale_of<copy>(from_bits(*scale))));
}

}  // namespace tilewright::hopper
