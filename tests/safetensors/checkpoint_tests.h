// What tests of checkpoints do with the files of checkpoint_files.h: write, find, dequantise, convert.
#pragma once

#include <tilewright/quantize.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "safetensors/checkpoint_files.h"
#include "safetensors/convert.h"

namespace tilewright::safetensors {

inline std::string single(const test::TemporaryFolder& folder, const std::vector<FileTensor>& tensors) {
    std::string path = folder.file("model.safetensors");
    write_shard(path, tensors);
    return path;
}

inline const StoredMatrix& find(const StoredMatrices& found, const std::string& name) {
    for (const StoredMatrix& matrix : found.matrices) {
        if (matrix.name == name) return matrix;
    }
    throw std::runtime_error(name + " is missing");
}

inline std::vector<float> numbers(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    std::int64_t count = 1;
    for (const std::int64_t size : matrix.shape()) count *= size;
    std::vector<float> out(static_cast<std::size_t>(count));
    dequantize(load_matrix(checkpoint, matrix), row_major(out.data(), Format::f32, matrix.shape()));
    return out;
}

inline std::string bytes_of(const Checkpoint& checkpoint, const std::string& name) {
    const Checkpoint::Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr) throw std::runtime_error(name + " is missing");
    std::string data(tensor->stored.bytes(), '\0');
    checkpoint.read(*tensor, 0, data.data(), data.size());
    return data;
}

inline ConvertJob job(const std::string& input, const std::string& output, const char* recipe) {
    ConvertJob made{
        .input = input, .output = output, .wanted = [](const std::string&) { return true; }, .version = "test"};
    if (recipe != nullptr) made.recipe = parse_operand_recipe(recipe);
    return made;
}

/// The bytes of all regular files of a folder, by name.
inline std::map<std::string, std::string> contents(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.is_regular_file()) files[entry.path().filename().string()] = test::read_file(entry.path().string());
    }
    return files;
}

/// What `convert` throws; empty where it does not.
inline std::string refusal(const ConvertJob& refused) {
    try {
        convert(refused);
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

}  // namespace tilewright::safetensors
