// Tilewright's call and those of its baselines on a GPU: one after another, each after a flush, or each for seconds on
// end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/result.h"
#include "measure/load.h"

namespace tilewright::bench {

/// Copies B's values into shared memory, where nothing reads them.
class StreamOfB {
public:
    StreamOfB(const measure::Device& device, const Problem& problem);
    void enqueue(cuda::StreamHandle stream);
    /// Throws Error unless all of every call came.
    void check() const;

private:
    const measure::Device& device_;
    Tensor b_;
    measure::Buffer arrived_{sizeof(std::uint64_t)};
    std::uint64_t expected_ = 0;
};

class Contest {
public:
    /// `ours` and the operands must outlive it. `note` gets the reason for a missing baseline.
    Contest(const BenchShape& shape, const Settings& settings, GpuOperands& operands, const measure::Device& device,
            const measure::Call& ours, std::string& note);

    /// Tilewright's first.
    std::vector<Timing> race(measure::Stopwatch& stopwatch, int repeats);
    std::vector<Timing> sustain(const measure::LoadSeconds& length, measure::PowerMeter* meter);

private:
    void add(Peer peer, const char* name, measure::Call call);
    template <typename Plan>
    void add_blas(Peer peer, std::string& note, const Plan& plan);

    const measure::Device& device_;
    std::vector<Peer> peers_;
    std::vector<measure::Contestant> contestants_;  // of these baselines
    std::vector<std::unique_ptr<measure::BlasPlan>> plans_;
    std::optional<StreamOfB> stream_;
};

}  // namespace tilewright::bench
