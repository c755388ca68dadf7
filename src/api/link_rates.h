// The time of bytes between GPUs. Measured on two H100 of one host, whose NVLink has 18 links, with torch 2.11 and NCCL
// 2.28.9. Figures of more ranks are taken from these, by the bytes that a rank receives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tilewright {

/// A barrier of kernels that write to and wait for words in each other's memory, in a CUDA graph. Its launch is
/// included.
inline constexpr double barrier_seconds = 4.5e-6;

/// Reads from another GPU's memory: 64 MiB in 183 us.
inline constexpr double pulled_bytes_per_second = 366e9;

struct MeasuredCollective {
    double received_bytes;  // by a rank
    double seconds;
};
/// NCCL's all-gather; the first two in a CUDA graph. An all-to-all takes as long, within 8 %: 15.3, 57 and 152 us for
/// 0.5, 8 and 32 MiB that a rank receives.
inline constexpr std::array measured_collectives{
    MeasuredCollective{8 * 1024.0, 9.1e-6}, MeasuredCollective{1024 * 1024.0, 19.5e-6},
    MeasuredCollective{16 * 1024 * 1024.0, 94e-6}, MeasuredCollective{64 * 1024 * 1024.0, 294e-6}};

/// Between measured sizes a line. The last one goes on; fewer bytes than measured take no less time.
constexpr double collective_seconds(std::int64_t received_bytes) {
    const auto bytes = static_cast<double>(received_bytes);
    const auto& measured = measured_collectives;
    if (bytes <= measured[0].received_bytes) return measured[0].seconds;
    std::size_t end = 1;
    while (end + 1 < measured.size() && bytes > measured[end].received_bytes) ++end;
    const MeasuredCollective &from = measured[end - 1], &to = measured[end];
    return from.seconds +
           (bytes - from.received_bytes) * (to.seconds - from.seconds) / (to.received_bytes - from.received_bytes);
}

}  // namespace tilewright
