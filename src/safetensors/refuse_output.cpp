// What a conversion must not write over, found before it writes: a file may be a link to one of the input's or to a
// device, which writing would follow.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "output/file.h"
#include "safetensors/conversion.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> written_files(const Conversion& c) {
    std::vector<std::string> files;
    for (const Checkpoint::Shard& shard : c.checkpoint.shards()) files.push_back(output_path(c, shard.name));
    if (!c.checkpoint.is_folder()) return files;
    for (const char* name : {index_name, config_name, record_name}) files.push_back(output_path(c, name));
    for (const SideFile& file : c.side.copied) files.push_back(output_path(c, file.name));
    return files;
}

void refuse_input(const Conversion& c, const std::string& file) {
    std::vector<std::string> inputs = c.checkpoint.files();
    for (const SideFile& side : c.side.copied) inputs.push_back(side.path);
    for (const std::string& input : inputs) {
        std::error_code error;
        if (!fs::equivalent(input, file, error)) continue;
        throw std::runtime_error(
            fmt::format("{}: is the input itself ({}), which would be lost; choose another output", file, input));
    }
}

void refuse_irregular(const std::string& file) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (status.type() == fs::file_type::none) {
        throw std::runtime_error(fmt::format("{}: cannot be written: {}", file, error.message()));
    }
    if (!fs::exists(status) || fs::is_regular_file(status)) return;
    throw std::runtime_error(file + ": not a regular file (a folder, device, FIFO or socket); choose another output");
}

/// Links of several names to one file, which may not be there yet.
void refuse_twice(const std::string& file, std::set<fs::path>& targets) {
    const fs::path target = fs::weakly_canonical(output::behind_links(file));
    if (targets.insert(target).second) return;
    throw std::runtime_error(fmt::format("{}: is a link to {}, as another file of the output is; choose another output",
                                         file, target.string()));
}

}  // namespace

void refuse_output(const Conversion& c) {
    std::error_code error;
    const fs::path output = c.job.output;
    const bool folder = c.checkpoint.is_folder();
    if (folder && fs::equivalent(c.checkpoint.folder(), output, error)) {
        throw std::runtime_error(c.job.output + ": is the input itself, which would be lost; choose another output");
    }
    const fs::file_status status = fs::status(output, error);
    if (folder && fs::exists(status) && !fs::is_directory(status)) {
        throw std::runtime_error(c.job.output + ": not a folder, but the input is one; choose another output");
    }
    std::set<fs::path> targets;
    for (const std::string& file : written_files(c)) {
        refuse_input(c, file);
        refuse_irregular(file);
        refuse_twice(file, targets);
    }
}

void refuse_full_disk(const Conversion& c) {
    fs::path folder = c.checkpoint.is_folder() ? fs::path(c.job.output) : fs::path(c.job.output).parent_path();
    if (folder.empty()) folder = ".";
    std::error_code error;
    while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) {
        folder = folder.parent_path();  // the output's is made once there is room
    }
    if (!fs::exists(folder, error)) folder = ".";
    const fs::space_info space = fs::space(folder, error);
    std::uint64_t needed = 0;
    for (const OutputShard& shard : c.shards) needed += shard.complete ? 0 : shard.bytes();
    for (const SideFile& file : c.side.copied) {
        std::error_code not_there;
        needed += fs::exists(output_path(c, file.name), not_there) ? 0 : file.bytes;
    }
    if (error || space.available >= needed) return;
    throw std::runtime_error(fmt::format("{}: {} bytes are needed, {} are free; nothing was written", folder.string(),
                                         needed, space.available));
}

}  // namespace tilewright::safetensors
