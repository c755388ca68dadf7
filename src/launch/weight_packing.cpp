#include "launch/weight_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "formats/packed_source.h"
#include "launch/quantize_views.h"

namespace tilewright::launch {
namespace {

using namespace formats;
using hopper::judged_kept;
using hopper::PackArguments;
using hopper::PackSpec;

constexpr int k_of_vector = 32;

PackSpec spec_of(const Operand& weights, const PackArguments& arguments, PackedFor activations) {
    const bool mxfp4 = weights.granularity == Granularity::block_1x32;
    return {.mxfp4 = mxfp4,
            .for_fp8 = mxfp4 && activations == PackedFor::fp8,
            .vectors = arguments.k % k_of_vector == 0 &&
                       is_aligned(arguments.codes, {arguments.code_group_stride, arguments.code_row_stride})};
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
                            .rows_at = sections.rows_at(),
                            .tiles_at = sections.tiles_at(),
                            .tile_bytes = sections.tile_bytes(),
                            .windows = static_cast<int>(sections.windows)};
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

std::vector<OtherLaunch> lower_tiles(const Operand& weights, PackedFor activations, const PackedSections& sections,
                                     void* judgements, void* out) {
    PackArguments arguments = arguments_of(weights, sections);
    const PackSpec spec = spec_of(weights, arguments, activations);
    arguments.part = hopper::pack_part(static_cast<int>(sections.k_blocks()), spec.mxfp4);
    arguments.judgements = static_cast<std::uint8_t*>(judgements);
    arguments.out = static_cast<std::uint8_t*>(out);
    const std::int64_t row_tiles = sections.groups * sections.row_tiles();
    const std::int64_t strips = row_tiles * (packed_rows / hopper::pack_strip_rows);
    std::vector<OtherLaunch> launches{launch_of(PackTiles{spec}, arguments, static_cast<int>(strips))};
    launches.front().shared_bytes = hopper::pack_shared_bytes(arguments.part, spec.mxfp4);
    if (sections.windows != 0 && out != nullptr) {
        launches.push_back(launch_of(PackHeads{spec}, arguments, static_cast<int>(row_tiles)));
    }
    return launches;
}

OtherLaunch lower_scales(const Operand& weights, const PackedSections& sections, void* out) {
    constexpr int most_k_blocks = static_cast<int>(raw_k_limit / packed_k);
    static_assert(hopper::scales_shared_bytes(most_k_blocks) <= hopper::most_pack_shared);
    PackArguments arguments = arguments_of(weights, sections);
    arguments.out = static_cast<std::uint8_t*>(out);
    constexpr int word = 4;
    const bool words = arguments.scale_column_stride == 1 && arguments.k % packed_k == 0 &&
                       is_aligned(arguments.scales, {arguments.scale_row_stride, arguments.scale_group_stride}, word);
    OtherLaunch launch =
        launch_of(PackScales{{.vectors = words}}, arguments, static_cast<int>(sections.groups * sections.row_tiles()));
    launch.shared_bytes = hopper::scales_shared_bytes(static_cast<int>(sections.k_blocks()));
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

OtherLaunch lower_rest(const Operand& weights, PackedFor activations, const PackedPlan& plan,
                       const std::int64_t* kept_rows, void* out) {
    PackArguments arguments = arguments_of(weights, plan.sections);
    arguments.out = static_cast<std::uint8_t*>(out);
    arguments.kept_at = plan.sections.kept_at();
    arguments.kept_row_bytes = plan.sections.kept_row_bytes();
    arguments.bytes = plan.bytes;
    arguments.kept_rows = reinterpret_cast<const hopper::i64*>(kept_rows);
    arguments.kept = static_cast<int>(plan.kept_rows.size());
    const PackedSource source(weights);
    const PackedHeader header = header_of(plan.sections, source.recipe(), activations, source.grouped(), plan.bytes);
    static_assert(sizeof header <= sizeof arguments.header);
    std::memcpy(arguments.header, &header, sizeof header);
    return launch_of(PackRest{spec_of(weights, arguments, activations)}, arguments, 1 + arguments.kept);
}

}  // namespace tilewright::launch
