// Kernels that each measure one property of a GPU, for its device file: how fast memory and L2 are, and what an empty
// kernel takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "measure/device.h"

namespace tilewright::measure {

/// A copy of global memory into shared memory by TMA, where nothing reads it.
struct ProbeStream {
    static constexpr std::int64_t chunk_bytes = 16384;
    static constexpr int most_depth = 12;

    int blocks = 1;               // at most one per SM; each reads every blocks-th chunk
    int depth = most_depth;       // chunks that each block has in flight
    std::int64_t chunks = 0;      // of the memory that is read, at least `blocks`
    std::int64_t all_chunks = 0;  // that are read: more than `chunks` reads the same ones again

    double bytes() const { return static_cast<double>(all_chunks * chunk_bytes); }
};

/// The PTX of the kernels. Waits end after a number of tries.
const std::string& probes_ptx();

class Probes {
public:
    explicit Probes(const Device& device);

    /// Throws Error if `from` is too small for the chunks.
    void enqueue_stream(const Buffer& from, const ProbeStream& shape, cuda::StreamHandle stream);
    /// As many bytes as the smaller of the two has.
    void enqueue_copy(const Buffer& from, const Buffer& to, cuda::StreamHandle stream) const;
    /// A kernel of one block per SM that does nothing.
    void enqueue_nothing(cuda::StreamHandle stream) const;

    /// How many clusters of two blocks run at once, each block with nearly all shared memory of an SM. Nothing if the
    /// driver cannot say.
    std::optional<int> pairs_at_once() const;

    /// Waits, and throws Error unless all chunks of all streams have come.
    void check() const;

private:
    cuda::FunctionHandle function(const char* name, int shared_bytes) const;
    void enqueue(cuda::FunctionHandle kernel, int blocks, unsigned threads, unsigned shared_bytes, void** arguments,
                 cuda::StreamHandle stream) const;

    const Device& device_;
    cuda::LibraryHandle library_ = nullptr;
    cuda::FunctionHandle stream_ = nullptr;
    cuda::FunctionHandle copy_ = nullptr;
    cuda::FunctionHandle nothing_ = nullptr;
    Buffer arrived_;
    std::uint64_t expected_ = 0;
};

}  // namespace tilewright::measure
