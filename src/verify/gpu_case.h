// A test case of src/check on a GPU: its tensors are copied there, each between guard bands, and its result back. The
// device's context must be current in the calling thread.
#pragma once

#include <tilewright/run.h>

#include <cstdint>
#include <string>
#include <vector>

#include "check/case.h"
#include "cuda/driver.h"
#include "measure/device.h"

namespace tilewright::verify {

/// Whether the Hopper backend would accept this call if its tensors were on a GPU.
bool taken_by_gpu(Problem problem);

class GpuCase {
public:
    /// Copies the case in its present state. Weights that kernels read only packed are packed, unless each call must
    /// pack them. If C is D, it stays so. Outputs and scales begin `shift` elements after a multiple of 256 bytes, so
    /// that no address has a higher alignment than the backend requires.
    explicit GpuCase(const check::Case& original, std::int64_t shift = 0, int device = 0, bool packs = true);

    /// With all tensors on the device.
    const Problem& problem() const { return problem_; }
    Problem& problem() { return problem_; }

    /// Poisoned memory of workspace_bytes(problem()), between guard bands too.
    Workspace workspace() const { return {workspace_.data, workspace_.given() ? workspace_.shape[0] : 0}; }

    /// Restores D's contents from the case, or poison, in the stream's order.
    void reset_output() const;
    void poison_output(cuda::StreamHandle stream) const;

    /// Inputs, sizes of groups and D get the contents of another case of the same shapes.
    void take_data(const GpuCase& other);

    // Wait for the GPU before these.

    /// D from its first element to its last, gaps between rows included.
    std::vector<std::byte> output() const;
    /// Memory other than D and the workspace that was written; empty if none was.
    std::string damage() const;

private:
    struct Placed {
        std::string name;
        Tensor* tensor = nullptr;
        std::size_t offset = 0;
        std::size_t bytes = 0;
    };
    void pack_weights_of(const check::Case& original);
    void place_workspace();
    void place(const std::string& name, Tensor& tensor, std::int64_t shift);
    void move_to(int device);
    std::string damage_at(std::size_t offset) const;
    const Placed& placed_output() const { return placed_.back(); }

    Problem problem_;
    OwnedPackedWeights packed_;
    Tensor packed_bytes_;
    Tensor workspace_;
    std::vector<Placed> placed_;    // D is the last
    std::vector<std::byte> image_;  // of all the memory, as it was copied
    measure::Buffer memory_;
};

}  // namespace tilewright::verify
