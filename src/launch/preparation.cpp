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

}  // namespace

std::vector<QuantizeLaunch> lower_preparation(const Preparation& preparation, void* workspace) {
    std::vector<QuantizeLaunch> launches;
    for (const auto& each : {preparation.a, preparation.b}) {
        if (each && each->bytes() > 0) launches.push_back(copy(*each, workspace));
    }
    return launches;
}

}  // namespace tilewright::launch
