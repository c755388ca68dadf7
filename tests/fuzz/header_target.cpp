// Fuzzes headers of safetensors files: what is drawn by the rules is read as it was drawn, what breaks one is refused,
// and what is accepted of anything else means the same to a JSON parser and can be written again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fuzz/target.h"
#include "fuzz/text.h"
#include "safetensors/safetensors.h"

namespace tilewright::fuzz {
namespace {

using safetensors::Metadata;
using safetensors::parse_header;
using safetensors::SafetensorsError;
using safetensors::SafetensorsHeader;
using safetensors::SafetensorsReader;
using safetensors::SafetensorsWriter;
using safetensors::stored_bytes;
using safetensors::StoredTensor;

struct Drawn {
    std::string text;
    std::uint64_t data_bytes = 0;
    std::map<std::string, StoredTensor> tensors;
};

StoredTensor random_tensor(Bytes& bytes, std::size_t index) {
    StoredTensor tensor{
        .name = fmt::format("layers.{}.{}", index, bytes.pick<const char*>({"weight", "scale", "\xc3\xa9"})),
        .dtype = bytes.pick<const char*>(
            {"F32", "BF16", "F8_E4M3", "F8_E4M3FNUZ", "U8", "I64", "BOOL", "F4", "F6_E2M3", "C64"})};
    for (std::int64_t rank = bytes.up_to(3); rank > 0; --rank) {
        tensor.shape.push_back(static_cast<std::uint64_t>(bytes.pick({0, 1, 2, 3, 5, 16})));
    }
    if (!stored_bytes(tensor.dtype, tensor.shape)) tensor.shape.push_back(8);  // whole bytes
    return tensor;
}

Drawn draw(Bytes& bytes) {
    Drawn drawn;
    std::vector<StoredTensor> tensors;
    for (std::int64_t left = bytes.up_to(5); left > 0; --left) tensors.push_back(random_tensor(bytes, tensors.size()));
    for (StoredTensor& tensor : tensors) {
        tensor.begin = drawn.data_bytes;
        tensor.end = drawn.data_bytes += stored_bytes(tensor.dtype, tensor.shape).value();
        drawn.tensors[tensor.name] = tensor;
    }
    // The order of a header is not that of the data.
    const auto first = bytes.up_to(static_cast<std::int64_t>(tensors.size()));
    std::rotate(tensors.begin(), tensors.begin() + first, tensors.end());
    drawn.text = "{";
    if (bytes.one_in(2))
        drawn.text += "\"__metadata__\":{" + random_string(bytes, false) + ":" + random_string(bytes, false) + "}";
    for (const StoredTensor& tensor : tensors) {
        const std::string space = random_space(bytes);
        drawn.text += fmt::format("{}{}\"{}\"{}:{{\"dtype\":\"{}\",\"shape\":[{}],{}\"data_offsets\":[{},{}]}}",
                                  drawn.text.size() > 1 ? "," : "", space, tensor.name, space, tensor.dtype,
                                  fmt::join(tensor.shape, "," + space), space, tensor.begin, tensor.end);
    }
    drawn.text += "}" + std::string(static_cast<std::size_t>(bytes.up_to(9)), ' ');
    return drawn;
}

bool same(const StoredTensor& left, const StoredTensor& right) {
    return left.name == right.name && left.dtype == right.dtype && left.shape == right.shape &&
           left.begin == right.begin && left.end == right.end;
}

std::string well_formed(const Drawn& drawn) {
    const SafetensorsHeader header = parse_header(drawn.text, drawn.data_bytes);
    if (header.tensors.size() != drawn.tensors.size()) return "another number of tensors";
    for (const StoredTensor& tensor : header.tensors) {
        if (!drawn.tensors.contains(tensor.name) || !same(tensor, drawn.tensors.at(tensor.name))) return tensor.name;
    }
    return "";
}

/// The accepted header against a JSON parser, and the data against what the format says of them.
std::string unsound(const SafetensorsHeader& header, const std::string& text, std::uint64_t data_bytes) {
    if (text.find('\0') != std::string::npos) return "a NUL byte is accepted";
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return "no JSON object";
    if (json.size() != header.tensors.size() + json.contains("__metadata__")) return "another number of tensors";
    std::uint64_t position = 0;
    for (const StoredTensor& tensor : header.tensors) {
        const nlohmann::json& one = json.at(tensor.name);
        const bool is_json_s = one.at("dtype") == tensor.dtype && one.at("shape") == tensor.shape &&
                               one.at("data_offsets") == nlohmann::json{tensor.begin, tensor.end} && one.size() == 3;
        if (!is_json_s) return "another tensor than the JSON has: " + tensor.name;
        if (tensor.begin != position) return "a hole or an overlap at " + tensor.name;
        position = tensor.end;
        if (stored_bytes(tensor.dtype, tensor.shape) != tensor.bytes()) return "other bytes: " + tensor.name;
    }
    return position == data_bytes ? "" : "the data go on";
}

/// Written by the library, read by the library: the same tensors, the same data.
std::string not_written_again(const SafetensorsHeader& header) {
    static const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("tilewright-fuzz-{}.safetensors", getpid())).string();
    SafetensorsWriter writer(path, header.tensors, header.metadata);
    const auto data_of = [](const StoredTensor& tensor) {
        std::string data(tensor.bytes(), '\0');
        std::iota(data.begin(), data.end(), static_cast<char>(tensor.name.size() + tensor.begin));
        return data;
    };
    for (const StoredTensor& tensor : header.tensors)
        writer.write(tensor.name, 0, data_of(tensor).data(), tensor.bytes());
    writer.commit();
    const SafetensorsReader reader(path);
    std::filesystem::remove(path);
    if (reader.header().metadata != header.metadata) return "other metadata when written again";
    if (reader.header().tensors.size() != header.tensors.size()) return "another number of tensors when written again";
    for (const StoredTensor& tensor : header.tensors) {
        const auto again = std::ranges::find(reader.header().tensors, tensor.name, &StoredTensor::name);
        if (again == reader.header().tensors.end() || again->dtype != tensor.dtype || again->shape != tensor.shape) {
            return "another tensor when written again: " + tensor.name;
        }
        std::string data(tensor.bytes(), '\0');
        reader.read(*again, 0, data.data(), data.size());
        if (data != data_of(tensor)) return "other data when written again: " + tensor.name;
    }
    return "";
}

/// Changes of which each breaks a rule.
std::string spoiled(const Drawn& drawn, Bytes& bytes) {
    const std::string& text = drawn.text;
    const std::string one = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    const auto with = [&](const std::string& member) {
        return "{" + member + (text[1] == '}' ? "" : ",") + text.substr(1);
    };
    const auto field = [&](const char* name, const char* value) {
        nlohmann::json changed = nlohmann::json::parse(one);
        changed[name] = nlohmann::json::parse(value);
        return with("\"x\":" + changed.dump());
    };
    switch (bytes.up_to(10)) {
        case 0: return text + std::string("\0", 1);
        case 1: return text + bytes.pick<const char*>({"{}", "x", "}", "\xa0", ",", "null"});
        case 2: return text + std::string("\0{}", 3);
        case 3:
            return text.substr(0, static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(text.rfind('}')))));
        case 4: return with("\"x\":" + one + ",\"\\u0078\":" + one);
        case 5:
            return field("shape", bytes.pick<const char*>({"[-1]", "[0.0]", "[\"0\"]", "0", "null", "[[0]]", "[1]",
                                                           "[18446744073709551616]", "[4294967296,4294967296]"}));
        case 6:
            return field("data_offsets", bytes.pick<const char*>({"[0]", "[0,1e9]", "[-1,0]", "[0,0,0]", "[1,0]", "{}",
                                                                  "[0,9223372036854775807]", "[null,0]"}));
        case 7:
            return field("dtype", bytes.pick<const char*>({"\"u8\"", "\"F8_E3M4\"", "\"\"", "null", "8", "[\"U8\"]"}));
        case 8: return field("more", "0");
        case 9:
            return with("\"__metadata__\":{\"a\":" + std::string(bytes.pick<const char*>({"1", "null", "{}", "[]"})) +
                        "}");
        default: return with("\"\xff\":" + one);
    }
}

Outcome judge(const std::string& text, std::uint64_t data_bytes, bool must_be_refused, bool write) {
    Outcome outcome{
        .kind = Kind::malformed, .call = fmt::format("{} bytes of data, {}", data_bytes, text), .failure = {}};
    try {
        const SafetensorsHeader header = parse_header(text, data_bytes);
        outcome.kind = Kind::garbage;
        outcome.failure = must_be_refused ? "accepted" : unsound(header, text, data_bytes);
        if (write && outcome.failure.empty()) outcome.failure = not_written_again(header);
    } catch (const SafetensorsError&) {
    }
    return outcome;
}

}  // namespace

Outcome fuzz(std::span<const std::uint8_t> data) {
    Bytes bytes(data);
    const std::int64_t kind = bytes.up_to(3);
    const bool write = bytes.one_in(16);  // it goes to the disk
    const Drawn drawn = draw(bytes);
    try {
        if (kind == 0) return judge(spoiled(drawn, bytes), drawn.data_bytes, true, false);
        if (kind > 1) return judge(mutated(drawn.text, bytes), drawn.data_bytes, false, write);
        std::string failure = well_formed(drawn);
        if (failure.empty()) failure = judge(drawn.text, drawn.data_bytes, false, write).failure;
        return {.kind = Kind::well_formed, .call = drawn.text, .failure = failure};
    } catch (const std::exception& error) {
        return {.kind = Kind::well_formed, .call = drawn.text, .failure = error.what()};
    }
}

}  // namespace tilewright::fuzz
