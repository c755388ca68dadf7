// NCCL, found at run time: one typed table of the entry points that ranks use, and their errors.
// Names and values are those of nccl.h, 2.7 to 2.28; its enumerations are ints.
#pragma once

#include <cstddef>
#include <string>

#include "cuda/driver.h"
#include "cuda/probe.h"

namespace tilewright::ranks {

using Communicator = struct NcclCommunicator*;  // ncclComm_t

inline constexpr int nccl_in_progress = 7;  // ncclResult_t of a communicator that does not block, from 2.14
inline constexpr int nccl_bytes = 1;        // ncclUint8

struct NcclCalls {
    int (*version)(int*) = nullptr;
    const char* (*error_string)(int) = nullptr;
    const char* (*last_error)(Communicator) = nullptr;  // null before 2.13
    int (*count)(Communicator, int*) = nullptr;
    int (*rank)(Communicator, int*) = nullptr;
    int (*device)(Communicator, int*) = nullptr;
    int (*state)(Communicator, int*) = nullptr;  // ncclCommGetAsyncError
    int (*all_gather)(const void*, void*, std::size_t, int, Communicator, cuda::StreamHandle) = nullptr;
    int (*send)(const void*, std::size_t, int, int, Communicator, cuda::StreamHandle) = nullptr;
    int (*receive)(void*, std::size_t, int, int, Communicator, cuda::StreamHandle) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
};

class Nccl {
public:
    /// Throws Error that names the missing part and the remedy.
    explicit Nccl(const cuda::OpenLibrary& library);

    /// "NCCL 2.28.9".
    const std::string& name() const { return name_; }

    /// `who`: the rank. Throws Error with the call, NCCL's name of the error and its last message.
    [[noreturn]] void fail(int result, const std::string& who, const char* what, Communicator communicator) const;

    NcclCalls call;

private:
    std::string name_;
};

/// NCCL as this process has it, because communicators belong to the copy that made them. In this order:
///
/// - libnccl.so.2 if it is loaded, such as torch's copy
/// - what the program exports, if NCCL is linked into it
/// - libnccl.so.2 where the loader finds it
///
/// Opened on first use.
const Nccl& nccl();

/// Says which library `nccl` would open, for a report. Does not throw if there is none.
cuda::Library probe_nccl();
cuda::Library probe_nccl(const cuda::OpenLibrary& library);

}  // namespace tilewright::ranks
