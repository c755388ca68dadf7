#include "safetensors/conversion_record.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "output/digest.h"
#include "output/json.h"
#include "safetensors/published_format.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A digest of the tensors that are read, how they are read, and what they become.
std::string tensors_digest(const Conversion& c, const OutputShard& shard) {
    output::Digest digest;
    const auto add = [&](const Checkpoint::Tensor* tensor) {
        const StoredTensor& stored = tensor->stored;
        digest.add(fmt::format("{} {} {} [{}] {} {};", c.checkpoint.shards()[tensor->shard].name, stored.name,
                               stored.dtype, fmt::join(stored.shape, ","), stored.begin, stored.end));
    };
    for (const StoredMatrix* matrix : shard.matrices) {
        digest.add(fmt::format("{} {} {} {} {} {} {} {}:", matrix->name, matrix->scheme, name(matrix->recipe),
                               matrix->format(), to_string(matrix->shape()), matrix->transposed, matrix->divides,
                               matrix->packed));
        for (const auto* tensor : matrix->tensors()) add(tensor);
    }
    digest.add("copied:");
    for (const auto* tensor : shard.copied) add(tensor);
    return digest.text();
}

Json input_files(const Conversion& c, const OutputShard& shard) {
    std::set<std::size_t> read;
    for (const StoredMatrix* matrix : shard.matrices) {
        for (const auto* tensor : matrix->tensors()) read.insert(tensor->shard);
    }
    for (const auto* tensor : shard.copied) read.insert(tensor->shard);
    Json files = Json::object();
    for (const std::size_t index : read) {
        const Checkpoint::Shard& file = c.checkpoint.shards()[index];
        const FileIdentity& identity = c.identities[index];
        files[file.name] = {{"size", identity.bytes},
                            {"modified", identity.modified},
                            {"changed", identity.changed},
                            {"inode", identity.inode},
                            {"header", file.reader->header_digest()}};
    }
    return files;
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : output::json_text(value); }

/// "size, modified" of a file that is not the one it was.
std::string changed_input(const std::string& file, const Json& before, const Json& now) {
    if (!before.is_object()) return fmt::format("{} of the input was not used for it", file);
    std::string fields;
    for (const auto& [field, value] : now.items()) {
        if (before.value(field, Json()) != value) fields += (fields.empty() ? "" : ", ") + field;
    }
    return fields.empty() ? "" : fmt::format("{} of the input has changed since this file was made: {}", file, fields);
}

/// Why two records are of different files; empty if they are of one.
std::string difference(const Json& before, const Json& now) {
    if (!before.is_object()) return "it has no record of its input that this version can read";
    for (const auto& [key, value] : now.items()) {
        const Json old = before.value(key, Json());
        if (old == value) continue;
        if (key == "inputs") {
            for (const auto& [file, identity] : value.items()) {
                std::string changed = changed_input(file, old.is_object() ? old.value(file, Json()) : Json(), identity);
                if (!changed.empty()) return changed;
            }
            return "it was made from more files of the input";
        }
        if (key == "tensors") return "other tensors are chosen, or their names or places differ";
        return fmt::format("{} is '{}', and was '{}'", key, shown(value), shown(old));
    }
    return before.size() == now.size() ? "" : "another version made it";
}

}  // namespace

std::string conversion_record(const Conversion& c, const OutputShard& shard) {
    const ConvertJob& job = c.job;
    const Json record{{"version", job.version},
                      {"--to", job.recipe ? name(*job.recipe) : ""},
                      {"--pack", job.pack ? name(*job.pack) : ""},
                      {"--include", job.include},
                      {"--exclude", job.exclude},
                      {"--round-up", job.round_up},
                      {"--stack-experts", job.stack_experts},
                      {"--as", job.published ? name(*job.published) : ""},
                      {"file", c.checkpoint.is_folder() ? shard.name : ""},
                      {"inputs", input_files(c, shard)},
                      {"tensors", tensors_digest(c, shard)}};
    return output::json_text(record);
}

EarlierFile earlier_file(const std::string& path, const std::string& record) {
    EarlierFile earlier;
    std::error_code error;
    earlier.exists = fs::exists(path, error);
    if (!earlier.exists) return earlier;
    try {
        const SafetensorsReader reader(path);
        earlier.readable = true;
        const Metadata& metadata = reader.header().metadata;
        const auto found = metadata.find(record_key);
        if (found == metadata.end()) {
            earlier.why_not = "`tilewright convert` did not write it";
            return earlier;
        }
        earlier.record = found->second;
        earlier.why_not = difference(Json::parse(found->second, nullptr, false), Json::parse(record));
        if (earlier.why_not.empty() && !reader.is_as_written())
            earlier.why_not = "its bytes have changed since they were written";
    } catch (const SafetensorsError& unreadable) {
        earlier.why_not = fmt::format("it cannot be read ({})", unreadable.what());
    }
    return earlier;
}

void wait_until_times_tell(const Checkpoint& input) {
    using namespace std::chrono;
    constexpr nanoseconds tick = milliseconds(20);   // the kernel's clock for files has ticks of 10 ms at most
    constexpr nanoseconds coarse_tick = seconds(2);  // FAT; other file systems without fractions have 1 s
    const nanoseconds now = system_clock::now().time_since_epoch();
    nanoseconds longest{0};
    for (const Checkpoint::Shard& file : input.shards()) {
        const FileIdentity identity = file.reader->identity();
        const bool coarse = identity.modified % 1'000'000'000 == 0 && identity.changed % 1'000'000'000 == 0;
        const nanoseconds wait = nanoseconds(identity.changed) + (coarse ? coarse_tick : tick) - now;
        if (wait <= (coarse ? coarse_tick : tick)) longest = std::max(longest, wait);  // else the clocks differ
    }
    std::this_thread::sleep_for(longest);
}

}  // namespace tilewright::safetensors
