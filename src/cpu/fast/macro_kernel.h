// The work of the threads of the arithmetic `fast`: they pack rows of a block and compute macro-tiles.
#pragma once

#include "base/threads.h"
#include "cpu/fast/blocking.h"
#include "cpu/fast/output.h"

#include <cstddef>
#include <memory>

namespace tilewright::cpu {

/// The data that all threads of a call share.
struct Call {
    const Geometry& geometry;
    const FastKernels& kernels;
    Blocking& blocking;
    float* buffer = nullptr;  // the packed blocks of the current pass
    Cancellation& cancellation;
};

/// Memory of one thread: about 0.5 MiB, of which the system provides only the pages that are written.
struct ThreadMemory {
    explicit ThreadMemory(const FastKernels& kernels);

    std::unique_ptr<float[]> scales;        // Scales that are folded into decoded values.
    std::unique_ptr<float[]> block_scales;  // Block scales of columns, [blocks, output_columns].
    std::unique_ptr<float[]> columns;       // Decoded columns along k.
    std::unique_ptr<float[]> sums;          // Sums of the macro-tile.
    std::unique_ptr<float[]> lane_sums;     // dots: one sum per lane.
    std::unique_ptr<float[]> products;      // sgemm: products of one block of k, without its scales.
    std::unique_ptr<double[]> wide;         // For wide.cpp.
    std::unique_ptr<std::byte[]> codes;     // Codes that `decode` gathers.
};

/// Decodes rows into the buffer. Threads may pack rows of one block at the same time.
void pack_rows(const Call& call, const PackTask& task, ThreadMemory& memory);

/// Packs the columns, multiplies and writes D.
void multiply_tile(const Call& call, const MacroTile& tile, ThreadMemory& memory);

/// Recomputes a macro-tile in double: all of it, or only the sums that are infinite or NaN. `job` describes the
/// finished fp32 sums.
void write_wide(const Call& call, const MacroTile& tile, ThreadMemory& memory, const OutputJob& job);

inline constexpr int macro_columns_limit = 128;
inline constexpr int wide_columns = 16;
inline constexpr int wide_k = 128;
std::size_t wide_doubles(const FastKernels& kernels);

}  // namespace tilewright::cpu
