// The kernels of a layer of experts on a GPU and their predicted times.
#include <tilewright/error.h>
#include <tilewright/moe.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/explained_steps.h"

namespace tilewright {
namespace {

std::vector<MoeStep> explain_whole(const Moe& layer, const DeviceDescription& device) {
    Arena counting(nullptr, layer.out.device);
    const MoeSteps made = steps(layer, counting);
    ExplainedSteps explained(device);
    explained.add_up_to_combine(layer, made);
    if (made.combine) {
        const moe::CombineStep& sum = *made.combine;
        explained.add_copy(
            {.name = "combine",
             .what = std::to_string(std::max<std::int64_t>(sizes_of(layer).choices, 1)) + " rows per token",
             .bytes = bytes_of(sum.y) + bytes_of(sum.places) + bytes_of(sum.weights) + bytes_of(sum.addend) +
                      bytes_of(sum.out)});
    }
    return explained.take();
}

}  // namespace

std::vector<MoeStep> explain(const Moe& given, const DeviceDescription& device) {
    const Moe layer = as_on_gpu(given);
    require_none(validate(layer, Backend::hopper, Check::shapes));
    const MoeSizes sizes = sizes_of(layer);
    if (!sizes.has_routing()) return explain_whole(layer, device);
    return explain_whole(tokens_of(layer, 0, std::min(layer.chunk, sizes.tokens)), device);
}

}  // namespace tilewright
