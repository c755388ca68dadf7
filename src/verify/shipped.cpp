#include "verify/shipped.h"

#include <algorithm>
#include <string>

#include "cuda/kernel_pack.h"
#include "launch/kernels.h"
#include "launch/preparation.h"
#include "plan/choose.h"
#include "plan/variant.h"
#include "problem/gpu_call.h"

namespace tilewright::verify {
namespace {

bool is_in_pack(const std::string& expression) {
    const cuda::KernelPack& pack = cuda::embedded_pack();
    return pack.kernels().empty() || pack.find(expression).has_value();
}

}  // namespace

bool ships(const Problem& problem, const DeviceDescription& device) {
    const GpuCall call = gpu_call(problem);
    const hopper::Kernel kernel = planner::variant(call.product, planner::chosen_tile(problem, call, device));
    return ships(launch::lower_workspace(call.before, nullptr)) && is_in_pack(launch::kernel_expression(kernel));
}

bool ships(const std::vector<launch::OtherLaunch>& launches) {
    return std::ranges::all_of(
        launches, [](const launch::OtherLaunch& each) { return is_in_pack(launch::kernel_expression(each.kernel())); });
}

}  // namespace tilewright::verify
