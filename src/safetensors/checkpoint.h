// A checkpoint: one safetensors file, or a folder of them with an index, read as one set of tensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "safetensors/safetensors.h"

namespace tilewright::safetensors {

inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* config_name = "config.json";

class Checkpoint {
public:
    /// `path`: a safetensors file; a folder with an index or one safetensors file; or the index itself. Only headers
    /// are read. Throws SafetensorsError if something is missing, contradicts the index, or exists twice and no index
    /// decides.
    explicit Checkpoint(const std::string& path);

    struct Shard {
        std::string name{};  // of the file, without the folder
        std::string path{};
        std::unique_ptr<SafetensorsReader> reader{};
    };
    struct Tensor {
        StoredTensor stored{};
        std::size_t shard = 0;
    };

    const std::vector<Shard>& shards() const { return shards_; }
    const std::map<std::string, Tensor>& tensors() const { return tensors_; }
    /// Null where there is none.
    const Tensor* find(const std::string& name) const;

    void read(const Tensor& tensor, std::uint64_t offset, void* to, std::uint64_t bytes) const;

    /// Named as a folder or as its index, not as one file.
    bool is_folder() const { return is_folder_; }
    bool has_index() const { return has_index_; }
    /// Where the files are; "." for a file named without one.
    const std::string& folder() const { return folder_; }
    /// Safetensors files of the folder that the index does not name, and that are not read.
    const std::vector<std::string>& unlisted() const { return unlisted_; }
    /// "X is in a.safetensors too; the index names b.safetensors": the index decides.
    const std::vector<std::string>& overridden() const { return overridden_; }
    /// All files that were read: the index, shards, config.json.
    const std::vector<std::string>& files() const { return files_; }
    /// The text of config.json; empty where there is none.
    const std::string& config() const { return config_; }

private:
    void open_index(const std::string& path);
    void add_shard(const std::string& name, const std::map<std::string, std::string>& map);

    std::string folder_;
    bool is_folder_ = false;
    bool has_index_ = false;
    std::vector<std::string> files_;
    std::vector<std::string> unlisted_;
    std::vector<std::string> overridden_;
    std::vector<Shard> shards_;
    std::map<std::string, Tensor> tensors_;
    std::string config_;
};

}  // namespace tilewright::safetensors
