#include "plan/shipped_kernels.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "hopper/description/design.h"
#include "plan/kernel_class.h"
#include "plan/planned_tile.h"

namespace tilewright::planner {
namespace {

using hopper::Groups;
using hopper::Kernel;
using hopper::Output;

// Pairs of recipes. General kernels for these scales also serve other value formats, compiled on first use.
constexpr OperandRecipe tensor{.granularity = Granularity::tensor}, row{.granularity = Granularity::row};
constexpr OperandRecipe row_blocks{.granularity = Granularity::block_1x128};
constexpr OperandRecipe squares{.granularity = Granularity::block_128x128};
constexpr OperandRecipe no_scales{.granularity = Granularity::none}, bf16{Format::bf16, Granularity::none};
constexpr OperandRecipe mxfp4{Format::e2m1, Granularity::block_1x32, Format::ue8m0};

constexpr Kernel class_of(const OperandRecipe& a, const OperandRecipe& b,
                          Accumulation accumulation = Accumulation::promoted) {
    return kernel_class({a, b}, accumulation, Format::e4m3, Format::e4m3);
}

constexpr Kernel unpromoted = class_of(tensor, tensor, Accumulation::unpromoted);

/// The classes of the table below. Each has two columns: for one product and for groups of rows.
constexpr std::array pack_classes{class_of(row, row), unpromoted, class_of(row_blocks, squares),
                                  class_of(row_blocks, row_blocks)};

struct PackLine {
    std::string_view tile;                                          // as `explain` names it
    std::array<std::string_view, 2 * pack_classes.size()> kernels;  // the letters of `add_kernels`
};

// Operands along k. Stages are as many as shared memory allows.
// - Groups end in the middle of tiles. Therefore small tiles serve them in addition to the largest ones.
// - Pairs pay where a tile loads much from L2. With three warpgroups the loop that scales rows has no register left for
//   a cluster's addresses (it spills).
// - 192x128 spills with 1x128 scales of both operands (NVRTC 13.0), and a tile that spills cannot ship.
// - More than three groups of columns with separate 128x128 scales cost more than a better fit gains.
// - The lines from the first split on are for few rows, and for the last rows of more. They split k, so that all SMs
//   read weights, or have weights on the tensor core's rows, or both.
// clang-format off
constexpr PackLine pack_lines[] = {
    //                                                   scales of rows and tensors      1x128:128x128   1x128:1x128
    //                                                   promoted        unpromoted
    //                                                   one     groups  one     groups  one     groups  one     groups
    {"256x128x128 stages=3",                             {"fp",   "f",    "f",    "f",    "fp",   "f",    "-",    "-"}},
    {"192x128x128 stages=4 warpgroups=3",                {"fg",   "f",    "-",    "-",    "fg",   "f",    "-",    "-"}},
    {"192x96x128 stages=4 warpgroups=3",                 {"f",    "-",    "-",    "-",    "f",    "f",    "-",    "-"}},
    {"128x192x128 stages=4",                             {"fp",   "fg",   "fp",   "fg",   "fp",   "f",    "-",    "-"}},
    {"128x256x128 stages=3",                             {"fp",   "f",    "fp",   "fg",   "f",    "fg",   "-",    "-"}},
    {"128x224x128 stages=3",                             {"fg",   "-",    "fg",   "-",    "-",    "-",    "-",    "-"}},
    {"128x176x128 stages=4",                             {"f",    "-",    "f",    "-",    "-",    "-",    "-",    "-"}},
    {"128x144x128 stages=5",                             {"f",    "-",    "f",    "-",    "-",    "-",    "-",    "-"}},
    {"128x128x128 stages=5",                             {"fg",   "fg",   "fg",   "f",    "fg",   "fg",   "fg",   "fg"}},
    {"128x96x128 stages=4",                              {"f",    "-",    "f",    "-",    "f",    "-",    "-",    "-"}},
    {"128x64x128 stages=8",                              {"f",    "-",    "f",    "-",    "-",    "-",    "f",    "-"}},
    {"64x192x128 stages=5 warpgroups=1",                 {"f",    "f",    "f",    "f",    "f",    "f",    "-",    "-"}},
    {"64x128x128 stages=8 warpgroups=1",                 {"f",    "f",    "f",    "f",    "fg",   "f",    "fg",   "fg"}},
    {"64x64x128 stages=8 warpgroups=1",                  {"fg",   "fg",   "fg",   "fg",   "fg",   "fg",   "fg",   "fg"}},
    {"64x16x128 stages=8 warpgroups=1 swap",             {"fg",   "fg",   "-",    "-",    "f",    "fg",   "-",    "-"}},
    {"128x16x128 stages=8 swap",                         {"f",    "f",    "-",    "-",    "f",    "f",    "-",    "-"}},
    {"64x32x128 stages=8 warpgroups=1 split=2",          {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x64x128 stages=12 warpgroups=1 split=2",         {"-",    "-",    "-",    "-",    "fg",   "-",    "-",    "-"}},
    {"64x64x128 stages=12 warpgroups=1 split=4",         {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"128x64x128 stages=7 split=2",                      {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x8x128 stages=8 warpgroups=1 swap",              {"-",    "-",    "-",    "-",    "fg",   "-",    "-",    "-"}},
    {"64x8x128 stages=8 warpgroups=1 swap split=2",      {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x16x128 stages=8 warpgroups=1 swap split=2",     {"-",    "-",    "-",    "-",    "fg",   "-",    "-",    "-"}},
    {"64x16x128 stages=8 warpgroups=1 swap split=4",     {"-",    "-",    "-",    "-",    "fg",   "-",    "-",    "-"}},
    {"64x32x128 stages=16 warpgroups=1 swap",            {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x32x128 stages=8 warpgroups=1 swap split=4",     {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"128x32x128 stages=8 swap",                         {"-",    "-",    "-",    "-",    "f",    "f",    "-",    "-"}},
    {"64x72x128 stages=12 warpgroups=1 swap",            {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x72x128 stages=10 warpgroups=1 swap split=2",    {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x96x128 stages=10 warpgroups=1",                 {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"64x96x128 stages=9 warpgroups=1 split=4",          {"-",    "-",    "-",    "-",    "fg",   "-",    "-",    "-"}},
    {"128x72x128 stages=8 swap",                         {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"128x96x128 stages=6 split=4",                      {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
    {"128x136x128 stages=4 swap split=2",                {"-",    "-",    "-",    "-",    "f",    "-",    "-",    "-"}},
};
// clang-format on

/// Adds the kernels of a tile that ship, by their letters:
/// - f: the kernels for one output: D of bf16, one for each order of 1x128 scales, and D of f32 where there is one;
/// - p: the kernels for D of bf16 of pairs of blocks;
/// - g: the general kernel.
void add_kernels(Kernel tile, std::string_view letters, std::vector<Kernel>& list) {
    const auto ships = [&](char letter) { return letters.find(letter) != std::string_view::npos; };
    if (ships('g')) list.push_back(general_kernel(tile));
    tile.output = Output::bf16_by_tma;
    for (const bool along_k : {false, true}) {
        tile.scales_along_k = along_k;
        if (contradiction(tile) != nullptr) continue;  // scales along k are 1x128
        if (ships('f')) list.push_back(tile);
        if (!ships('p')) continue;
        list.push_back(tile);  // The larger operand is shared.
        const bool a_is_larger = tile.shape.m > tile.shape.n;
        list.back().cluster = a_is_larger ? hopper::Cluster{.columns = 2} : hopper::Cluster{.rows = 2};
    }
    if (ships('f') && has_f32_kernel(tile)) list.push_back(f32_kernel(tile));
}

constexpr Kernel square{.shape = {.m = 128, .n = 128}, .stages = 5};

/// Operands along their rows: weights as a forward pass has them (layout nn, dense and grouped), A of layout tt.
void add_mn_major(std::vector<Kernel>& list) {
    constexpr std::pair<Kernel, Kernel> weights[] = {
        // tile and class
        {{.shape = {.m = 128, .n = 160}, .stages = 5, .swap_ab = true}, class_of(row, row)},
        {{.shape = {.m = 128, .n = 256}, .stages = 3, .swap_ab = true}, unpromoted},
        {{.shape = {.m = 128, .n = 128}, .stages = 5, .swap_ab = true}, class_of(row_blocks, squares)},
        {{.shape = {.m = 256, .n = 128}, .stages = 3, .swap_ab = true}, class_of(row_blocks, squares)},
    };
    for (const auto& [tile, shapeless] : weights) {
        Kernel kernel = device_tile(tile, shapeless);
        kernel.b.form = hopper::Form::columns;
        for (const Groups groups : {Groups::none, Groups::rows}) {
            kernel.groups = groups;
            add_kernels(kernel, tile.shape.m == 256 ? "f" : "fg", list);
        }
    }
    for (const Kernel& shapeless : {class_of(row, row), class_of(row_blocks, squares)}) {
        Kernel kernel = device_tile(square, shapeless);
        kernel.a.form = hopper::Form::columns;
        add_kernels(kernel, "fg", list);
    }
}

/// k-grouped kernels. D has many tiles, so the large ones serve, as far as registers allow. The smaller one is for the
/// rest of few tiles. Epilogue scales: 128x256 was up to 9 % faster than 256x128 in three shapes of short k, and 0.7 %
/// slower in one of f32 (docs/experiments/012-epilogue-scale-tiles.md).
void add_groups_of_k(std::vector<Kernel>& list) {
    constexpr Kernel wide{.shape = {.m = 128, .n = 256}, .stages = 3}, tall{.shape = {.m = 256, .n = 128}, .stages = 3};
    const auto add = [&](const Kernel& tile, const OperandRecipe& a, const OperandRecipe& b, Groups groups,
                         std::string_view letters) {
        Kernel kernel = device_tile(tile, class_of(a, b));
        kernel.groups = groups;
        add_kernels(kernel, letters, list);
    };
    add(wide, row, row, Groups::k_aligned, "f");
    add(square, row, row, Groups::k_aligned, "fg");
    for (const OperandRecipe& b : {squares, no_scales}) {  // without scales of B: folded
        add(tall, row_blocks, b, Groups::k_aligned, "f");
        add(square, row_blocks, b, Groups::k_aligned, "fg");
    }
    add(square, row_blocks, row_blocks, Groups::k_aligned, "fg");
    // As frameworks call them, and per-row scales.
    add(square, row_blocks, row_blocks, Groups::k_anywhere, "fg");
    add(wide, row, row, Groups::k_anywhere, "fg");
}

// ---- FP4 weights

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

// For bf16 only MXFP4's kernels for any output ship, because others would have the same mainloop. These tiles also
// serve NVFP4, compiled on first use. They were compared with the best of 10 to 12 tiles each, for products of 1, 16
// and 32 rows and 128 groups of 4. They are within 1.2 % (one H200, 2026-11-24).
constexpr std::pair<std::string_view, Groups> bf16_lines[] = {
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

Kernel packed_tile(std::string_view name, const OperandRecipe& activations, Groups groups) {
    Kernel shapeless = with_packed_weights(
        kernel_class({activations, mxfp4}, Accumulation::promoted, activations.values, Format::e2m1));
    shapeless.groups = groups;
    return device_tile(parse_tile(name).value(), shapeless);
}

/// Kernels for packed weights, for fp8 and bf16. Wide rows are rare: the kernels for D of bf16 of one tile for one
/// product and of one for groups. The others are compiled on first use.
void add_packed(std::vector<Kernel>& list) {
    for (const PackedLine& line : fp8_lines) {
        add_kernels(packed_tile(line.tile, row, line.groups), line.rows, list);
        add_kernels(packed_tile(line.tile, row_blocks, line.groups), line.blocks, list);
    }
    for (const auto& [tile, groups] : bf16_lines) add_kernels(packed_tile(tile, bf16, groups), "g", list);
    for (const OperandRecipe& activations : {row, row_blocks}) {
        for (Kernel tile : {packed_tile("64x16x128 stages=10 warpgroups=1 swap split=4", activations, Groups::none),
                            packed_tile("256x32x128 stages=8 warpgroups=4 swap", activations, Groups::rows)}) {
            tile.wide_rows = true;
            add_kernels(tile, "f", list);
        }
    }
}

void add_expanded(std::vector<Kernel>& list) {
    for (const Groups groups : {Groups::none, Groups::rows}) {
        for (const OperandRecipe& a : {row_blocks, row}) {
            Kernel tile = device_tile(expanded_tile, class_of(a, mxfp4));
            tile.groups = groups;
            add_kernels(tile, "g", list);
        }
    }
}

}  // namespace

bool has_f32_kernel(const hopper::Kernel& tile) {
    constexpr hopper::Shape shapes[] = {{.m = 256, .n = 128}, {.m = 128, .n = 128}};
    constexpr hopper::Shape of_groups_of_k{.m = 128, .n = 256};
    constexpr hopper::Shape of_row_scales[] = {{.m = 128, .n = 128},
                                               {.m = 128, .n = 64},
                                               {.m = 64, .n = 128, .warpgroups = 1},
                                               {.m = 64, .n = 64, .warpgroups = 1}};
    const bool of_rows = has_1x128_scales(tile.a, tile.order.a) && has_1x128_scales(tile.b, tile.order.b);
    const bool at_end = tile.order.a == ScaleUse::end && tile.order.b == ScaleUse::end;
    if (tile.groups == Groups::none ? !of_rows && !at_end : !tile.is_k_grouped()) return false;
    if (tile.order.chain != promotion_interval || contradiction(f32_kernel(tile)) != nullptr) return false;
    if (of_rows) return std::ranges::count(of_row_scales, tile.shape) > 0;
    return std::ranges::count(shapes, tile.shape) > 0 || (tile.is_k_grouped() && tile.shape == of_groups_of_k);
}

hopper::Kernel fitted(hopper::Kernel tile) {
    while (tile.stages > 2 && hopper::Design(tile).shared_bytes > hopper::shared_bytes_limit) --tile.stages;
    return tile;
}

hopper::Kernel f32_kernel(hopper::Kernel tile) {
    tile = general_kernel(tile);
    tile.output = Output::f32_by_tma;
    tile.stages = std::max(tile.stages, 8);
    return fitted(tile);
}

std::vector<Kernel> shipped_kernels() {
    std::vector<Kernel> list;
    for (std::size_t column = 0; column < 2 * pack_classes.size(); ++column) {
        Kernel shapeless = pack_classes[column / 2];
        shapeless.groups = column % 2 == 0 ? Groups::none : Groups::rows;
        for (const PackLine& line : pack_lines) {
            add_kernels(device_tile(parse_tile(line.tile).value(), shapeless), line.kernels[column], list);
        }
    }
    add_mn_major(list);
    add_groups_of_k(list);
    add_packed(list);
    add_expanded(list);
    return list;
}

}  // namespace tilewright::planner
