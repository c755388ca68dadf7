#include "verify/rank_on_gpu.h"

#include <algorithm>

#include "check/moe_case.h"
#include "measure/span.h"

namespace tilewright::verify {

RankOnGpu::RankOnGpu(const Moe& part, const ExpertGroup& group) : layer_(part) {
    const bool in_place = part.addend.given() && part.addend.data == part.out.data;
    for (auto& [name, tensor] : check::tensors_of(layer_)) place(*tensor);
    if (in_place) layer_.addend.data = layer_.out.data;
    workspace_ = measure::Buffer(static_cast<std::size_t>(group.workspace_bytes(layer_)));
}

void RankOnGpu::place(Tensor& tensor) {
    const measure::Buffer& memory = buffers_.emplace_back(std::max<std::size_t>(measure::span_bytes(tensor), 1));
    memory.upload(tensor.data, measure::span_bytes(tensor));
    tensor.data = memory.data();
    tensor.device = {.kind = DeviceId::Kind::cuda};
}

void RankOnGpu::synchronize() const {
    cuda::driver().require(cuda::driver().call.stream_synchronize(gpu_.stream()), "cuStreamSynchronize", 0);
}

void RankOnGpu::copy_result(const Tensor& out) const {
    buffers_.back().download(out.data, measure::span_bytes(out));  // out is the last of the layer's tensors
}

}  // namespace tilewright::verify
