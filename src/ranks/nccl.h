// Ranks of an NCCL communicator, on a given NCCL and driver: what `ranks_of_nccl` makes with those of the process.
#pragma once

#include <tilewright/ranks.h>

#include <cstdint>
#include <memory>

#include "ranks/nccl_library.h"

namespace tilewright::ranks {

/// The host and the process of a rank. Equal places mean the same host, the same process.
struct Place {
    char host[112] = {};        // the boot's id and the host's name
    std::uint64_t process = 0;  // its number, which only its namespace knows it by
    std::uint64_t key = 0;      // drawn at random, because containers reuse numbers

    bool is_on_host_of(const Place& other) const;
    bool is_in_process_of(const Place& other) const;
};
Place this_place();

/// The parts of an engine; NCCL and driver outlive it.
struct NcclParts {
    const Nccl& nccl;
    const cuda::Driver& driver;
    Communicator communicator = nullptr;
    cuda::StreamHandle stream = nullptr;  // of `allocate` and `addresses`
    Place place = this_place();
};
std::unique_ptr<Ranks> ranks_of_parts(const NcclParts& parts);

}  // namespace tilewright::ranks
