#include "verify/moe_gpu_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/moe_steps.h"
#include "base/math.h"
#include "check/memory.h"
#include "measure/span.h"

namespace tilewright::verify {
namespace {

constexpr std::size_t tensor_alignment = 256;
constexpr DeviceId gpu{.kind = DeviceId::Kind::cuda};

}  // namespace

MoeGpuCase::MoeGpuCase(const check::MoeCase& original) : layer_(original.layer()) {
    const bool in_place = layer_.addend.given() && layer_.addend.data == layer_.out.data;
    std::vector<std::byte> poisoned(static_cast<std::size_t>(workspace_bytes(as_on_gpu(layer_))), check::poison);
    if (!poisoned.empty()) {
        workspace_ = row_major(poisoned.data(), Format::ue8m0, {std::ssize(poisoned)});
        place("the workspace", workspace_);
    }
    place_packed("up", layer_.up, packed_up_);
    place_packed("down", layer_.down, packed_down_);
    for (auto& [name, tensor] : check::tensors_of(layer_)) {  // out is the last
        if (!in_place || name != "addend") place(name, *tensor);
    }
    image_.resize(tilewright::round_up(image_.size(), tensor_alignment) + check::guard_band, check::poison);
    move();
    if (in_place) {
        layer_.addend.data = layer_.out.data;
        layer_.addend.device = gpu;
    }
}

void MoeGpuCase::place_packed(const std::string& name, Operand& operand, Tensor& bytes) {
    if (!operand.packed.given()) return;
    bytes = row_major(operand.packed.data, Format::ue8m0, {operand.packed.bytes});
    place(name + ".packed", bytes);
}

void MoeGpuCase::place(const std::string& name, Tensor& tensor) {
    const Placed placed{.name = name,
                        .tensor = &tensor,
                        .offset = tilewright::round_up(image_.size() + check::guard_band, tensor_alignment),
                        .bytes = measure::span_bytes(tensor)};
    image_.resize(placed.offset + placed.bytes, check::poison);
    if (placed.bytes > 0) std::memcpy(image_.data() + placed.offset, tensor.data, placed.bytes);
    placed_.push_back(placed);
}

void MoeGpuCase::move() {
    memory_ = measure::Buffer(image_.size());
    memory_.upload(image_.data(), image_.size());
    for (const Placed& placed : placed_) {
        placed.tensor->data = memory_.data() + placed.offset;
        placed.tensor->device = gpu;
    }
    for (const auto& [operand, bytes] : {std::pair{&layer_.up, packed_up_}, std::pair{&layer_.down, packed_down_}}) {
        if (!bytes.given()) continue;
        operand->packed.data = bytes.data;
        operand->packed.device = gpu;
    }
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
}

std::vector<std::byte> MoeGpuCase::output() const {
    std::vector<std::byte> bytes(placed_output().bytes);
    memory_.download(bytes.data(), bytes.size(), placed_output().offset);
    return bytes;
}

std::string MoeGpuCase::damage() const {
    std::vector<std::byte> now(image_.size());
    memory_.download(now.data(), now.size());
    for (const Placed& placed : placed_) {
        if (placed.tensor != &workspace_ && placed.tensor != placed_output().tensor) continue;
        std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(placed.offset), placed.bytes,
                    now.begin() + static_cast<std::ptrdiff_t>(placed.offset));
    }
    const auto changed = std::mismatch(now.begin(), now.end(), image_.begin()).first;
    if (changed == now.end()) return "";
    const auto at = static_cast<std::size_t>(changed - now.begin());
    for (const Placed& placed : placed_) {
        if (at >= placed.offset + placed.bytes) continue;
        if (at < placed.offset) return fmt::format("{} bytes before {} were written", placed.offset - at, placed.name);
        return fmt::format("{}, an input, was written at byte {}", placed.name, at - placed.offset);
    }
    return "the guard band after " + placed_.back().name + " was written";
}

}  // namespace tilewright::verify
