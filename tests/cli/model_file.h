// A safetensors file for tests of the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output/temporary_folder.h"
#include "safetensors/safetensors.h"

namespace tilewright::test {

/// A file with one f32 matrix of `rows` x 1024 random-looking numbers.
inline std::string write_model(const TemporaryFolder& folder, std::uint64_t rows) {
    std::string path = folder.file("model.safetensors");
    safetensors::SafetensorsWriter writer(path, {{.name = "w", .dtype = "F32", .shape = {rows, 1024}}}, {});
    std::vector<float> row(1024);
    for (std::uint64_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>((r * 31 + i * 17) % 251) - 125.0F;
        writer.write("w", r * 4096, row.data(), 4096);
    }
    writer.commit();
    return path;
}

}  // namespace tilewright::test
