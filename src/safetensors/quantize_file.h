// Quantizes the matrices of a safetensors file into another file, a block of rows at a time.
//
// - A 2-D tensor X [rows, k] or 3-D tensor X [groups, rows, k] of F32, BF16 or F16 is quantized. It becomes X (the
//   values), X.scales and, for NVFP4, X.tensor_scale, in the shapes that tilewright::Operand documents.
// - All other tensors are copied. These include quantized tensors and their scales (quantised_tensors.h).
// - Memory holds one block of rows, or one matrix where all rows share a scale (tensor, 1x16).
#pragma once

#include <tilewright/quantize.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "safetensors/safetensors.h"

namespace tilewright::safetensors {

struct QuantizeJob {
    std::string input{};
    std::string output{};
    QuantizeOptions options{};
    std::function<bool(const std::string&)> wanted{};  // by name
    std::string version{};
    std::uint64_t block_bytes = std::uint64_t{32} << 20;  // of input in memory at a time, at least 128 rows
    std::function<void(std::uint64_t done, std::uint64_t total, const std::string& tensor)> progress{};
};

struct Kept {
    std::string name{};
    std::string reason{};
};

struct QuantizeResult {
    std::uint64_t quantized = 0;
    std::uint64_t copied = 0;
    std::uint64_t input_bytes = 0;
    std::uint64_t output_bytes = 0;
    std::vector<Kept> kept{};  // quantized already, or wanted but without a way to quantize them
};

/// Throws SafetensorsError for a bad input and std::runtime_error for everything else; then nothing is written.
QuantizeResult quantize_file(const QuantizeJob& job);

}  // namespace tilewright::safetensors
