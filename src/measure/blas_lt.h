// The peer that every table is held against: NVIDIA's cuBLASLt, opened at run time, on the same operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "measure/device.h"

namespace tilewright::measure {

/// D [m, n] = A [m, k] B [n, k]^T, row-major, e4m3 operands, bf16 output; device pointers.
struct BlasProduct {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    const void* a_scales = nullptr;  // f32: one; in blocks: [k / 128, m], m contiguous
    const void* b_scales = nullptr;  // f32: one; in blocks: [n / 128, k / 128 rounded up to 4], k contiguous
};

enum class BlasScaling {
    tensor,  // one factor for each operand, fast accumulation: as torch._scaled_mm(use_fast_accum=True) calls it
    blocks,  // 1x128 for A, 128x128 for B
};

/// The heuristic's first algorithm for one product.
class BlasPlan {
public:
    virtual ~BlasPlan() = default;
    virtual void enqueue(cuda::StreamHandle stream) = 0;
};

/// Throws Error where cuBLASLt is not found, or has nothing for this product.
std::unique_ptr<BlasPlan> plan_blas(const BlasProduct& product, BlasScaling scaling);

/// "13.0.0"; empty where cuBLASLt is not found.
std::string blas_lt_version();

}  // namespace tilewright::measure
