// A lane's numbers as they are stored: rounded, or quantized with the CPU's bits (the rules are in
// hopper/quantize/scale.h and short_scales.h).
#pragma once

#include "hopper/moe/numbers.h"
#include "hopper/quantize/peaks.h"
#include "hopper/quantize/short_scales.h"

namespace tilewright::hopper {

/// The beginning of shared memory, for scales of whole rows.
struct RowShared {
    float peaks[16];  // of the warps
};

/// 16 stored elements, and their scale: a number, or the code of MX.
template <RowSpec spec>
struct LaneOutput {
    static constexpr int words = spec.output == RowOutput::f32 ? 16 : has_scales(spec.output) ? 4 : 8;
    u32 elements[words]{};
    float scale = 0;
    u32 code = 0;
};

/// The largest finite magnitude of a lane. Magnitudes of 16 bits ascend as integers do, two at a time.
template <RowSpec spec>
TILEWRIGHT_DEVICE float finite_peak(const RowNumbers<spec>& numbers, bool& all_finite) {
    float peak = 0;
    if constexpr (is_short(spec)) {
        u32 pairs = 0;
#pragma unroll
        for (const u32 pair : numbers.held) pairs = larger_halves(pairs, pair & 0x7FFF'7FFFU);
        peak = half<RowNumbers<spec>::q>(max(pairs & 0xFFFFU, pairs >> 16), 0);
    } else {
#pragma unroll
        for (int i = 0; i < lane_features; ++i) peak = include<false>(peak, numbers.at(i));
    }
    all_finite = is_finite(peak);
    if (all_finite) return peak;
    peak = 0;
#pragma unroll
    for (int i = 0; i < lane_features; ++i) peak = include<true>(peak, numbers.at(i));
    return peak;
}

/// The largest value of `lanes` neighbours. Together.
template <int lanes>
TILEWRIGHT_DEVICE float largest_of(float peak) {
#pragma unroll
    for (int step = 1; step < lanes; step *= 2) peak = larger(peak, from_lane(peak, lane_index() ^ step));
    return peak;
}

/// The largest value of the block's threads. By the block together.
TILEWRIGHT_DEVICE float largest_of_block(float peak, int threads, RowShared& shared) {
    peak = largest_of<warp_threads>(peak);
    const int warp = warp_index(), warps = threads / warp_threads;
    if (lane_index() == 0) store_shared(shared.peaks[warp], peak);
    sync_block();
    const float of_warp = lane_index() < warps ? load_shared(shared.peaks[lane_index()]) : 0.0F;
    sync_block();  // the next row writes them
    return largest_of<warp_threads>(of_warp);
}

template <RowSpec spec>
TILEWRIGHT_DEVICE void encode_numbers(const RowNumbers<spec>& numbers, float scale, bool all_finite, u32 (&codes)[4]) {
    constexpr CopySpec copy = copy_of(spec);
    if (all_finite && is_regular<copy, is_short(spec)>(scale)) {
        const Inverse by = inverse_of<copy>(scale);
#pragma unroll
        for (int quad = 0; quad < 4; ++quad) {
            float four[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) four[i] = divide<copy>(numbers.at(quad * 4 + i), by);
            codes[quad] = encode<spec.storage>(four);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        const float number = numbers.at(i);
        const u32 code = encode_one<spec.storage>(divide_any<copy>(number, scale));
        const u32 mended = mend_one<spec.storage>(code, number) << i % 4 * 8;
        codes[i / 4] = i % 4 == 0 ? mended : codes[i / 4] | mended;
    }
}

/// MX: by a warp together.
template <RowSpec spec>
TILEWRIGHT_DEVICE LaneOutput<spec> mx_output(const RowNumbers<spec>& numbers) {
    bool all_finite;
    const float peak = largest_of<scale_lanes(RowOutput::mx)>(finite_peak(numbers, all_finite));
    const BlockScale scale = mx_scale<block_of(spec)>(bits_of(peak));
    LaneOutput<spec> out{.scale = 0, .code = scale.code};
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
        float four[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = numbers.at(quad * 4 + i) * scale.inverse;
        out.elements[quad] = encode<spec.storage>(four);
        if (all_finite) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = numbers.at(quad * 4 + i);
        out.elements[quad] = mend<spec.storage>(out.elements[quad], four);
    }
    return out;
}

/// Without scales.
template <RowSpec spec>
TILEWRIGHT_DEVICE LaneOutput<spec> rounded_output(const RowNumbers<spec>& numbers) {
    LaneOutput<spec> out;
#pragma unroll
    for (int i = 0; i < LaneOutput<spec>::words; ++i) {
        if constexpr (spec.output == RowOutput::f32) {
            const float number = numbers.at(i);
            out.elements[i] = f32_of(number);
        } else {
            const float low = numbers.at(2 * i), high = numbers.at(2 * i + 1);
            out.elements[i] = spec.output == RowOutput::bf16 ? pack_bf16(low, high) : pack_f16(low, high);
        }
    }
    return out;
}

/// By a warp together; `row_scale` is for scales of whole rows.
template <RowSpec spec>
TILEWRIGHT_DEVICE LaneOutput<spec> output_of(const RowNumbers<spec>& numbers, float row_scale) {
    if constexpr (!has_scales(spec.output)) return rounded_output(numbers);
    if constexpr (spec.output == RowOutput::mx) return mx_output(numbers);
    if constexpr (spec.output == RowOutput::scaled_rows || spec.output == RowOutput::scaled_blocks) {
        LaneOutput<spec> out{.scale = row_scale, .code = 0};
        bool all_finite;
        const float peak = finite_peak(numbers, all_finite);
        if constexpr (spec.output == RowOutput::scaled_blocks) {
            out.scale = scale_of<copy_of(spec)>(largest_of<row_lanes>(peak));
        }
        encode_numbers(numbers, out.scale, all_finite, out.elements);
        return out;
    }
}

/// Called by each lane; the first lane of a scale stores it.
template <RowSpec spec>
TILEWRIGHT_DEVICE void store_lane_scale(const RowTarget& to, const RowPlace& place, int feature,
                                        const LaneOutput<spec>& out) {
    constexpr int features = scale_lanes(spec.output) * lane_features;
    if (features == 0 ? feature != 0 : feature % max(features, 1) != 0) return;
    const i64 index = scale_index(to.scales, place.group, place.row, features == 0 ? 0 : feature / max(features, 1));
    if constexpr (spec.output == RowOutput::mx) {
        store_global(static_cast<u8*>(to.scales.data) + index, u8(out.code));
    } else if (to.ue8m0) {
        store_global(static_cast<u8*>(to.scales.data) + index, u8(bits_of(out.scale) >> 23));
    } else {
        store_global(static_cast<float*>(to.scales.data) + index, out.scale);
    }
}

/// Element i of a lane, into memory.
template <RowSpec spec>
TILEWRIGHT_DEVICE void store_element(u8* to, const LaneOutput<spec>& out, int i) {
    if constexpr (has_scales(spec.output)) {
        store_global(to, u8(out.elements[i / 4] >> i % 4 * 8));
    } else if constexpr (spec.output == RowOutput::f32) {
        store_global(reinterpret_cast<u32*>(to), out.elements[i]);
    } else {
        store_global(reinterpret_cast<u16*>(to), u16(out.elements[i / 2] >> i % 2 * 16));
    }
}

/// Stores the lane's elements of a row, which ends at `end`, and the scale.
template <RowSpec spec>
TILEWRIGHT_DEVICE void store_output(const RowTarget& to, const RowPlace& place, int feature, int end,
                                    const LaneOutput<spec>& out) {
    constexpr int bytes = LaneOutput<spec>::words * 4 / lane_features;
    if (feature >= end) return;
    u8* const first = to.data + (place.group * to.group_stride + place.row * to.row_stride + feature) * bytes;
    if constexpr (spec.vectors) {
#pragma unroll
        for (int i = 0; i < LaneOutput<spec>::words; i += 4) {
            const u32(&e)[LaneOutput<spec>::words] = out.elements;
            store_global(reinterpret_cast<IntQuad*>(first) + i / 4,
                         IntQuad{{int(e[i]), int(e[i + 1]), int(e[i + 2]), int(e[i + 3])}});
        }
    } else {
#pragma unroll
        for (int i = 0; i < lane_features; ++i) {
            if (feature + i < end) store_element(first + i * bytes, out, i);
        }
    }
    if constexpr (has_scales(spec.output)) store_lane_scale(to, place, feature, out);
}

/// The part of a row that a block has.
struct RowPart {
    int row;
    int feature;  // of this lane
    int end;      // of the part
    bool first;   // of the row
};

/// The at-th part of all rows. `lane`: features of a lane.
TILEWRIGHT_DEVICE RowPart part_of(const RowGrid& grid, int at, int lane) {
    const int row = grid.parts == 1 ? at : int(u32(at) / u32(grid.parts));  // a division takes 20 instructions
    const int first = (at - row * grid.parts) * grid.part_features;
    return {.row = row,
            .feature = first + thread_index() * lane,
            .end = min(first + grid.part_features, grid.features),
            .first = first == 0};
}

/// Where a block has several whole rows: that of this thread. Rows may begin in the middle of a warp. Threads beyond
/// the block's rows have none.
TILEWRIGHT_DEVICE RowPart row_of_thread(const RowGrid& grid, int at, int lane) {
    const int lanes = grid.part_features / lane, row = thread_index() / lanes;
    return {.row = row < grid.rows_per_block ? at * grid.rows_per_block + row : grid.rows,
            .feature = (thread_index() - row * lanes) * lane,
            .end = grid.features,
            .first = true};
}

/// The part with the same number where the ranks' rows take turns, so that memory and links are busy at the same time.
/// In the order of rows, all rows of one rank would come first.
TILEWRIGHT_DEVICE RowPart in_turn(RowPart part, const RankShifts& ranks) {
    const int round = int(u32(part.row) / u32(ranks.count));
    part.row = (part.row - round * ranks.count) * ranks.room + round;
    return part;
}

/// The scale of a row whose first numbers are loaded. `load(feature, numbers)` loads those that no register holds. By
/// the block together.
template <RowSpec spec, class Load>
TILEWRIGHT_DEVICE float row_scale(const RowNumbers<spec>& first, const RowPart& part, int step, Load load) {
    bool all_finite;
    float peak = finite_peak(first, all_finite);
    for (int at = step; at < part.end; at += step) {
        RowNumbers<spec> numbers;
        numbers.factor = first.factor;
        load(part.feature + at, numbers);
        peak = larger(peak, finite_peak(numbers, all_finite));
    }
    return scale_of<copy_of(spec)>(largest_of_block(peak, step / lane_features, shared_memory<RowShared>()));
}

/// Stores the lane's first elements of a row, and quantizes and stores those after them. By a warp together.
template <RowSpec spec, class Load>
TILEWRIGHT_DEVICE void store_row(const RowTarget& to, const RowPlace& place, const RowPart& part, int step,
                                 const LaneOutput<spec>& first, float factor, Load load) {
    store_output(to, place, part.feature, part.end, first);
    if constexpr (spec.output != RowOutput::scaled_rows) return;
    for (int at = step; at < part.end; at += step) {
        RowNumbers<spec> numbers;
        numbers.factor = factor;
        load(part.feature + at, numbers);
        store_output(to, place, part.feature + at, part.end, output_of(numbers, first.scale));
    }
}

/// Zeros for rows that do not exist.
template <RowSpec spec>
TILEWRIGHT_DEVICE void clear_row_part(const RowTarget& to, const RowPlace& place, const RowPart& part) {
    LaneOutput<spec> zeros;
#pragma unroll
    for (u32& word : zeros.elements) word = 0;
    store_output(to, place, part.feature, part.end, zeros);
}

}  // namespace tilewright::hopper
