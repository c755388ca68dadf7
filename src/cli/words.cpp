#include "cli/words.h"

#include <tilewright/error.h>

#include <algorithm>

#include "cli/commands.h"
#include "output/table.h"
#include "verify/choices.h"

namespace tilewright::cli {
namespace {

const std::vector<Backend> all_backends{Backend::automatic, Backend::cpu, Backend::hopper};

template <typename Value>
std::vector<std::string> words_of(const std::vector<Value>& values) {
    std::vector<std::string> list;
    list.reserve(values.size());
    for (Value value : values) list.emplace_back(name(value));
    return list;
}

template <typename Value>
std::optional<Value> parse(const std::vector<Value>& values, const std::string& word) {
    for (Value value : values) {
        if (name(value) == word) return value;
    }
    return std::nullopt;
}

}  // namespace

std::vector<std::string> grouping_words() { return words_of(verify::all_groupings()); }
std::vector<std::string> layout_words() { return words_of(verify::all_layouts()); }
std::vector<std::string> output_words() { return words_of(verify::all_outputs()); }
std::vector<std::string> arithmetic_words() { return words_of(verify::all_arithmetics()); }
std::vector<std::string> backend_words() { return words_of(all_backends); }

std::vector<std::string> device_words() {
    std::vector<std::string> list;
    for (const DeviceDescription& device : known_devices()) list.push_back(device.name);
    return list;
}

CLI::Validator known_device() {
    const std::vector<std::string> names = device_words();
    return known_by(
        "device",
        [names](const std::string& text) {
            return is_device_file(text) || std::ranges::find(names, text) != names.end();
        },
        output::joined(names) + " or a device file, e.g. ./my_h100.tsv");
}

DeviceDescription device_of(const std::string& name_or_path) {
    if (!is_device_file(name_or_path)) return device_named(name_or_path);
    try {
        return read_device(name_or_path);
    } catch (const Error& error) {
        throw UsageError(error.what());
    }
}

std::optional<Grouping> parse_grouping(const std::string& word) { return parse(verify::all_groupings(), word); }
std::optional<Layout> parse_layout(const std::string& word) { return parse(verify::all_layouts(), word); }
std::string arithmetic_word(const std::string& word) { return word == "hopper" ? "bit_exact" : word; }
std::optional<Arithmetic> parse_arithmetic(const std::string& word) { return parse(verify::all_arithmetics(), word); }
std::optional<Backend> parse_backend(const std::string& word) { return parse(all_backends, word); }

std::string full_recipe(const std::string& word) {
    if (word == "1d2d") return "1x128:128x128";
    if (word == "1d1d") return "1x128:1x128";
    if (word == "tensor" || word == "row") return word + ":" + word;
    return word;
}

bool is_known_recipe(const std::string& text) {
    const std::optional<Recipe> recipe = parse_recipe(text);
    return recipe && is_accepted(*recipe);
}

}  // namespace tilewright::cli
