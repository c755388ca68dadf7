// The CPU baseline: OpenBLAS's sgemm on operands that were dequantized to f32 before the clock starts.
#pragma once

#include "problem/geometry.h"

#include <vector>

namespace tilewright::bench {

class BlasPeer {
public:
    /// Dequantizes; needs 4 bytes for each element of both operands and of D.
    BlasPeer(const Geometry& geometry, int threads);

    /// Multiplies all GEMMs.
    void run();

    /// Bytes that the constructor would allocate.
    static double bytes(const Geometry& geometry);

private:
    struct Product {
        int rows = 0;
        int k = 0;
        std::size_t a = 0;  // offsets into a_, b_, d_
        std::size_t b = 0;
        std::size_t d = 0;
    };

    int n_ = 0;
    int threads_ = 0;
    std::vector<float> a_;
    std::vector<float> b_;
    std::vector<float> d_;
    std::vector<Product> products_;
};

}  // namespace tilewright::bench
