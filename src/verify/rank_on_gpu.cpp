#include "verify/rank_on_gpu.h"

#include <algorithm>
#include <mutex>

#include "check/moe_case.h"
#include "cuda/runtime.h"
#include "measure/span.h"

namespace tilewright::verify {
namespace {

/// The stream of a rank, the same in all calls of this process. The work of a new stream sometimes begins only when a
/// kernel of another rank has ended. That kernel may wait for this rank. With a stream per call, 10 of some 900 calls
/// ended by the limit of their barrier (H200, 3 ranks).
cuda::StreamHandle stream_of(int rank) {
    static std::mutex mutex;
    static std::vector<cuda::StreamHandle> streams;
    const std::scoped_lock lock(mutex);
    while (std::ssize(streams) <= rank) {
        cuda::StreamHandle made = nullptr;
        cuda::driver().require(cuda::driver().call.stream_create(&made, cuda::non_blocking_stream), "cuStreamCreate",
                               0);
        streams.push_back(made);
    }
    return streams[static_cast<std::size_t>(rank)];
}

}  // namespace

RankOnGpu::RankOnGpu(const Moe& part, const ExpertGroup& group)
    : context_(cuda::runtime().device(0).context()), stream_(stream_of(group.rank())), layer_(part) {
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
    cuda::driver().require(cuda::driver().call.stream_synchronize(stream_), "cuStreamSynchronize", 0);
}

void RankOnGpu::copy_result(const Tensor& out) const {
    buffers_.back().download(out.data, measure::span_bytes(out));  // out is the last of the layer's tensors
}

}  // namespace tilewright::verify
