#include "launch/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "formats/packed_source.h"
#include "launch/quantize_views.h"

namespace tilewright::launch {
namespace {

using namespace formats;
using hopper::PackArguments;
using hopper::PackSpec;

// As hopper/quantize/pack_rows.h has them for the GPU.
constexpr std::uint8_t judged_kept = 128;
constexpr std::int64_t rows_of_block = hopper::quantize_warps;  // a warp has one

PackSpec spec_of(const Operand& weights, const PackArguments& arguments, PackedFor activations) {
    const bool mxfp4 = weights.granularity == Granularity::block_1x32;
    const auto is_aligned = [](std::int64_t bytes) { return bytes % vector_bytes == 0; };
    return {.mxfp4 = mxfp4,
            .for_fp8 = mxfp4 && activations == PackedFor::fp8,
            .vectors = is_aligned(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(arguments.codes))) &&
                       is_aligned(arguments.code_group_stride) && is_aligned(arguments.code_row_stride)};
}

PackArguments arguments_of(const Operand& weights, const PackedSections& sections) {
    const Tensor& values = weights.values;
    const Tensor& scales = weights.scales;
    const int rank = values.shape.rank();
    PackArguments arguments{.codes = static_cast<const std::uint8_t*>(values.data),
                            .code_group_stride = rank == 3 ? values.strides[0] / 2 : 0,
                            .code_row_stride = values.strides[rank - 2] / 2,
                            .scales = static_cast<const std::uint8_t*>(scales.data),
                            .scale_group_stride = rank == 3 ? scales.strides[0] : 0,
                            .scale_row_stride = scales.strides[rank - 2],
                            .scale_column_stride = scales.strides[rank - 1],
                            .groups = static_cast<int>(sections.groups),
                            .n = static_cast<int>(sections.n),
                            .k = static_cast<int>(sections.k),
                            .rows_at = sections.rows_at()};
    if (sections.tensor_scales != 0) {
        arguments.tensor_scales = static_cast<const float*>(weights.tensor_scale.data);
        arguments.tensor_scale_stride = sections.tensor_scales > 1 ? weights.tensor_scale.strides[0] : 0;
        arguments.tensor_scale_count = static_cast<int>(sections.tensor_scales);
    }
    return arguments;
}

}  // namespace

std::string unserved_by_packing(const Operand& weights) {
    return can_be_counted(PackedSource(weights).sections()) ? "" : countable_words;
}

PackLaunch lower_judging(const Operand& weights, PackedFor activations, void* judgements, void* out) {
    const PackedSections sections = PackedSource(weights).sections();
    PackLaunch launch{.arguments = arguments_of(weights, sections)};
    launch.kernel = {PackStep::judge_rows, spec_of(weights, launch.arguments, activations)};
    launch.arguments.judgements = static_cast<std::uint8_t*>(judgements);
    launch.arguments.out = static_cast<std::uint8_t*>(out);
    launch.blocks = static_cast<int>(ceil_div(sections.groups * sections.row_tiles() * packed_rows, rows_of_block));
    return launch;
}

PackedPlan packed_plan(const Operand& weights, PackedFor activations, std::span<const std::uint8_t> judgements) {
    PackedPlan plan{.sections = PackedSource(weights).sections()};
    for (std::size_t row = 0; row < judgements.size(); ++row) {
        const std::int64_t windows = judgements[row] % judged_kept;
        if (activations == PackedFor::fp8) {
            plan.sections.windows = std::max(plan.sections.windows, windows);
        } else if (windows != 0 && plan.sections.wide_row < 0) {
            plan.sections.wide_row = static_cast<std::int64_t>(row);
        }
        if (judgements[row] >= judged_kept) plan.kept_rows.push_back(static_cast<std::int64_t>(row));
    }
    plan.bytes = plan.sections.kept_at() + plan.sections.kept_bytes(std::ssize(plan.kept_rows));
    return plan;
}

std::vector<PackLaunch> lower_packing(const Operand& weights, PackedFor activations, const PackedPlan& plan,
                                      const std::int64_t* kept_rows, void* out) {
    const PackedSections& sections = plan.sections;
    PackLaunch tiles{.arguments = arguments_of(weights, sections)};
    PackArguments& arguments = tiles.arguments;
    arguments.out = static_cast<std::uint8_t*>(out);
    arguments.tiles_at = sections.tiles_at();
    arguments.tile_bytes = sections.tile_bytes();
    arguments.windows = static_cast<int>(sections.windows);
    arguments.kept_at = sections.kept_at();
    arguments.kept_row_bytes = sections.kept_row_bytes();
    arguments.bytes = plan.bytes;
    arguments.kept_rows = reinterpret_cast<const hopper::i64*>(kept_rows);
    arguments.kept = static_cast<int>(plan.kept_rows.size());
    const PackedHeader header =
        header_of(sections, PackedSource(weights).recipe(), activations, PackedSource(weights).grouped(), plan.bytes);
    static_assert(sizeof header <= sizeof arguments.header);
    std::memcpy(arguments.header, &header, sizeof header);
    tiles.kernel = {PackStep::pack_tiles, spec_of(weights, arguments, activations)};
    tiles.blocks = static_cast<int>(sections.groups * sections.row_tiles() *
                                    ceil_div<std::int64_t>(sections.k_blocks(), hopper::pack_run_tiles));
    PackLaunch rest = tiles;
    rest.kernel.step = PackStep::pack_rest;
    rest.blocks = 1 + arguments.kept;
    if (tiles.blocks == 0) return {rest};
    return {tiles, rest};
}

}  // namespace tilewright::launch
