#include "safetensors/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t longest_text = 200'000'000;

std::string file_text(const fs::path& path) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error || !fs::is_regular_file(path, error)) throw SafetensorsError(path.string() + ": cannot be read");
    if (bytes > longest_text) throw SafetensorsError(fmt::format("{}: {} bytes are too many", path.string(), bytes));
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The names of a folder's safetensors files.
std::vector<std::string> safetensors_files(const fs::path& folder) {
    std::vector<std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path().filename().string());
    }
    std::ranges::sort(files);
    return files;
}

/// The only safetensors file of a folder without an index.
fs::path only_file(const fs::path& folder) {
    const std::vector<std::string> files = safetensors_files(folder);
    if (files.size() == 1) return folder / files.front();
    const std::string names = files.empty() ? "" : fmt::format(" ({})", fmt::join(files, ", "));
    throw SafetensorsError(
        fmt::format("{}: has {} safetensors files{} and no {}", folder.string(), files.size(), names, index_name));
}

/// Tensor names and the files that have them.
std::map<std::string, std::string> weight_map(const std::string& path) {
    const std::string text = file_text(path);
    const nlohmann::json index = nlohmann::json::parse(text, nullptr, false);
    // The parser treats a NUL byte as the end of the text.
    if (text.find('\0') != std::string::npos || !index.is_object() || !index.contains("weight_map") ||
        !index["weight_map"].is_object()) {
        throw SafetensorsError(path + ": not an index; expected a JSON object with a weight_map");
    }
    std::map<std::string, std::string> map;
    for (const auto& [name, file] : index["weight_map"].items()) {
        const bool is_name = file.is_string() &&
                             fs::path(file.get<std::string>()).filename() == file.get<std::string>() &&
                             file.get<std::string>().find('\0') == std::string::npos;
        if (!is_name) throw SafetensorsError(fmt::format("{}: tensor '{}' has no file name", path, name));
        map.emplace(name, file.get<std::string>());
    }
    return map;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path) {
    std::error_code error;
    fs::path file = path;
    is_folder_ = fs::is_directory(file, error) || file.extension() == ".json";
    if (fs::is_directory(file, error)) {
        const fs::path index = file / index_name;
        file = fs::exists(index, error) ? index : only_file(file);
    }
    folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
    if (file.extension() == ".json") {
        open_index(file.string());
    } else {
        add_shard(file.filename().string(), {});
    }
    const fs::path config = fs::path(folder_) / config_name;
    if (!fs::exists(config, error)) return;
    config_ = file_text(config);
    files_.push_back(config.string());
}

void Checkpoint::open_index(const std::string& path) {
    has_index_ = true;
    files_.push_back(path);
    const std::map<std::string, std::string> map = weight_map(path);
    std::set<std::string> files;
    for (const auto& [name, file] : map) files.insert(file);
    for (const std::string& file : files) add_shard(file, map);
    for (const std::string& file : safetensors_files(folder_)) {
        if (files.count(file) == 0) unlisted_.push_back(file);
    }
    for (const auto& [name, file] : map) {
        const Tensor* const tensor = find(name);
        if (tensor == nullptr || shards_[tensor->shard].name != file) {
            throw SafetensorsError(
                fmt::format("{}: says that '{}' is in {}, which does not have it", path, name, file));
        }
    }
}

/// A tensor that another file has too is the one of the file that the index names.
void Checkpoint::add_shard(const std::string& name, const std::map<std::string, std::string>& map) {
    Shard shard{.name = name, .path = (fs::path(folder_) / name).string()};
    shard.reader = std::make_unique<SafetensorsReader>(shard.path);
    for (const StoredTensor& stored : shard.reader->header().tensors) {
        const auto listed = map.find(stored.name);
        if (listed != map.end() && listed->second != name) {
            overridden_.push_back(
                fmt::format("{} is in {} too; the index names {}", stored.name, name, listed->second));
            continue;
        }
        if (!tensors_.emplace(stored.name, Tensor{.stored = stored, .shard = shards_.size()}).second) {
            throw SafetensorsError(fmt::format("{}: tensor '{}' is in another file too", shard.path, stored.name));
        }
    }
    files_.push_back(shard.path);
    shards_.push_back(std::move(shard));
}

const Checkpoint::Tensor* Checkpoint::find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

void Checkpoint::read(const Tensor& tensor, std::uint64_t offset, void* to, std::uint64_t bytes) const {
    shards_[tensor.shard].reader->read(tensor.stored, offset, to, bytes);
}

}  // namespace tilewright::safetensors
