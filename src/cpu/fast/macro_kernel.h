// The two kinds of work that threads of the fast backend take: decoding rows of a part, multiplying columns of one.
#pragma once

#include "base/threads.h"
#include "cpu/fast/blocking.h"
#include "cpu/fast/output.h"

#include <cstddef>
#include <memory>

namespace tilewright::cpu {

/// What all threads of a call share.
struct Call {
    const Geometry& geometry;
    const FastKernels& kernels;
    Work& work;
    float* buffer = nullptr;  // the decoded rows of the present chunk
    Cancellation& cancellation;
};

/// Memory of one thread: about 0.5 MiB, touched as far as it is used.
struct ItemMemory {
    explicit ItemMemory(const FastKernels& kernels);

    std::unique_ptr<float[]> scales;        // folded into what is decoded
    std::unique_ptr<float[]> block_scales;  // of columns, [blocks, output_columns]
    std::unique_ptr<float[]> columns;       // decoded columns along k
    std::unique_ptr<float[]> sums;          // of an item
    std::unique_ptr<float[]> lane_sums;     // dots: one for each lane
    std::unique_ptr<float[]> products;      // sgemm: of one block of k, before its scales
    std::unique_ptr<double[]> wide;         // see fast_wide.cpp
};

/// Decodes rows into the chunk's buffer. Threads may run units of one part at the same time.
void decode_rows(const Call& call, const DecodeUnit& unit, ItemMemory& memory);

/// Multiplies and writes D.
void multiply_item(const Call& call, const Item& item, ItemMemory& memory);

/// Recomputes an item in double: all of it, or those of its sums that are infinite or NaN. `job` describes the
/// finished fp32 sums.
void write_wide(const Call& call, const Item& item, ItemMemory& memory, const OutputJob& job);

inline constexpr int item_columns_limit = 128;
inline constexpr int wide_columns = 16;
inline constexpr int wide_k = 128;
std::size_t wide_doubles(const FastKernels& kernels);

}  // namespace tilewright::cpu
