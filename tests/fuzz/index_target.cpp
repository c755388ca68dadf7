// Fuzzes model.safetensors.index.json next to two small files: a true index gives its tensors, a wrong one is refused,
// and what is accepted of anything else says nothing that the files do not.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fuzz/target.h"
#include "fuzz/text.h"
#include "safetensors/checkpoint.h"

namespace tilewright::fuzz {
namespace {

namespace fs = std::filesystem;
using safetensors::Checkpoint;
using safetensors::SafetensorsError;
using safetensors::SafetensorsWriter;

using Map = std::map<std::string, std::string>;

/// Tensors of the files, by name; "spare" is in no index that is drawn.
const std::array<std::pair<const char*, std::array<const char*, 2>>, 3> files{
    {{"model-1.safetensors", {"a.weight", "b"}},
     {"model-2.safetensors", {"c.0.weight", "\xc3\xa9"}},
     {"spare.safetensors", {"spare", "s"}}}};

/// A folder with the files, for as long as the program runs.
class Folder {
public:
    Folder() : path_(fs::temp_directory_path() / fmt::format("tilewright-fuzz-index-{}", getpid())) {
        fs::create_directories(path_ / "folder.safetensors");
        for (const auto& [file, names] : files) {
            SafetensorsWriter writer(
                (path_ / file).string(),
                {{.name = names[0], .dtype = "U8", .shape = {2}}, {.name = names[1], .dtype = "U8", .shape = {0}}}, {});
            writer.write(names[0], 0, "12", 2);
            writer.commit();
        }
    }
    ~Folder() {
        std::error_code error;
        fs::remove_all(path_, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    Checkpoint with_index(const std::string& text) const {
        fs::remove(path_ / safetensors::index_name);  // some file systems wait for the disk where a file is made empty
        std::ofstream(path_ / safetensors::index_name, std::ios::binary) << text;
        return Checkpoint(path_.string());
    }

private:
    fs::path path_;
};

const Folder& folder() {
    static const Folder made;
    return made;
}

/// The tensors of one file or of two, or some of them.
Map draw_map(Bytes& bytes) {
    Map map;
    const std::int64_t which = bytes.between(1, 3);
    for (std::size_t file = 0; file < 2; ++file) {
        if ((which >> file & 1) == 0) continue;
        const std::size_t left_out = static_cast<std::size_t>(bytes.up_to(4));
        for (std::size_t i = 0; i < 2; ++i) {
            if (i != left_out) map[files[file].second[i]] = files[file].first;
        }
    }
    return map;
}

/// Members in any order, with any others.
std::string text_of(const Map& map, Bytes& bytes) {
    std::string text = random_space(bytes) + "{";
    if (bytes.one_in(2)) text += "\"metadata\":" + random_space(bytes) + random_json(bytes, 2, false) + ",";
    text += random_space(bytes) + "\"weight_map\":{";
    for (const auto& [name, file] : map) {
        text += fmt::format("{}\"{}\":{}\"{}\"", text.back() == '{' ? "" : ",", name, random_space(bytes), file);
    }
    text += "}";
    if (bytes.one_in(3)) text += ",\"x\":" + random_json(bytes, 2, false);
    return text + "}" + random_space(bytes);
}

/// Whether the checkpoint has what the index says, and nothing of other files.
std::string unsound(const Checkpoint& checkpoint, const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return "no JSON object";
    if (text.find('\0') != std::string::npos) return "a NUL byte is accepted";
    std::set<std::string> named;
    for (const auto& [name, file] : json.at("weight_map").items()) {
        named.insert(file.get<std::string>());
        const Checkpoint::Tensor* tensor = checkpoint.find(name);
        if (tensor == nullptr || checkpoint.shards()[tensor->shard].name != file) return "another place of " + name;
    }
    if (named.size() != checkpoint.shards().size()) return "another number of files";
    for (const Checkpoint::Shard& shard : checkpoint.shards()) {
        const auto known =
            std::ranges::find(files, shard.name, [](const auto& file) { return std::string(file.first); });
        if (known == files.end()) return "a file of another folder: " + shard.name;
    }
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        if (!named.contains(checkpoint.shards()[tensor.shard].name)) return "a tensor of another file: " + name;
    }
    return "";
}

/// Written again by what was read, it is read alike.
std::string not_the_same_again(const Checkpoint& checkpoint) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& [name, tensor] : checkpoint.tensors()) map[name] = checkpoint.shards()[tensor.shard].name;
    const Checkpoint again = folder().with_index(nlohmann::json{{"weight_map", map}}.dump());
    if (again.tensors().size() != checkpoint.tensors().size()) return "another number of tensors";
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        if (again.find(name) == nullptr || again.find(name)->stored.dtype != tensor.stored.dtype)
            return "without " + name;
    }
    return "";
}

/// Changes of which each makes the index wrong.
std::string spoiled(Map map, Bytes& bytes) {
    const std::string broken = bytes.pick<const char*>({"\"x\"", "3", "null", "[]", "NaN"});
    switch (bytes.up_to(7)) {
        case 0: map["missing"] = files[0].first; break;
        case 1: map["spare"] = files[0].first; break;
        case 2:
            map["a.weight"] =
                bytes.pick<const char*>({"model-2.safetensors", "gone.safetensors", "", ".", "..", "folder.safetensors",
                                         "../model-1.safetensors", "./model-1.safetensors", "/dev/zero",
                                         "model-1.safetensors\\u0000", "model-1.safetensors/"});
            break;
        case 3: return "{\"weight_map\":" + broken + "}";
        case 4:
            return "{\"weight_map\":{\"a.weight\":" + broken.substr(0, broken == "\"x\"" ? 0 : broken.size()) + "}}";
        case 5: return text_of(map, bytes) + bytes.pick<const char*>({"{}", "x", "]", ","});
        case 6: return text_of(map, bytes) + std::string("\0", 1);
        default: {
            const std::string text = text_of(map, bytes);
            return text.substr(0, static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(text.rfind('}')))));
        }
    }
    return text_of(map, bytes);
}

Outcome judge(const std::string& text, bool must_be_refused) {
    Outcome outcome{.kind = Kind::malformed, .call = text, .failure = {}};
    try {
        const Checkpoint checkpoint = folder().with_index(text);
        outcome.kind = Kind::garbage;
        outcome.failure = must_be_refused ? "accepted" : unsound(checkpoint, text);
        if (outcome.failure.empty()) outcome.failure = not_the_same_again(checkpoint);
    } catch (const SafetensorsError&) {
    }
    return outcome;
}

}  // namespace

Outcome fuzz(std::span<const std::uint8_t> data) {
    Bytes bytes(data);
    const std::int64_t kind = bytes.up_to(3);
    const Map map = draw_map(bytes);
    try {
        if (kind == 0) return judge(spoiled(map, bytes), true);
        const std::string text = text_of(map, bytes);
        if (kind > 1) return judge(mutated(text, bytes), false);
        Outcome outcome = judge(text, false);
        if (outcome.kind == Kind::malformed && !map.empty()) outcome.failure = "a true index is refused";
        outcome.kind = Kind::well_formed;
        return outcome;
    } catch (const std::exception& error) {
        return {.kind = Kind::well_formed, .call = "an index", .failure = error.what()};
    }
}

}  // namespace tilewright::fuzz
