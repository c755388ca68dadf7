// The ranks over which a layer of experts is spread: processes or threads, each with a GPU or on the CPU.
//
// A group needs a piece of memory of each rank, and two collectives over these pieces. If there are addresses of the
// other ranks' pieces, kernels read and write there. Whoever has ranks has an engine for that: NCCL, gloo or MPI.
// `Ranks` is what a layer asks of it. Nothing here connects processes.
#pragma once

#include <tilewright/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tilewright {

inline constexpr int most_ranks = 512;
inline constexpr int most_ranks_with_addresses = 16;

/// A rank's view of its group. Every function is called by all ranks, in the same order. Offsets count bytes within a
/// rank's piece of memory and are multiples of 128. Offsets and sizes are equal on all ranks.
class Ranks {
public:
    virtual ~Ranks() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual DeviceId device() const = 0;
    /// The engine, for messages: "threads of this process", "NCCL 2.28.9".
    virtual std::string engine() const = 0;

    /// Brings `bytes` bytes of each rank to all, in memory of the host: all[r * bytes ...]. Waits for them. For few
    /// bytes when a group is made.
    virtual void share(const void* own, void* all, std::int64_t bytes) = 0;

    /// This rank's piece of memory, of zeros, at a multiple of 128. Called once. It lives as long as the object.
    virtual void* allocate(std::int64_t bytes) = 0;
    /// The pieces of all ranks in their order, as this rank's device loads and stores them. Empty: there are none, and
    /// data travel in collectives only. Called after `allocate`.
    virtual std::vector<void*> addresses() = 0;

    // The bytes that are sent and those that are received lie apart.
    /// Rank r's bytes [from, from + bytes) come to [to + r * bytes, to + (r + 1) * bytes) of every rank. On a GPU: in
    /// the order of a stream, which may be capturing.
    virtual void all_gather(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) = 0;
    /// Each rank sends a part of `bytes` bytes to every rank. Part i begins at from + i * bytes and goes to rank i. The
    /// part from rank r arrives at to + r * bytes.
    virtual void all_to_all(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) = 0;
};

/// Ranks that are threads of this process: all on the CPU, or all on one GPU. Element r is for thread r. On a GPU every
/// thread has a stream, which it keeps, and its first call is one of a group whose `seconds` are 1e-9. Kernels are then
/// loaded, and streams in use, before any kernel waits for another rank.
std::vector<std::unique_ptr<Ranks>> ranks_of_threads(int size, const DeviceId& device = {});

/// The functions of an engine that the caller has, such as MPI.
struct RankFunctions {
    int rank = 0;
    int size = 1;
    DeviceId device{};
    std::string engine = "functions of the caller";
    /// As the members of `Ranks` with these names. `addresses` may be empty.
    std::function<void(const void* own, void* all, std::int64_t bytes)> share{};
    std::function<void*(std::int64_t bytes)> allocate{};
    std::function<std::vector<void*>()> addresses{};
    using Collective = std::function<void(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream)>;
    Collective all_gather{};
    Collective all_to_all{};
};
/// Throws Error for a rank outside of the group or a function that is missing.
std::unique_ptr<Ranks> ranks_of_functions(RankFunctions functions);

/// The ranks of an ncclComm_t, which stays the caller's. NCCL is the copy that the process has loaded, or else
/// libnccl.so.2. Addresses are CUDA IPC handles that travel through the communicator, where all ranks are on one host
/// and their GPUs reach each other. `stream`: for the calls of `allocate` and `addresses`, which wait for it.
/// Throws Error if NCCL is missing, is older than 2.7 (ncclSend), or reports an error.
std::unique_ptr<Ranks> ranks_of_nccl(void* communicator, void* stream = nullptr);

}  // namespace tilewright
