// What the threads of the arithmetic `fast` do: pack rows of a block, compute a macro-tile.
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
    Blocking& blocking;
    float* buffer = nullptr;  // the packed blocks of the current pass
    Cancellation& cancellation;
};

/// Memory of one thread: about 0.5 MiB, of which the system gives what is written.
struct ThreadMemory {
    explicit ThreadMemory(const FastKernels& kernels);

    std::unique_ptr<float[]> scales;        // folded into what is decoded
    std::unique_ptr<float[]> block_scales;  // of columns, [blocks, output_columns]
    std::unique_ptr<float[]> columns;       // decoded columns along k
    std::unique_ptr<float[]> sums;          // of the macro-tile
    std::unique_ptr<float[]> lane_sums;     // dots: one for each lane
    std::unique_ptr<float[]> products;      // sgemm: of one block of k, before its scales
    std::unique_ptr<double[]> wide;         // see wide.cpp
    std::unique_ptr<std::byte[]> codes;     // gathered by `decode`
};

/// Decodes rows into the buffer. Threads may pack rows of one block at the same time.
void pack_rows(const Call& call, const PackTask& task, ThreadMemory& memory);

/// Packs the columns, multiplies and writes D.
void multiply_tile(const Call& call, const MacroTile& tile, ThreadMemory& memory);

/// Recomputes a macro-tile in double: all of it, or those of its sums that are infinite or NaN. `job` describes the
/// finished fp32 sums.
void write_wide(const Call& call, const MacroTile& tile, ThreadMemory& memory, const OutputJob& job);

inline constexpr int macro_columns_limit = 128;
inline constexpr int wide_columns = 16;
inline constexpr int wide_k = 128;
std::size_t wide_doubles(const FastKernels& kernels);

}  // namespace tilewright::cpu
