// Decodes values of any format into tiles of floats, each times its scale: the first half of every fast product. A tile
// is stored along k or along the rows, whatever the layout of the operand.
#pragma once

#include <tilewright/formats.h>

#include <cstddef>
#include <cstdint>

namespace tilewright::cpu {

/// The largest k of one job.
inline constexpr int decode_k_limit = 512;

/// Memory that a job needs: the rows of the widest vector, in the widest format.
inline constexpr int decode_scratch_bytes = 16 * decode_k_limit * 4;

/// Rows (of a logical [rows, k] operand) x k_count, to be written to out[row * out_row_stride + k * out_k_stride].
struct DecodeJob {
    const void* values = nullptr;
    Format format = Format::e4m3;
    const std::int64_t* rows = nullptr;  // row numbers; null: first_row, first_row + 1, ...
    std::int64_t first_row = 0;
    int row_count = 0;
    std::int64_t base = 0;  // element index of row 0 at the first k
    std::int64_t row_stride = 0;
    std::int64_t k_stride = 0;
    int k_count = 0;  // at most decode_k_limit

    /// The scale of the tile's row r and k is scales[r + k / k_block * scale_stride]. It includes the level's gain for
    /// the format. The first k begins a block, whose length is a multiple of 16. k_block 0: one scale for all k.
    const float* scales = nullptr;
    int scale_stride = 0;
    int k_block = 0;

    /// One of the strides is 1. Along the rows, whole vectors are written: up to the next multiple of the level's
    /// vector, with zeros in rows beyond row_count.
    float* out = nullptr;
    std::int64_t out_row_stride = 0;
    std::int64_t out_k_stride = 0;

    // decode_scratch_bytes, for rows with gaps along k; its contents may be anything.
    std::byte* scratch = nullptr;
};

/// The numbers of all codes of an 8-bit (256 codes) or 4-bit (16) format; null for others.
const float* code_values(Format format);

// One definition per instruction level. The function decode writes the number times its scale, divided by the gain of
// the format, so that `decode_gain` must be part of the scale.
namespace baseline {
void decode(const DecodeJob& job);
float decode_gain(Format format);
}  // namespace baseline
#if defined(__x86_64__)
namespace avx2 {
void decode(const DecodeJob& job);
float decode_gain(Format format);
}  // namespace avx2
namespace avx512 {
void decode(const DecodeJob& job);
float decode_gain(Format format);
}  // namespace avx512
#endif

}  // namespace tilewright::cpu
