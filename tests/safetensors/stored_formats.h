// Small files of any format for tests, and what is read from them.
#pragma once

#include <gtest/gtest.h>

#include "formats/element.h"
#include "safetensors/checkpoint_tests.h"

namespace tilewright::safetensors {

inline double load(const FileTensor& tensor, Format format, std::size_t i) {
    return formats::load(tensor.bytes.data(), format, static_cast<std::int64_t>(i));
}

/// A folder with these tensors in one file and this config.json.
inline std::string folder_with(const test::TemporaryFolder& folder, const std::vector<FileTensor>& tensors,
                               const std::string& config) {
    std::string path = folder.file("model");
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    write_shard(path + "/model.safetensors", tensors);
    if (!config.empty()) test::write_file(path + "/config.json", config);
    return path;
}

inline FileTensor scales_of(const std::string& name, const std::string& dtype, const std::vector<int>& shape) {
    if (dtype == "F32") return floats(name, shape, {0.25F, 1.5F, 0.01F, 3.0F, 0.7F});
    if (dtype == "I32") return {name, dtype, shape, std::string(element_count(shape) * 4, '\0')};
    if (dtype == "F8_E8M0" || dtype == "U8") return random_bytes(name, dtype, shape, 120, 130);
    FileTensor scales{name, dtype, shape, std::string(element_count(shape) * 2, '\0')};
    for (std::size_t i = 0; i < element_count(shape); ++i) {
        formats::store(scales.bytes.data(), dtype == "F16" ? Format::f16 : Format::bf16, static_cast<std::int64_t>(i),
                       0.125 * static_cast<double>(i % 9 + 1));
    }
    return scales;
}

inline Format format_of_scales(const std::string& dtype) {
    return dtype == "U8" ? Format::ue8m0 : format_of(dtype).value();
}

/// The only matrix of a checkpoint that is not unquantized.
inline StoredMatrix only(const Checkpoint& checkpoint) {
    const StoredMatrices found = stored_matrices(checkpoint);
    for (const UnreadableMatrix& one : found.unreadable) throw std::runtime_error(one.finding.message());
    for (const StoredMatrix& matrix : found.matrices) {
        if (matrix.scheme != "unquantised") return matrix;
    }
    throw std::runtime_error("no matrix");
}

/// The numbers by ranges of rows, as conversions read them.
inline std::vector<float> by_ranges(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    std::vector<float> all;
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        for (std::int64_t row = 0; row < matrix.n; row += 128) {
            const std::int64_t rows = std::min<std::int64_t>(128, matrix.n - row);
            const LoadedRows loaded(checkpoint, matrix, group, row, rows);
            std::vector<float> some(static_cast<std::size_t>(rows * matrix.k));
            dequantize(loaded.operand(), row_major(some.data(), Format::f32, {rows, matrix.k}));
            all.insert(all.end(), some.begin(), some.end());
        }
    }
    return all;
}

}  // namespace tilewright::safetensors
