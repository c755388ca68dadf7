#include "workspace.h"

#include <tilewright/error.h>

#include <string>

namespace tilewright::python {
namespace {

ArrayView view_of(nb::handle array) {
    return view(array, {.operand = "workspace", .writable = true, .format = Format::ue8m0});
}

void check(const Tensor& bytes, DeviceId device) {
    const bool one_after_another = bytes.shape.rank() == 1 && (bytes.shape[0] <= 1 || bytes.strides[0] == 1);
    const std::string there = "memory of cuda:" + std::to_string(device.index);
    if (bytes.device != device) refuse("workspace", "memory elsewhere", there);
    if (!one_after_another) refuse("workspace", to_string(bytes.shape), "contiguous uint8 [bytes] in " + there);
}

std::int64_t bytes_on_gpu(const Call& call) {
    return resolve(call.problem, call.backend) == Backend::hopper ? workspace_bytes(call.problem) : 0;
}

}  // namespace

CallWorkspace::CallWorkspace(std::int64_t bytes, DeviceId device, nb::handle result, nb::handle given, void* stream) {
    if (bytes == 0) return;
    if (given.is_valid()) {
        bytes_ = view_of(given);
        check(bytes_->tensor, device);
        return;
    }
    if (!nb::cast<bool>(arrays_module().attr("is_torch")(result))) {
        refuse("workspace", "nothing",
               std::to_string(bytes) + " bytes or more in memory of cuda:" + std::to_string(device.index),
               "pass workspace=, a uint8 array of your library: only torch workspaces are allocated for you");
    }
    const auto address = reinterpret_cast<std::uintptr_t>(stream);
    bytes_ = view_of(arrays_module().attr("new_workspace")(bytes, device.index, address));
}

CallWorkspace::CallWorkspace(const Call& call, nb::handle given, void* stream)
    : CallWorkspace(bytes_on_gpu(call), call.problem.d.device, call.result, given, stream) {}

Workspace CallWorkspace::memory() const {
    if (!bytes_) return {};
    return {bytes_->tensor.data, bytes_->tensor.shape[0]};
}

std::int64_t workspace_bytes_of(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords) {
    try {
        const CallOptions options(keywords);
        return workspace_bytes(Call(a, b, GroupOptions(group_keywords), options).problem);
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        return 0;
    }
}

}  // namespace tilewright::python
