#include "safetensors/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "output/json.h"

namespace tilewright::safetensors {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* modelopt_name = "hf_quant_config.json";
constexpr std::uintmax_t longest_file = 50'000'000;

/// Python writes NaN, Infinity and -Infinity, which JSON lacks. None of the words that are looked up has one.
std::string without_non_finite(std::string text) {
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (quoted && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && (text[i] == 'N' || text[i] == 'I')) {
            for (const std::string_view word : {"NaN", "Infinity"}) {
                if (text.compare(i, word.size(), word) == 0)
                    text.replace(i, word.size(), "0" + std::string(word.size() - 1, ' '));
            }
        }
    }
    return text;
}

Json parsed(const std::string& text) { return Json::parse(without_non_finite(text), nullptr, false); }

Json parsed_file(const std::filesystem::path& path) {
    std::error_code error;
    const bool readable = std::filesystem::is_regular_file(path, error) &&
                          std::filesystem::file_size(path, error) <= longest_file && !error;
    if (!readable) return {};
    std::ifstream file(path, std::ios::binary);
    return parsed({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

const Json* member(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

/// The words of a publisher's scheme description, without lists of layers.
void add_words(const Json& object, std::string& words) {
    for (const char* key : {"quant_method",
                            "quant_algo",
                            "format",
                            "fmt",
                            "activation_scheme",
                            "weight_block_size",
                            "scale_fmt",
                            "num_bits",
                            "bits",
                            "w_bit",
                            "type",
                            "strategy",
                            "group_size",
                            "block_structure",
                            "dtype",
                            "qscheme",
                            "scale_format",
                            "kv_cache_quant_algo",
                            "load_in_4bit",
                            "load_in_8bit"}) {
        const Json* const value = member(object, key);
        if (value == nullptr || value->is_null() || value->is_object()) continue;
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", key, output::json_text(*value));
    }
}

std::optional<std::int64_t> positive(const Json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    const auto number = value.get<std::int64_t>();
    if (number <= 0 || number > 1'000'000) return std::nullopt;
    return number;
}

/// [128, 128], or "128x128" as compressed-tensors writes too.
std::optional<ScaleBlocks> block_of(const Json* value) {
    if (value == nullptr) return std::nullopt;
    if (value->is_array() && value->size() == 2) {
        const auto rows = positive((*value)[0]);
        const auto columns = positive((*value)[1]);
        if (rows && columns) return ScaleBlocks{*rows, *columns};
    }
    if (!value->is_string()) return std::nullopt;
    auto text = value->get<std::string>();
    std::ranges::replace(text, 'x', ',');
    const Json sizes = parsed("[" + text + "]");
    return sizes.is_array() ? block_of(&sizes) : std::nullopt;
}

void read_quantization(const Json& object, QuantizationConfig& config) {
    if (const Json* const method = member(object, "quant_method"); method != nullptr && method->is_string()) {
        config.method = method->get<std::string>();
    }
    add_words(object, config.words);
    std::set<std::pair<std::int64_t, std::int64_t>> blocks;
    const auto add_block = [&](const Json* value) {
        if (const auto block = block_of(value)) blocks.emplace(block->rows, block->columns);
    };
    add_block(member(object, "weight_block_size"));
    const auto add_weights = [&](const std::string& name, const Json& group) {
        const Json* const weights = member(group, group.contains("weights") ? "weights" : "weight");
        if (weights == nullptr) return;
        std::string words;
        for (const Json& one : weights->is_array() ? *weights : Json::array({*weights})) add_words(one, words);
        config.words += fmt::format("{}{}: weights {}", config.words.empty() ? "" : "; ", name, words);
        add_block(member(*weights, "block_structure"));
    };
    if (const Json* const groups = member(object, "config_groups"); groups != nullptr && groups->is_object()) {
        for (const auto& [name, group] : groups->items()) add_weights(name, group);
    }
    for (const char* name : {"global_quant_config", "layer_quant_config"}) {
        if (const Json* const group = member(object, name)) add_weights(name, *group);
    }
    if (blocks.size() == 1) config.blocks = ScaleBlocks{blocks.begin()->first, blocks.begin()->second};
}

void read_sizes(const Json& object, QuantizationConfig& config) {
    const auto add = [&](const char* key, std::set<std::int64_t>& sizes) {
        const Json* const value = member(object, key);
        if (value == nullptr) return;
        if (const auto size = positive(*value)) sizes.insert(*size);
    };
    for (const char* key : {"hidden_size", "d_model", "dim", "n_embd"}) add(key, config.hidden);
    for (const char* key :
         {"intermediate_size", "moe_intermediate_size", "intermediate_size_mlp", "shared_expert_intermediate_size",
          "moe_shared_expert_intermediate_size", "expert_intermediate_size", "ffn_hidden_size"}) {
        add(key, config.inner);
    }
}

/// A conversion (config_text.h) has its input's words for the tensors that it left as they were.
const Json* words_for_kept(const Json* how) {
    while (how != nullptr) {
        const Json* const kept = member(*how, "kept");
        if (kept == nullptr) break;
        const Json* before = member(*kept, "quantization_config");
        if (before == nullptr) {
            const Json* const modelopt = member(*kept, modelopt_name);
            before = modelopt == nullptr ? nullptr : member(*modelopt, "quantization");
        }
        if (before == nullptr) break;
        how = before;
    }
    return how;
}

}  // namespace

QuantizationConfig quantization_config(const Checkpoint& checkpoint) {
    QuantizationConfig config;
    const Json whole = parsed(checkpoint.config());
    std::vector<const Json*> parts{&whole};
    for (const char* part : {"text_config", "language_config", "llm_config", "thinker_config"}) {
        if (const Json* const inner = member(whole, part)) parts.push_back(inner);
    }
    const Json* how = nullptr;
    for (const Json* part : parts) {
        read_sizes(*part, config);
        for (const char* key : {"quantization_config", "compression_config"}) {
            if (how == nullptr) how = member(*part, key);
        }
    }
    const Json modelopt = parsed_file(std::filesystem::path(checkpoint.folder()) / modelopt_name);
    if (how == nullptr) how = member(modelopt, "quantization");
    how = words_for_kept(how);
    if (how != nullptr) read_quantization(*how, config);
    return config;
}

}  // namespace tilewright::safetensors
