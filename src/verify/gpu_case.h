// A test case of src/check on the GPU: its tensors are copied there, each between guard bands, and its result back.
#pragma once

#include <string>
#include <vector>

#include "check/case.h"
#include "measure/device.h"

namespace tilewright::verify {

/// Whether the Hopper backend takes a call of these shapes, formats and strides, were its tensors on a GPU.
bool taken_by_gpu(Problem problem);

class GpuCase {
public:
    /// Copies the case as it is now. C that is D stays so. Outputs and scales begin at an address that is a multiple of
    /// their element's size and of no more: `shift` elements behind a multiple of 256 bytes.
    GpuCase(check::Case& original, measure::Device& device, std::int64_t shift);

    const Problem& problem() const { return problem_; }

    /// Once the GPU is done: D goes back to the case. What else was written (bands, inputs); empty if nothing was.
    std::string collect();

private:
    struct Placed {
        std::string name;
        Tensor* tensor = nullptr;
        std::size_t offset = 0;
        std::size_t bytes = 0;
    };
    void place(const std::string& name, Tensor& tensor, std::int64_t shift);
    void move_to_device();
    std::string damage_at(std::size_t offset) const;

    check::Case& original_;
    Problem problem_;
    std::vector<Placed> placed_;
    std::vector<std::byte> image_;  // of all the memory, as it was copied
    measure::Buffer memory_;
};

}  // namespace tilewright::verify
