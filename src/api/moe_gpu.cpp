#include "api/moe_gpu.h"

#include "cuda/backend.h"
#include "launch/moe.h"

namespace tilewright {
namespace {

void launch_all(const std::vector<launch::MoeLaunch>& launches, int device, const RunOptions& how) {
    cuda::run_moe(launches, device, how.stream, how.overlap);
}

}  // namespace

void run_on_gpu(const moe::RouteStep& route, const moe::PermuteStep& permute, int device, const RunOptions& how) {
    if (launch::fits_in_permute(route)) return launch_all(launch::lower(route, permute), device, how);
    run_on_gpu(route, device, how);
    run_on_gpu(permute, device, how);
}

void run_on_gpu(const moe::RouteStep& step, int device, const RunOptions& how) {
    launch_all(launch::lower(step), device, how);
}

void run_on_gpu(const moe::PermuteStep& step, int device, const RunOptions& how) {
    launch_all(launch::lower(step), device, how);
}

void run_on_gpu(const moe::ActivateStep& step, int device, const RunOptions& how) {
    launch_all(launch::lower(step), device, how);
}

void run_on_gpu(const moe::CombineStep& step, int device, const RunOptions& how) {
    launch_all(launch::lower(step), device, how);
}

}  // namespace tilewright
