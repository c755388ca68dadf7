// The baseline of every table: NVIDIA's cuBLASLt, opened at run time, on the same operands.
#pragma once

#include <tilewright/formats.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
    const void* a_scales = nullptr;  // f32: one; in blocks: [k / 128, m], m contiguous.
    const void* b_scales = nullptr;  // f32: one; in blocks: [n / 128, k / 128 rounded up to 4], k contiguous.
};

enum class BlasScaling {
    tensor,  // one factor for each operand, fast accumulation: as torch._scaled_mm(use_fast_accum=True) calls it
    blocks,  // 1x128 for A, 128x128 for B
};

/// D [m, n] = A [m, k] B [n, k]^T, row-major; device pointers.
struct BlasGroup {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    std::int64_t pitch_of_a = 0;  // elements from a row to the next
    std::int64_t pitch_of_b = 0;
};

/// Products whose sizes and addresses cuBLASLt reads on the GPU; bf16 output.
struct BlasGroups {
    Format values = Format::e4m3;  // or bf16
    std::vector<BlasGroup> groups{};
    const void* a_scale = nullptr;  // e4m3: one f32, of all groups
    const void* b_scale = nullptr;
};

/// The heuristic's first algorithm for one product.
class BlasPlan {
public:
    virtual ~BlasPlan() = default;
    virtual void enqueue(cuda::StreamHandle stream) = 0;
};

/// Throws Error where cuBLASLt is not found, or has nothing for this product.
std::unique_ptr<BlasPlan> plan_blas(const BlasProduct& product, BlasScaling scaling);

/// Throws Error where this cuBLASLt has no product of groups whose sizes it reads on the GPU.
void require_grouped_blas();

/// Fast accumulation where the values are e4m3. Throws Error too where there is none for this GPU.
std::unique_ptr<BlasPlan> plan_blas(const BlasGroups& product);

/// "13.0.0"; empty where cuBLASLt is not found.
std::string blas_lt_version();

}  // namespace tilewright::measure
