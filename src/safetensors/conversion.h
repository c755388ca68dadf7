// What a conversion of a checkpoint will write, decided before it writes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "safetensors/convert.h"

namespace tilewright::safetensors {

inline constexpr const char* digest_key = "tilewright.conversion";

/// A file of the output: what goes into it.
struct OutputShard {
    std::string name{};
    std::string path{};
    std::vector<const StoredMatrix*> matrices{};
    std::vector<const Checkpoint::Tensor*> copied{};
    std::vector<StoredTensor> outputs{};
    std::string digest{};
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
    std::vector<OutputShard> shards{};
    ConvertResult result{};
    std::uint64_t total_bytes = 0;
    std::uint64_t done_bytes = 0;

    explicit Conversion(const ConvertJob& given)
        : job(given), checkpoint(given.input), found(stored_matrices(checkpoint)) {}

    OperandRecipe recipe_for(const StoredMatrix& matrix) const { return job.recipe.value_or(matrix.recipe); }
    void report(std::uint64_t bytes, const std::string& what) {
        done_bytes += bytes;
        if (job.progress) job.progress(std::min(done_bytes, total_bytes), total_bytes, what);
    }
};

/// Where a file of the output is; `file` is its name in a folder.
std::string output_path(const Conversion& conversion, const std::string& file);

/// As the input has; one of an earlier run is written again.
bool has_index(const Conversion& conversion);

/// Which tensors are consumed by matrices that are converted and which are copied, to which files.
void distribute(Conversion& conversion);

/// Before anything is written: throws std::runtime_error for an output of which any file is one of the input's, is no
/// regular file or is another one of the output's, and for one with too little room.
void refuse_output(const Conversion& conversion);
void refuse_full_disk(const Conversion& conversion);

}  // namespace tilewright::safetensors
