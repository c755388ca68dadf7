// A rank's part of a shared layer on a GPU, with a stream. It lives in the rank's thread.
#pragma once

#include <tilewright/expert_group.h>

#include <vector>

#include "cuda/scopes.h"
#include "measure/device.h"

namespace tilewright::verify {

class RankOnGpu {
public:
    /// Copies all tensors of the part there.
    RankOnGpu(const Moe& part, const ExpertGroup& group);

    const Moe& layer() const { return layer_; }
    void* stream() const { return stream_; }
    Workspace workspace() const { return {workspace_.data(), static_cast<std::int64_t>(workspace_.size())}; }
    /// Waits for the stream only, because kernels of other ranks may wait for this one.
    void synchronize() const;
    /// Copies the result to `out`, in memory of the host.
    void copy_result(const Tensor& out) const;

private:
    void place(Tensor& tensor);

    cuda::ContextScope context_;
    cuda::StreamHandle stream_;
    Moe layer_;
    std::vector<measure::Buffer> buffers_{};
    measure::Buffer workspace_{};
};

}  // namespace tilewright::verify
