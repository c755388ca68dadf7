#include "safetensors/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "safetensors/json_text.h"
#include "safetensors/published_format.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* usual_key = "quantization_config";
constexpr std::array<std::string_view, 2> description_keys{usual_key, "compression_config"};

std::string indented(const std::string& text, std::size_t spaces) {
    std::string result;
    for (const char c : text) {
        result += c;
        if (c == '\n') result.append(spaces, ' ');
    }
    return result;
}

std::string text_of_file(const SideFile& file) {
    std::ifstream stream(file.path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) text.pop_back();
    try {
        check_json(text);
    } catch (const JsonTextError& error) {
        throw SafetensorsError(fmt::format("{}: not valid JSON: {}", file.path, error.what()));
    }
    return text;
}

/// As the text does that it becomes a part of: in lines with this many spaces, or in one line.
std::string written(const Json& value, std::optional<std::size_t> spaces) {
    return spaces ? indented(value.dump(2), *spaces) : value.dump();
}

/// The spaces before the keys of an object; nothing where it is in one line.
std::optional<std::size_t> spaces_of(std::string_view text) {
    const std::size_t brace = text.find('{') + 1;
    const std::string_view before = text.substr(brace, text.find_first_not_of(" \t\n\r", brace) - brace);
    const std::size_t line = before.rfind('\n');
    return line == std::string_view::npos ? std::nullopt : std::optional(before.size() - line - 1);
}

Json kept_tensors(const Conversion& c) {
    Json tensors = Json::array();
    for (const KeptTensors& kept : c.result.kept) {
        Json one{{"name", kept.name}};
        if (kept.count > 1) one["count"] = kept.count;
        one["format"] = kept.format;
        if (!kept.scales.empty()) one["scales"] = kept.scales;
        one["reason"] = kept.reason;
        tensors.push_back(one);
    }
    return Json{{"tensors", tensors}};
}

/// The members that engines read. Activations are quantized as they come.
Json published_json(const PublishedDescription& description) {
    Json how{{"quant_method", name(description.format)}};
    if (description.format == PublishedFormat::fp8) {
        how["fmt"] = "e4m3";
        how["activation_scheme"] = "dynamic";
        how["weight_block_size"] = {128, 128};
    }
    how["modules_to_not_convert"] = description.unquantised;
    return how;
}

/// The description of this conversion; `spaces` is the indentation of the keys of its object. It contains `before`, the
/// input's own description, byte for byte.
std::string described_conversion(const Conversion& c, std::string_view before, std::optional<std::size_t> spaces) {
    if (c.job.published) return written(published_json(published_description(c)), spaces);
    Json how{{"quant_method", "tilewright"}, {"version", c.job.version}};
    how["recipe"] = c.job.recipe ? name(*c.job.recipe) : "as it was";
    if (c.job.pack) how["packed_for"] = name(*c.job.pack);
    if (c.job.stack_experts) how["stacked_experts"] = true;
    std::string text = written(how, spaces);
    if (c.result.kept.empty()) return text;
    std::string kept = written(kept_tensors(c), spaces ? std::optional(*spaces + 2) : std::nullopt);
    if (!before.empty()) kept = with_member(kept, usual_key, before);
    for (const SideFile& file : c.side.quantisation) kept = with_member(kept, file.name, text_of_file(file));
    return with_member(text, "kept", kept);
}

bool is_description(const JsonMember& member) {
    return std::ranges::find(description_keys, member.key) != description_keys.end();
}

/// The same for one object, without its parts; also returns the number of values that were present.
std::pair<std::string, int> with_own_descriptions(std::string_view text, const Description& description) {
    int count = 0;
    std::string changed = with_values(text, [&](const JsonMember& member) -> std::optional<std::string> {
        if (!is_description(member)) return std::nullopt;
        ++count;
        return description(member.value, spaces_of(text));
    });
    return {changed, count};
}

}  // namespace

std::string with_description(std::string_view config, const Description& description) {
    const std::string parts = with_values(config, [&](const JsonMember& member) -> std::optional<std::string> {
        if (is_description(member) || member.value.front() != '{') return std::nullopt;
        auto [changed, count] = with_own_descriptions(member.value, description);
        return count == 0 ? std::nullopt : std::optional(changed);
    });
    const auto [changed, count] = with_own_descriptions(parts, description);
    return count == 0 ? with_member(changed, usual_key, description("", spaces_of(changed))) : changed;
}

std::string converted_config(const Conversion& c) {
    try {
        return with_description(c.checkpoint.config(), [&](std::string_view before, std::optional<std::size_t> spaces) {
            return described_conversion(c, before, spaces);
        });
    } catch (const JsonTextError& error) {
        throw SafetensorsError(fmt::format("{}: not a JSON object that Python can read: {}",
                                           (fs::path(c.checkpoint.folder()) / config_name).string(), error.what()));
    }
}

}  // namespace tilewright::safetensors
