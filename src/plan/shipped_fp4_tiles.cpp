#include "plan/shipped_fp4_tiles.h"

#include <string_view>

#include "plan/kernel_class.h"
#include "plan/planned_tile.h"

namespace tilewright::planner {

using hopper::Groups;
using hopper::Kernel;

namespace {

struct PackedLine {
    std::string_view tile;
    Groups groups;
    std::string_view rows;    // kernels for activations with scales of rows
    std::string_view blocks;  // for activations with 1x128 scales
};

// Tiles for few tokens, chosen by the bytes in flight and by registers, not by measurements. With many groups four
// warpgroups hide each other's decoding; with one group k is split. From some 30 tokens per group, two warpgroups of
// 128 rows are faster: they decode one half while the other is multiplied.
constexpr PackedLine fp8_lines[] = {
    {"64x16x128 stages=16 warpgroups=1 swap", Groups::none, "fg", "fg"},
    {"64x64x128 stages=12 warpgroups=1 swap", Groups::none, "fg", "f"},
    {"128x128x128 stages=6 swap", Groups::none, "fg", "fg"},
    {"64x8x128 stages=10 warpgroups=1 swap split=4", Groups::none, "f", "f"},
    {"64x16x128 stages=10 warpgroups=1 swap split=4", Groups::none, "f", "f"},
    {"64x32x128 stages=8 warpgroups=1 swap split=4", Groups::none, "f", "fg"},
    {"64x64x128 stages=6 warpgroups=1 swap split=4", Groups::none, "fg", "f"},
    {"128x16x128 stages=12 swap", Groups::rows, "f", "f"},
    {"128x32x128 stages=10 swap", Groups::rows, "fg", "fg"},
    {"128x128x128 stages=6 swap", Groups::rows, "fg", "fg"},
    {"256x32x128 stages=8 warpgroups=4 swap", Groups::rows, "f", "f"},
    {"256x64x128 stages=6 swap", Groups::rows, "fg", "fg"},
    {"256x96x128 stages=5 swap", Groups::rows, "f", "f"},
};

struct PackedBf16Line {
    std::string_view tile;
    Groups groups;
};

// For bf16 only MXFP4's kernels for any output ship, because others would have the same mainloop. The same tiles serve
// NVFP4, compiled on first use. They were compared with the best of 10 to 12 tiles each, for products of 1, 16 and 32
// rows and 128 groups of 4. They are within 1.2 % (one H200, 2026-11-24).
constexpr PackedBf16Line bf16_lines[] = {
    {"64x16x128 stages=10 warpgroups=1 swap split=4", Groups::none},
    {"256x16x128 stages=9 warpgroups=4 swap split=4", Groups::none},
    {"256x32x128 stages=7 warpgroups=4 swap split=4", Groups::none},
    {"256x64x128 stages=4 warpgroups=4 swap split=4", Groups::none},
    {"256x64x128 stages=5 warpgroups=4 swap", Groups::none},
    {"128x8x128 stages=10 swap", Groups::rows},
    {"256x8x128 stages=8 warpgroups=4 swap", Groups::rows},
    {"256x16x128 stages=9 warpgroups=4 swap", Groups::rows},
    {"256x32x128 stages=7 warpgroups=4 swap", Groups::rows},
    {"256x64x128 stages=5 warpgroups=4 swap", Groups::rows},
    {"128x128x128 stages=4 swap", Groups::rows},
};

constexpr OperandRecipe row_blocks{.granularity = Granularity::block_1x128}, row{.granularity = Granularity::row};
constexpr OperandRecipe bf16{Format::bf16, Granularity::none};
constexpr OperandRecipe mxfp4{Format::e2m1, Granularity::block_1x32, Format::ue8m0};

Kernel packed_tile(std::string_view name, const OperandRecipe& activations, Groups groups) {
    Kernel shapeless = with_packed_weights(
        kernel_class({activations, mxfp4}, Accumulation::promoted, activations.values, Format::e2m1));
    shapeless.groups = groups;
    return device_tile(parse_tile(name).value(), shapeless);
}

void add_fp8(std::vector<ShippedTile>& list) {
    for (const PackedLine& line : fp8_lines) {
        list.push_back({packed_tile(line.tile, row, line.groups), line.rows});
        list.push_back({packed_tile(line.tile, row_blocks, line.groups), line.blocks});
    }
}

void add_bf16(std::vector<ShippedTile>& list) {
    for (const PackedBf16Line& line : bf16_lines) list.push_back({packed_tile(line.tile, bf16, line.groups), "g"});
}

/// Wide rows are rare: the kernels for D of bf16 of one tile for one product and of one for groups. The others are
/// compiled on first use.
void add_wide_rows(std::vector<ShippedTile>& list) {
    for (const OperandRecipe& activations : {row, row_blocks}) {
        const auto add = [&](std::string_view name, Groups groups) {
            Kernel tile = packed_tile(name, activations, groups);
            tile.wide_rows = true;
            list.push_back({tile, "f"});
        };
        add("64x16x128 stages=10 warpgroups=1 swap split=4", Groups::none);
        add("256x32x128 stages=8 warpgroups=4 swap", Groups::rows);
    }
}

}  // namespace

std::vector<ShippedTile> shipped_fp4_tiles() {
    std::vector<ShippedTile> list;
    add_fp8(list);
    add_bf16(list);
    add_wide_rows(list);
    return list;
}

}  // namespace tilewright::planner
