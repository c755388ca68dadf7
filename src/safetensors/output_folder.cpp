#include "safetensors/output_folder.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "output/digest.h"
#include "output/file.h"
#include "output/json.h"
#include "safetensors/conversion_record.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

bool is_weights_or_index(const std::string& name) {
    return name.ends_with(".safetensors") || name == index_name || name == config_name;
}

/// The digest of a file that a run wrote: of its record for a shard, otherwise of its bytes.
std::string present_digest(const std::string& path) {
    if (path.ends_with(".safetensors")) return output::digest_of(earlier_file(path, "{}").record);
    return file_digest(path);
}

/// The temporary file of a run that was killed: OutputFile's names.
bool is_orphan(const std::string& name, const std::map<std::string, std::set<std::string>>& planned) {
    static const std::regex form(R"(\.(.+)\.(\d{1,9})\.tmp)");
    std::smatch parts;
    if (!std::regex_match(name, parts, form) || !planned.contains(parts[1].str())) return false;
    return kill(std::stoi(parts[2].str()), 0) != 0 && errno == ESRCH;
}

std::string index_text(const Conversion& c) {
    nlohmann::json map = nlohmann::json::object();  // by name: the same after a run that went on
    for (const OutputShard& shard : c.shards) {
        for (const StoredTensor& tensor : shard.outputs) map[tensor.name] = shard.name;
    }
    const nlohmann::json index{{"metadata", {{"total_size", c.result.output_bytes}}}, {"weight_map", map}};
    return output::json_text(index, 2) + "\n";
}

}  // namespace

OutputFolder::OutputFolder(Conversion& conversion) : c_(conversion), earlier_(read_record()) {
    plan();
    check_planned();
    check_others();
    const bool shards = std::ranges::all_of(c_.shards, [](const OutputShard& shard) { return shard.complete; });
    const bool others = std::ranges::all_of(
        planned_, [&](const auto& file) { return file.first.ends_with(".safetensors") || is_unchanged(file.first); });
    is_complete_ = shards && others && stale_.empty() && earlier_ == planned_;
}

std::string OutputFolder::path(const std::string& name) const { return (fs::path(c_.job.output) / name).string(); }

OutputFolder::Record OutputFolder::read_record() const {
    Record record;
    std::error_code error;
    if (!fs::exists(path(record_name), error)) return record;
    std::ifstream file(path(record_name), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("files") || !json["files"].is_object()) {
        throw std::runtime_error(
            path(record_name) +
            ": not written by an earlier run, and would be lost. Move it, or choose another output");
    }
    for (const auto& [name, digests] : json["files"].items()) {
        if (!digests.is_array() || fs::path(name).filename() != name) continue;
        for (const auto& digest : digests) {
            if (digest.is_string()) record[name].insert(digest.get<std::string>());
        }
    }
    return record;
}

void OutputFolder::write_record(const Record& record) const {
    const nlohmann::json json{{"what", "the files that `tilewright convert` wrote here, for its next run"},
                              {"files", record}};
    output::write_text(path(record_name), output::json_text(json, 2) + "\n");
}

void OutputFolder::plan() {
    if (!c_.config.empty()) texts_[config_name] = c_.config;
    if (c_.checkpoint.has_index()) texts_[index_name] = index_text(c_);
    for (const auto& [name, text] : texts_) planned_[name] = {output::digest_of(text)};
    for (const SideFile& file : c_.side.copied) planned_[file.name] = {file.digest};
    for (const OutputShard& shard : c_.shards) planned_[shard.name] = {output::digest_of(shard.record)};
}

bool OutputFolder::is_unchanged(const std::string& name) const {
    std::error_code error;
    return fs::is_regular_file(path(name), error) && planned_.at(name).contains(file_digest(path(name)));
}

bool OutputFolder::is_from_earlier_run(const std::string& name) const {
    const auto found = earlier_.find(name);
    return found != earlier_.end() && found->second.contains(present_digest(path(name)));
}

void OutputFolder::check_planned() {
    const auto refuse = [&](const std::string& name, const std::string& what) {
        throw std::runtime_error(
            fmt::format("{}: {}; it would be lost. Move it, or choose another output", path(name), what));
    };
    for (OutputShard& shard : c_.shards) {
        if (!shard.earlier.exists || !shard.earlier.record.empty()) continue;
        // One that a run has written and that is damaged is made again.
        const bool damaged = !shard.earlier.readable && earlier_.contains(shard.name);
        if (!damaged) refuse(shard.name, "exists, and no earlier run wrote it");
    }
    std::error_code error;
    for (const auto& [name, digests] : planned_) {
        if (name.ends_with(".safetensors") || !fs::exists(path(name), error) || is_unchanged(name)) continue;
        if (is_from_earlier_run(name)) continue;
        refuse(name, earlier_.contains(name) ? "was changed since an earlier run wrote it"
                                             : "exists with other contents, and no earlier run wrote it");
    }
}

void OutputFolder::check_others() {
    std::error_code error;
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(c_.job.output, error)) {
        names.insert(entry.path().filename().string());
    }
    for (const std::string& name : names) {
        if (!planned_.contains(name) && name != record_name) check_other(name);
    }
}

void OutputFolder::check_other(const std::string& name) {
    if (is_orphan(name, planned_) || (earlier_.contains(name) && is_from_earlier_run(name))) {
        stale_.push_back(name);
    } else if (is_weights_or_index(name)) {
        throw std::runtime_error(fmt::format(
            "{}: not a file of this conversion, but would be read as part of it. Move it, or choose another output",
            path(name)));
    } else if (earlier_.contains(name)) {
        c_.result.files_not_copied.push_back(
            {.name = name, .reason = "it changed in the output since an earlier run wrote it, and is kept"});
    }
}

void OutputFolder::begin() {
    fs::create_directories(c_.job.output);
    if (is_complete_) return;
    Record both = planned_;
    for (const auto& [name, digests] : earlier_) both[name].insert(digests.begin(), digests.end());
    write_record(both);
    const auto remove = [&](const std::string& name) { fs::remove(output::behind_links(path(name))); };
    for (const char* name : {index_name, config_name}) {
        std::error_code error;
        if (planned_.contains(name) && fs::exists(path(name), error)) remove(name);
    }
    for (const std::string& name : stale_) {
        remove(name);
        fs::remove(path(name));  // the link to it
        c_.result.removed_files.push_back(name);
    }
}

void OutputFolder::finish() {
    if (is_complete_) return;
    for (const SideFile& file : c_.side.copied) {
        if (!is_unchanged(file.name)) copy_side_file(file, path(file.name));
    }
    for (const auto& [name, text] : texts_) output::write_text(path(name), text);
    write_record(planned_);
}

}  // namespace tilewright::safetensors
