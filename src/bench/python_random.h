// Python's random.random(), so that group sizes equal those of benchmarks/contest.py.
#pragma once

#include <cstdint>
#include <random>

namespace tilewright::bench {

/// The Mersenne Twister as `random.seed(integer)` starts it (CPython's init_by_array, after M. Matsumoto's).
class PythonRandom {
public:
    explicit PythonRandom(std::uint32_t seed);

    /// In [0, 1), of 53 bits.
    double next();

private:
    std::mt19937 engine_;
};

}  // namespace tilewright::bench
