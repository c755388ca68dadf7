// The contents of a checkpoint: matrices with their formats. For MXFP4 also the range of exponents in a row, which
// decides its arithmetic (docs/numerics.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {

/// The exponents of MXFP4 weights, or of several matrices together.
struct ExponentStatistics {
    std::uint64_t rows = 0;
    std::uint64_t wide_for_fp8 = 0;   // Exponents more than 11 apart.
    std::uint64_t wide_for_bf16 = 0;  // More than 120.
    std::uint64_t nan = 0;            // Rows with a scale that is NaN.
    int row_difference = 0;           // The largest of all rows.
    int block_difference = 0;         // Within any 128 k-elements of a row.

    void add(const ExponentStatistics& other);
};

struct InspectedMatrix {
    StoredMatrix matrix{};
    bool has_exponents = false;
    ExponentStatistics exponents{};
};

InspectedMatrix inspect_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix);

/// A line of the report: matrices whose names differ in numbers only, and that are alike otherwise.
struct InspectedClass {
    std::string pattern{};  // numbers as *
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    InspectedMatrix first{};
    ExponentStatistics exponents{};
};
std::vector<InspectedClass> inspected_classes(const std::vector<InspectedMatrix>& matrices);

/// A line for each kind of matrix that cannot be read, as above, or for each one.
std::vector<std::string> unreadable_lines(const StoredMatrices& found, bool each);

/// The last words of the names of a quantized matrix's tensors, in brackets of those that are not read:
/// "weight, weight_scale (input_scale)".
std::string tensor_words(const StoredMatrix& matrix);

/// "model.layers.*.mlp"
std::string name_pattern(const std::string& name);

}  // namespace tilewright::safetensors
