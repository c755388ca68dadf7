#include "launch/preparation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/math.h"
#include "launch/quantize_views.h"
#include "launch/weight_packing.h"
#include "problem/canonical_order.h"

namespace tilewright::launch {
namespace {

/// Tokens are k, and features are the operand's rows.
OtherLaunch copy(const CopyAlongK& from, void* workspace) {
    hopper::TransposeArguments arguments;
    // The strides of dimensions of one index have no effect.
    const Strides& strides = from.from.value_strides;
    arguments.codes = {.data = from.from.values,
                       .group_stride = from.matrices > 1 ? strides.group : 0,
                       .token_stride = from.k > 1 ? strides.k : 0,
                       .feature_stride = 1};
    arguments.to = {.codes = static_cast<hopper::u8*>(workspace) + from.at,
                    .group_stride = from.to.group,
                    .token_stride = 1,
                    .feature_stride = from.to.row,
                    .columns = from.to.row};
    hopper::QuantizeArguments& grid = arguments.grid;
    grid.groups = static_cast<int>(from.matrices);
    set_sizes(grid, from.k, from.rows);
    return launch_of(TransposeCodes{copy_spec}, arguments, grid.feature_tiles * grid.groups * grid.strips);
}

hopper::Decoding decoding_kind(const OperandRecipe& recipe) {
    if (is_nvfp4(recipe)) return hopper::Decoding::nvfp4_to_bf16;
    if (is_mxfp4(recipe)) return hopper::Decoding::mxfp4_to_e4m3;
    return recipe.values == Format::e5m2 ? hopper::Decoding::e5m2_to_bf16 : hopper::Decoding::e4m3_to_bf16;
}

int matrices_at_once(std::int64_t rows) {
    constexpr std::int64_t most_rows = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp<std::int64_t>(most_rows / std::max<std::int64_t>(rows, 1), 1, 32));
}

OtherLaunch decode(const DecodedOperand& from, void* workspace) {
    // Further strips are taken in turns. Most of a masked call's rows may be missing, and blocks without a strip cost
    // time too.
    const bool masked = from.row_counts.data != nullptr;
    const std::int64_t most_blocks = std::int64_t{1} << (masked ? 9 : 16);
    const OperandGeometry& codes = from.from;
    // The strides of dimensions of one index have no effect.
    const Strides values{.group = from.matrices > 1 ? codes.value_strides.group : 0,
                         .row = from.rows > 1 ? codes.value_strides.row : 0,
                         .k = from.k > 1 ? codes.value_strides.k : 1};
    const Strides& scales = codes.scale_strides;
    hopper::DecodeArguments arguments{.codes = static_cast<const hopper::u8*>(codes.values),
                                      .group_stride = values.group,
                                      .row_stride = values.row,
                                      .k_stride = values.k,
                                      .scales = static_cast<const hopper::u8*>(codes.scales),
                                      .scale_group_stride = from.matrices > 1 ? scales.group : 0,
                                      .scale_row_stride = scales.row,
                                      .scale_k_stride = scales.k,
                                      .to = static_cast<hopper::u8*>(workspace) + from.at,
                                      .to_group_stride = from.to.group,
                                      .to_row_stride = from.to.row,
                                      .matrices = static_cast<int>(from.matrices),
                                      .matrices_at_once = matrices_at_once(from.rows),
                                      .rows = static_cast<int>(from.rows),
                                      .k = static_cast<int>(from.k)};
    if (masked) {
        arguments.row_counts = from.row_counts.data;
        arguments.row_counts_stride = from.row_counts.strides[0];
        arguments.row_counts_are_64_bit = from.row_counts.format == Format::i64;
    }
    const hopper::Decoding decoding = decoding_kind(codes.recipe);
    const bool aligned = is_aligned(codes.values, {}, hopper::code_word_bytes(decoding));
    const DecodeCodes kernel{
        {.codes = decoding,
         .vectors = aligned && values.k == 1 && (values.row | values.group) % hopper::decoded_word == 0}};
    const std::int64_t strips = ceil_div<std::int64_t>(from.k, hopper::decoded_strip);
    const std::int64_t blocks = ceil_div<std::int64_t>(from.matrices * from.rows * strips, hopper::quantize_warps);
    return launch_of(kernel, arguments, static_cast<int>(std::min(blocks, most_blocks)));
}

OtherLaunch expand(const ExpandedWeights& from, void* workspace) {
    std::byte* const bytes = static_cast<std::byte*>(workspace);
    ExpandWeights kernel;
    if (from.values == Format::bf16) {
        kernel.spec = from.has_factors ? hopper::Expansion::mxfp4_to_bf16 : hopper::Expansion::nvfp4_to_bf16;
    }
    const hopper::ExpandArguments arguments{
        .rows = static_cast<const hopper::u8*>(from.from.rows),
        .tiles = static_cast<const hopper::u8*>(from.from.tiles),
        .tile_bytes = from.from.tile_bytes,
        .to = reinterpret_cast<hopper::u8*>(bytes + from.at),
        .to_row_bytes = from.row_bytes(),
        .factors = from.has_factors ? reinterpret_cast<float*>(bytes + from.factors_at()) : nullptr,
        .groups = static_cast<int>(from.groups),
        .n = static_cast<int>(from.n),
        .k = static_cast<int>(from.k)};
    const std::int64_t runs = ceil_div<std::int64_t>(from.from.k_blocks, hopper::expand_run_tiles);
    return launch_of(kernel, arguments, static_cast<int>(from.groups * from.from.row_tiles * runs));
}

/// Packs rows, and tiles with memory for the most windows, so that the host need not know the number of windows.
void add_packing(const WeightPacking& packing, void* workspace, std::vector<OtherLaunch>& launches) {
    std::byte* const bytes = static_cast<std::byte*>(workspace);
    const formats::PackedSections sections = packed_sections(packing);
    if (packing.raw) {
        launches.push_back(lower_scales(packing.weights, sections, bytes + packing.at));
        return;
    }
    const std::vector<OtherLaunch> tiles = lower_tiles(packing.weights, packing.packed.activations, sections,
                                                       bytes + packing.judgements_at, bytes + packing.at);
    launches.insert(launches.end(), tiles.begin(), tiles.end());
}

}  // namespace

std::vector<OtherLaunch> lower_workspace(const WorkspacePlan& plan, void* workspace) {
    std::vector<OtherLaunch> launches;
    for (const auto& each : {plan.copy_a, plan.copy_b}) {
        if (each && each->bytes() > 0) launches.push_back(copy(*each, workspace));
    }
    for (const auto& each : {plan.decode_a, plan.decode_b}) {
        if (each && each->bytes() > 0) launches.push_back(decode(*each, workspace));
    }
    if (plan.expand_b) launches.push_back(expand(*plan.expand_b, workspace));
    if (plan.pack_b && plan.pack_b->packed.n > 0) add_packing(*plan.pack_b, workspace, launches);
    return launches;
}

}  // namespace tilewright::launch
