// Compiled kernels in a folder, one file each. Many processes may read and write the folder at once. A damaged file
// counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/compiler.h"

namespace tilewright::cuda {

class DiskCache {
public:
    /// With an empty folder name nothing is kept.
    explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

    std::optional<CompiledKernel> load(const std::string& key) const;

    /// Never throws: a cache that cannot be written costs time, not correctness.
    void store(const std::string& key, const CompiledKernel& kernel) const noexcept;

    struct Contents {
        std::int64_t kernels = 0;
        std::int64_t bytes = 0;
    };
    Contents contents() const;

    const std::string& folder() const { return folder_; }

private:
    std::string path(const std::string& key) const { return folder_ + "/" + key + ".kernel"; }

    std::string folder_;
};

}  // namespace tilewright::cuda
