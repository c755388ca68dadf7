// The host's part of the learning kernel: its arguments, its tensor maps and its grid, from a problem. The GPU and the
// emulator each encode the maps in their own way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "hopper/arguments.h"
#include "learn/block_scaled_gemm.h"
#include "problem/geometry.h"

namespace tilewright::learn {

struct Call {
    Arguments arguments{};  // without its maps and the report
    hopper::TensorMapDescription a{}, b{}, a_scales{}, d{};
    int blocks = 0;
};

/// TMA wants strides in multiples of 16 bytes, also of a dimension with one index.
inline hopper::u64 map_stride(std::int64_t elements, std::int64_t count, int element_bytes) {
    constexpr hopper::u64 alignment = 16;
    return count > 1 ? static_cast<hopper::u64>(elements * element_bytes) : alignment;
}

/// A row-major matrix, in swizzled boxes of 128 bytes and `rows` rows.
inline hopper::TensorMapDescription matrix_map(const void* base, int element_bytes, std::int64_t columns,
                                               std::int64_t rows, std::int64_t row_stride, int rows_of_box) {
    return {.base = base,
            .element_bytes = element_bytes,
            .sizes = {static_cast<hopper::u64>(columns), static_cast<hopper::u64>(rows), 1},
            .strides = {map_stride(row_stride, rows, element_bytes), map_stride(0, 1, 1)},
            .box = {static_cast<hopper::u32>(k_block / element_bytes), static_cast<hopper::u32>(rows_of_box), 1},
            .swizzled = true};
}

/// 1x128 scales of adjacent rows, as one row of all k-blocks: TMA takes longer for a box that leaves the tensor.
inline hopper::TensorMapDescription row_scale_map(const void* base, std::int64_t count) {
    return {.base = base,
            .element_bytes = sizeof(float),
            .sizes = {static_cast<hopper::u64>(count), 1, 1},
            .strides = {map_stride(0, 1, 1), map_stride(0, 1, 1)},
            .box = {tile_rows, 1, 1},
            .swizzled = false};
}

/// For calls that the fast kernel of 128x128 serves, without batches: e4m3 with f32 scales 1x128 and 128x128, D bf16,
/// alpha 1, no C, k > 0. Scales of A are adjacent along rows. Throws std::invalid_argument for some of the others.
inline Call call(const Geometry& g, int sms) {
    const bool scales_along_rows = g.m == 1 || g.a.scale_strides.row == 1;
    if (g.groups != 1 || g.k == 0 || g.alpha != 1 || g.c.data != nullptr || g.output != Format::bf16 ||
        g.a.recipe.granularity != Granularity::block_1x128 || g.b.recipe.granularity != Granularity::block_128x128 ||
        !scales_along_rows) {
        throw std::invalid_argument("the learning kernel does not serve this call; see docs/learn/call.h");
    }
    const std::int64_t row_tiles = ceil_div<std::int64_t>(g.m, tile_rows);
    const std::int64_t tiles = row_tiles * ceil_div<std::int64_t>(g.n, tile_columns);
    const std::int64_t k_blocks = ceil_div<std::int64_t>(g.k, k_block);
    Call call{.a = matrix_map(g.a.values, 1, g.k, g.m, g.a.value_strides.row, tile_rows),
              .b = matrix_map(g.b.values, 1, g.k, g.n, g.b.value_strides.row, tile_columns),
              .a_scales = row_scale_map(g.a.scales, (k_blocks - 1) * g.a.scale_strides.k + g.m),
              .d = matrix_map(g.d.data, 2, g.n, g.m, g.d.row_stride, warpgroup_rows)};
    call.arguments.b_scales = static_cast<const float*>(g.b.scales);
    call.arguments.b_scale_row_step = g.b.scale_strides.row;
    call.arguments.b_scale_step = g.b.scale_strides.k;
    call.arguments.a_scale_step = static_cast<int>(g.a.scale_strides.k);
    call.arguments.row_tiles = static_cast<int>(row_tiles);
    call.arguments.tiles = static_cast<int>(tiles);
    call.arguments.k_blocks = static_cast<int>(k_blocks);
    call.blocks = static_cast<int>(std::min<std::int64_t>(tiles, sms));
    return call;
}

}  // namespace tilewright::learn
