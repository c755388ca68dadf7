// The least work of a call, and the least time that a device needs for it.
#pragma once

#include "problem/geometry.h"

#include <string>

namespace tilewright::bench {

struct Work {
    double flops = 0;  // 2 m n k over the existing rows and contractions
    double bytes = 0;  // each value and scale that is read once, D written once, C read once
};

Work compulsory_work(const Geometry& geometry);

/// The peak rates of a device.
struct Peaks {
    double flops_per_second = 0;
    double bytes_per_second = 0;
    std::string source{};  // how they are known

    double floor_seconds(const Work& work) const;
};

/// Measured once per process: the fastest of some sgemm calls, and of some copies of 256 MiB (read plus write).
/// OpenBLAS computes sgemm; without OpenBLAS this library's f32 product does.
const Peaks& cpu_peaks();

}  // namespace tilewright::bench
