#include "verify/shipped.h"

#include <algorithm>
#include <string>
#include <variant>

#include "cuda/kernel_pack.h"
#include "launch/preparation.h"
#include "launch/tile_code.h"
#include "plan/runnable.h"
#include "plan/variant.h"
#include "problem/gpu_call.h"

namespace tilewright::verify {

bool ships(const Problem& problem, const DeviceDescription& device) {
    const cuda::KernelPack& pack = cuda::embedded_pack();
    if (pack.kernels().empty()) return true;
    const auto has = [&](const auto& kernel) { return pack.find(launch::kernel_expression(kernel)).has_value(); };
    const GpuCall call = gpu_call(problem);
    const bool prepares = std::ranges::all_of(launch::lower_workspace(call.before, nullptr), [&](const auto& each) {
        return std::visit([&](const auto& launch) { return has(launch.kernel); }, each);
    });
    return prepares && has(planner::variant(call.product, planner::chosen_tile(problem, call, device)));
}

bool ships(const std::vector<launch::QuantizeLaunch>& launches) {
    const cuda::KernelPack& pack = cuda::embedded_pack();
    return pack.kernels().empty() || std::ranges::all_of(launches, [&](const launch::QuantizeLaunch& each) {
               return pack.find(launch::kernel_expression(each.kernel)).has_value();
           });
}

}  // namespace tilewright::verify
