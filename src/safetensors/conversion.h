// The plan of a checkpoint's conversion, made before anything is written.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "safetensors/convert.h"
#include "safetensors/side_files.h"

namespace tilewright::safetensors {

/// A file that already has the name of one of the output's files.
struct EarlierFile {
    bool exists = false;
    bool readable = false;  // as safetensors
    std::string record{};   // empty: no conversion wrote it
    std::string why_not{};  // kept; empty: the file is what would be written
};

/// A file of the output and its contents.
struct OutputShard {
    std::string name{};
    std::string path{};
    std::vector<const StoredMatrix*> matrices{};
    std::vector<const Checkpoint::Tensor*> copied{};
    std::vector<StoredTensor> outputs{};
    std::string record{};  // conversion_record.h
    EarlierFile earlier{};
    bool complete = false;

    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const StoredTensor& tensor : outputs) sum += stored_bytes(tensor.dtype, tensor.shape).value_or(0);
        return sum;
    }
};

struct Conversion {
    const ConvertJob& job;
    Checkpoint checkpoint;
    StoredMatrices found;
    std::vector<FileIdentity> identities{};  // of the input's files, from before their data are read
    SideFiles side{};                        // of a folder
    std::string config{};                    // the output's config.json; empty: there is none
    std::vector<OutputShard> shards{};
    ConvertResult result{};
    std::uint64_t total_bytes = 0;
    std::uint64_t done_bytes = 0;

    explicit Conversion(const ConvertJob& given);

    OperandRecipe recipe_for(const StoredMatrix& matrix) const;
    /// The tensors that are written for a matrix: its values, scales and tensor scale, or its packed bytes.
    std::vector<StoredTensor> outputs_of(const StoredMatrix& matrix) const;
    void report(std::uint64_t bytes, const std::string& what) {
        done_bytes += bytes;
        if (job.progress) job.progress(std::min(done_bytes, total_bytes), total_bytes, what);
    }
};

/// A shape as files have it.
inline std::vector<std::uint64_t> stored_shape(const Dims& shape) { return {shape.begin(), shape.end()}; }

/// Where a file of the output is; `file` is its name in a folder.
std::string output_path(const Conversion& conversion, const std::string& file);

/// Decides which tensors the converted matrices consume, which are copied, and to which files; notes which output
/// exists.
void distribute(Conversion& conversion);

/// Called before anything is written. `refuse_output` throws std::runtime_error for an output file that is not a
/// regular file, is also a file of the input, or has two names. `refuse_full_disk` throws if there is too little free
/// space.
void refuse_output(const Conversion& conversion);
void refuse_full_disk(const Conversion& conversion);

}  // namespace tilewright::safetensors
