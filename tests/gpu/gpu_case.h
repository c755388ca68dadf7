// A test case on a GPU with what the CPU's `bit_exact` arithmetic makes of it: results are compared byte for byte.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/case.h"
#include "cuda/driver.h"
#include "verify/gpu_case.h"

namespace tilewright::test {

/// The device's primary context is current in this thread while this lives.
class CurrentDevice {
public:
    explicit CurrentDevice(int device = 0);
    ~CurrentDevice();
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;
};

class Stream {
public:
    Stream();
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    cuda::StreamHandle handle() const { return handle_; }
    void wait() const;

private:
    cuda::StreamHandle handle_ = nullptr;
};

class GpuCase {
public:
    /// `k_splits`: where the tile that will run splits k (planner::k_splits); without them, those of the planner.
    /// `packs`: MXFP4 weights before, not at each call.
    explicit GpuCase(const check::CaseSpec& spec, const std::optional<std::vector<std::int64_t>>& k_splits = {},
                     int device = 0, bool packs = true);

    /// With all tensors on the device.
    const Problem& problem() const { return on_gpu_.problem(); }
    Problem& problem() { return on_gpu_.problem(); }
    Workspace workspace() const { return on_gpu_.workspace(); }
    Geometry geometry() const { return tilewright::geometry(problem()); }

    /// D as it was before the first run.
    void reset() const { on_gpu_.reset_output(); }
    /// D poisoned, in the stream's order.
    void poison_output(cuda::StreamHandle stream) const { on_gpu_.poison_output(stream); }

    /// Inputs, sizes of groups and the expected result become those of another case of the same shapes; D is reset.
    void take_data(const GpuCase& other);

    // Wait for the GPU before these.

    /// What differs from the CPU's bits, or was written though it must not be; empty if nothing.
    std::string difference() const;
    std::vector<std::byte> output() const { return on_gpu_.output(); }
    /// Whether D alone, which must have no gaps, is as the CPU has it.
    bool output_is_right() const { return output() == expected_; }

private:
    check::Case case_;
    verify::GpuCase on_gpu_;
    std::vector<std::byte> expected_;  // D
};

/// Runs it with the tile that the library chooses, on the default stream, and waits. What differs, as GpuCase says it.
std::string run_and_compare(const check::CaseSpec& spec, bool packs = true);

/// The same of packed weights that are expanded before; an answer too if they are not.
std::string run_expanded_and_compare(const check::CaseSpec& spec);

/// `run_and_compare` for many cases, one on each core of the host at a time; stops at the first that differs.
std::string run_and_compare(const std::vector<check::CaseSpec>& specs);

/// One case on 1, 2, 77 and 131 SMs, one after another; stops at the first number of them that differs.
std::string run_on_few_sms(const check::CaseSpec& spec);

}  // namespace tilewright::test
