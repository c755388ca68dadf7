// Converts the quantized matrices of a checkpoint to another recipe, or packs them, file by file.
//
// A matrix X becomes X (values), X.scales and, for NVFP4, X.tensor_scale, or X.packed, or has the names of a published
// format. All other tensors are copied.
//
// - Each output file has the tensors of the input file of the same name. Scales go to the file of their values, stacked
//   experts to the file of the first expert.
// - A file appears when it is complete. The next run of the same conversion keeps it (conversion_record.h).
// - The other files of a folder are copied (side_files.h).
// - Memory holds one matrix, or one stack.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {

/// Formats that inference engines load (published_format.h).
enum class PublishedFormat { fp8, mxfp4 };

struct ConvertJob {
    std::string input{};
    std::string output{};                   // a folder if the input is one, else a file
    std::optional<OperandRecipe> recipe{};  // nothing: that of each matrix
    std::optional<PackedFor> pack{};
    std::optional<PublishedFormat>
        published{};  // names, description and recipe of the output; neither stacked nor packed
    bool round_up = false;
    bool stack_experts = false;                        // stack_experts.h
    std::function<bool(const std::string&)> wanted{};  // by name
    std::string include{};                             // the source of `wanted`, for the record of the output
    std::string exclude{};
    std::string version{};
    std::function<void(std::uint64_t done, std::uint64_t total, const std::string& what)> progress{};
};

struct ConvertedMatrix {
    std::string name{};
    std::string from{};
    std::string to{};
    double error = 0;  // ||after - before|| / ||before||; 0: the same numbers
};

/// A quantized tensor that is copied unchanged, or all `count` of a pattern (inspect.h).
struct KeptTensors {
    std::string name{};
    std::uint64_t count = 1;
    std::string format{};
    std::vector<std::string> scales{};
    std::string reason{};
};

struct FileAndReason {
    std::string name{};
    std::string reason{};
};

struct ConvertResult {
    std::vector<ConvertedMatrix> matrices{};
    std::uint64_t copied = 0;
    std::vector<KeptTensors> kept{};           // Quantized tensors that were copied.
    std::vector<std::string> kept_files{};     // Complete since an earlier run.
    std::vector<FileAndReason> made_again{};   // Files of an earlier run, or of the same name.
    std::vector<std::string> removed_files{};  // Files of an earlier run that this run does not have.
    std::vector<std::string> copied_files{};   // Files of the folder that are not weights.
    std::vector<FileAndReason> files_not_copied{};
    std::uint64_t input_bytes = 0;
    std::uint64_t output_bytes = 0;
};

/// Throws SafetensorsError for a bad input and std::runtime_error for everything else; files that were complete before
/// stay.
ConvertResult convert(const ConvertJob& job);

/// One matrix in its new recipe, and the error of that. Throws std::runtime_error where a finite number would become
/// NaN or infinite, or the other way.
struct Requantised {
    OwnedOperand operand{};
    double error = 0;
};
Requantised requantised(const Checkpoint& checkpoint, const StoredMatrix& matrix, const OperandRecipe& recipe,
                        bool round_up);

}  // namespace tilewright::safetensors
