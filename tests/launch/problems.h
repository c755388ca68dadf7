// Problems of chosen strides at made-up addresses: a launch looks at no memory.
#pragma once

#include <bit>
#include <cstdint>

#include "kernel_of_recipe.h"
#include "launch/launch.h"
#include "plan/variant.h"

namespace tilewright::test {

inline void* address(std::uintptr_t value) { return std::bit_cast<void*>(value); }

inline Geometry block_scaled(std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::int64_t blocks = (k + 127) / 128;
    Geometry g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = {.recipe = {Format::e4m3, Granularity::block_1x128, Format::f32},
           .values = address(0x10000),
           .value_strides = {.row = k, .k = 1},
           .scales = address(0x20000),
           .scale_strides = {.row = blocks, .k = 1},
           .scale_columns = blocks};
    g.b = {.recipe = {Format::e4m3, Granularity::block_128x128, Format::f32},
           .values = address(0x30000),
           .value_strides = {.row = k, .k = 1},
           .scales = address(0x40000),
           .scale_strides = {.row = blocks, .k = 1},
           .scale_columns = blocks};
    g.d = {.given = true, .data = address(0x50000), .row_stride = n, .column_stride = 1};
    return g;
}

/// Makes scales of one k adjacent, columns `pitch` apart.
inline void transpose_scales(OperandGeometry& operand, std::int64_t pitch) {
    operand.scale_strides = {.group = 0, .row = 1, .k = pitch};
}

/// As the runtime launches it: the tile in the variant that serves the call.
inline launch::Launch lowered(const Geometry& g, const hopper::Kernel& tile, int sms) {
    return launch::lower(g, planner::kernel_plan(g, tile), sms);
}

inline hopper::Kernel block_scaled_tile() { return tests::of_recipe("1x128:128x128"); }

}  // namespace tilewright::test
