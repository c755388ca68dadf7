// The measured chains of tests/data/hopper_mma.bin and hopper_mma_extreme.bin; tests/data/README.md describes the
// files.
#pragma once

#include <tilewright/formats.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::tests {

struct MmaRecord {
    static constexpr int rows = 64;
    static constexpr int columns = 8;
    static constexpr int step_bytes = 32;

    Format a_format = Format::e4m3;
    Format b_format = Format::e4m3;
    int steps = 0;
    std::vector<std::byte> a{};  // [rows][steps * step_bytes]: k runs on through the steps
    std::vector<std::byte> b{};  // [columns][steps * step_bytes]
    std::array<float, rows * columns> c{};
    std::array<float, rows * columns> d{};

    const std::byte* a_row(int row) const { return a.data() + std::ptrdiff_t{row} * steps * step_bytes; }
    const std::byte* b_column(int column) const { return b.data() + std::ptrdiff_t{column} * steps * step_bytes; }
    int products() const { return steps * step_bytes * 8 / bits(a_format); }
    bool starts_from_zero() const;
};

/// All records of a file in tests/data; throws std::runtime_error when it is missing or ends within a record.
std::vector<MmaRecord> read_mma_records(const std::string& file);
inline std::vector<MmaRecord> read_mma_records() { return read_mma_records("hopper_mma.bin"); }
/// Operands and accumulators at the ends of their ranges, and NaN and infinities.
inline std::vector<MmaRecord> read_extreme_records() { return read_mma_records("hopper_mma_extreme.bin"); }

}  // namespace tilewright::tests
