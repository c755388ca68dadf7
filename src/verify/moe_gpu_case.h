// A layer of check/moe_case.h on a GPU, as gpu_case.h has it for a product. Its tensors are copied there, each between
// guard bands, and its result is copied back. The device's context must be current in the calling thread.
#pragma once

#include <tilewright/moe.h>

#include <cstddef>
#include <string>
#include <vector>

#include "check/moe_case.h"
#include "measure/device.h"

namespace tilewright::verify {

class MoeGpuCase {
public:
    /// Copies the case in its present state. If the addend is out's memory, it stays so.
    explicit MoeGpuCase(const check::MoeCase& original);

    const Moe& layer() const { return layer_; }
    /// Poisoned memory of workspace_bytes(layer()), between guard bands too.
    Workspace workspace() const { return {workspace_.data, workspace_.given() ? workspace_.shape[0] : 0}; }

    // Wait for the GPU before these.

    /// out from its first element to its last, gaps between rows included.
    std::vector<std::byte> output() const;
    /// Memory other than out and the workspace that was written; empty if none was.
    std::string damage() const;

private:
    struct Placed {
        std::string name;
        Tensor* tensor = nullptr;
        std::size_t offset = 0;
        std::size_t bytes = 0;
    };
    void place(const std::string& name, Tensor& tensor);
    void place_packed(const std::string& name, Operand& operand, Tensor& bytes);
    void move();
    const Placed& placed_output() const { return placed_.back(); }

    Moe layer_;
    Tensor packed_up_, packed_down_;
    Tensor workspace_;
    std::vector<Placed> placed_;    // out is the last
    std::vector<std::byte> image_;  // of all the memory, as it was copied
    measure::Buffer memory_;
};

}  // namespace tilewright::verify
