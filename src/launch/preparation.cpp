#include "launch/preparation.h"

#include <cstddef>
#include <cstdint>

#include "base/math.h"

namespace tilewright::launch {
namespace {

/// Tokens are k, features the operand's rows.
QuantizeLaunch copy(const CopyAlongK& from, void* workspace) {
    using hopper::quantize_block;
    QuantizeLaunch launch{.kernel = {.step = QuantizeStep::transpose_codes, .transposition = copy_spec}};
    hopper::TransposeArguments& arguments = launch.transposition;
    // The strides of dimensions of one index mean nothing.
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
    grid.tokens = static_cast<int>(from.k);
    grid.features = static_cast<int>(from.rows);
    grid.strips = ceil_div(grid.tokens, quantize_block);
    grid.feature_tiles = ceil_div(grid.features, quantize_block);
    launch.blocks = grid.feature_tiles * grid.groups * grid.strips;
    return launch;
}

/// Rows, then tiles with room for the most windows: the host need not know how many there are.
void add_packing(const WeightPacking& packing, void* workspace, std::vector<PreparationLaunch>& launches) {
    std::byte* const bytes = static_cast<std::byte*>(workspace);
    void* const out = bytes + packing.at;
    const PackedPlan plan{.sections = formats::packed_sections(packing.packed), .bytes = packing.packed.bytes};
    launches.emplace_back(lower_judging(packing.weights, PackedFor::fp8, bytes + packing.judgements_at, out));
    for (const PackLaunch& each : lower_packing(packing.weights, PackedFor::fp8, plan, nullptr, out)) {
        if (each.kernel.step == PackStep::pack_tiles) launches.emplace_back(each);
    }
}

}  // namespace

std::vector<PreparationLaunch> lower_preparation(const Preparation& preparation, void* workspace) {
    std::vector<PreparationLaunch> launches;
    for (const auto& each : {preparation.a, preparation.b}) {
        if (each && each->bytes() > 0) launches.emplace_back(copy(*each, workspace));
    }
    if (preparation.packing && preparation.packing->packed.n > 0)
        add_packing(*preparation.packing, workspace, launches);
    return launches;
}

}  // namespace tilewright::launch
