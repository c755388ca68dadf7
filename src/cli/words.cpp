#include "cli/words.h"

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

const std::vector<Grouping>& all_groupings() {
    static const std::vector<Grouping> list{Grouping::dense,
                                            Grouping::batched,
                                            Grouping::m_grouped_indices,
                                            Grouping::m_grouped_offsets,
                                            Grouping::m_grouped_aligned_offsets,
                                            Grouping::m_grouped_masked,
                                            Grouping::k_grouped};
    return list;
}

const std::vector<Layout>& all_layouts() {
    static const std::vector<Layout> list{Layout::nt, Layout::nn, Layout::tn, Layout::tt};
    return list;
}

const std::vector<Format>& all_outputs() {
    static const std::vector<Format> list{Format::bf16, Format::f16, Format::f32};
    return list;
}

const std::vector<Arithmetic>& all_arithmetics() {
    static const std::vector<Arithmetic> list{Arithmetic::fast, Arithmetic::bit_exact};
    return list;
}

std::vector<std::string> grouping_words() { return words_of(all_groupings()); }
std::vector<std::string> layout_words() { return words_of(all_layouts()); }
std::vector<std::string> output_words() { return words_of(all_outputs()); }
std::vector<std::string> arithmetic_words() { return words_of(all_arithmetics()); }
std::vector<std::string> backend_words() { return words_of(all_backends); }

std::optional<Grouping> parse_grouping(const std::string& word) { return parse(all_groupings(), word); }
std::optional<Layout> parse_layout(const std::string& word) { return parse(all_layouts(), word); }
std::string arithmetic_word(const std::string& word) { return word == "hopper" ? "bit_exact" : word; }
std::optional<Arithmetic> parse_arithmetic(const std::string& word) { return parse(all_arithmetics(), word); }
std::optional<Backend> parse_backend(const std::string& word) { return parse(all_backends, word); }

bool is_known_recipe(const std::string& text) {
    const std::optional<Recipe> recipe = parse_recipe(text);
    return recipe && is_accepted(*recipe);
}

std::string recipe_words() {
    return "a:b with sides tensor, row, 1x128, 128x128 (b only), mxfp8, mxfp4, nvfp4, bf16, f16, f32, e.g. "
           "1x128:128x128, row:row, mxfp8:mxfp4, bf16:nvfp4, e5m2.row:row";
}

}  // namespace tilewright::cli
