#include "emulator/row_call.h"

#include "plan/tsv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using Names = std::map<std::string, std::int64_t, std::less<>>;

/// Rows and columns of D in a tile of the kernel and in a cluster's tiles.
Names sizes_of(const planner::PlannedTile& tile) {
    const auto& [m, n, warpgroups] = tile.shape;
    const std::int64_t rows = tile.swap_ab ? n : m, columns = tile.swap_ab ? m : n;
    return {{"rows", rows},
            {"columns", columns},
            {"cluster_rows", rows * tile.cluster.rows},
            {"cluster_columns", columns * tile.cluster.columns},
            {"cluster", tile.cluster.size()},
            {"lowest", std::numeric_limits<std::int64_t>::min()},
            {"highest", std::numeric_limits<std::int64_t>::max()}};
}

std::int64_t number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw std::invalid_argument(fmt::format("got '{}'; expected a number or a size of the tile", text));
    return value;
}

/// "2*rows+65", "rows-1", "-1", "highest".
std::int64_t size(std::string_view text, const Names& names) {
    std::int64_t sum = 0;
    while (!text.empty()) {
        const bool negative = text.front() == '-';
        if (negative || text.front() == '+') text.remove_prefix(1);
        const std::size_t end = std::min(text.find_first_of("+-"), text.size());
        std::string_view term = text.substr(0, end);
        text.remove_prefix(end);
        std::int64_t factor = 1;
        if (const std::size_t star = term.find('*'); star != std::string_view::npos) {
            factor = number(term.substr(0, star));
            term.remove_prefix(star + 1);
        }
        const auto named = names.find(term);
        const std::int64_t value = factor * (named != names.end() ? named->second : number(term));
        sum += negative ? -value : value;
    }
    return sum;
}

/// "0,1,127"; "31x0" for 31 zeros, "24x0:1:-1" for 24 times 0, 1, -1.
std::vector<std::int64_t> sizes(std::string_view text, const Names& names) {
    std::vector<std::int64_t> list;
    for (std::string_view part : planner::split(text, ',')) {
        const std::size_t times = part.find('x');
        const std::int64_t count = times == std::string_view::npos ? 1 : number(part.substr(0, times));
        if (times != std::string_view::npos) part.remove_prefix(times + 1);
        for (std::int64_t i = 0; i < count; ++i) {
            for (const std::string_view each : planner::split(part, ':')) list.push_back(size(each, names));
        }
    }
    return list;
}

/// "ELEMENT/ROW/GROUP", as check::describe writes it.
check::Gaps gaps(std::string_view text) {
    const std::vector<std::string_view> parts = planner::split(text, '/');
    if (parts.size() != 3) throw std::invalid_argument(fmt::format("got '{}'; expected three gaps", text));
    return {.element = number(parts[0]), .row = number(parts[1]), .group = number(parts[2])};
}

/// By way of double: a number that is subnormal in float is one.
float real(std::string_view text) { return static_cast<float>(std::stod(std::string(text))); }

Format format(std::string_view text) {
    const std::optional<Format> parsed = parse_format(text);
    if (!parsed) throw std::invalid_argument(fmt::format("got '{}'; expected a format", text));
    return *parsed;
}

template <class Value>
bool take(const std::vector<Value>& values, std::string_view word, Value& value) {
    for (const Value each : values) {
        if (name(each) != word) continue;
        value = each;
        return true;
    }
    return false;
}

/// "ONE_ROW_IN/SPREAD" or "ONE_ROW_IN/SPREAD/odd".
check::FarScales far_scales(std::string_view text) {
    const std::vector<std::string_view> parts = planner::split(text, '/');
    return {.one_row_in = static_cast<int>(number(parts.at(0))),
            .spread = static_cast<int>(number(parts.at(1))),
            .odd = parts.size() > 2};
}

/// The first of "offsets/batched" that is a grouping of the kernel.
Grouping grouping(Groups groups, std::string_view text) {
    struct Word {
        std::string_view text;
        Grouping grouping;
        Groups groups;
    };
    static constexpr Word words[] = {{"dense", Grouping::dense, Groups::none},
                                     {"batched", Grouping::batched, Groups::none},
                                     {"masked", Grouping::m_grouped_masked, Groups::rows},
                                     {"offsets", Grouping::m_grouped_offsets, Groups::rows},
                                     {"aligned", Grouping::m_grouped_aligned_offsets, Groups::rows},
                                     {"indices", Grouping::m_grouped_indices, Groups::rows},
                                     {"k_aligned", Grouping::k_grouped_aligned_offsets, Groups::k_aligned},
                                     {"k_groups", Grouping::k_grouped, Groups::k_anywhere},
                                     {"flat", Grouping::k_grouped_flat, Groups::k_anywhere}};
    for (const std::string_view part : planner::split(text, '/')) {
        for (const Word& word : words) {
            if (part == word.text && groups == word.groups) return word.grouping;
        }
    }
    throw std::invalid_argument(
        fmt::format("got '{}'; expected a grouping of the kernel, which is {}", text, name(groups)));
}

Grouping usual_grouping(const KernelRow& kernel) {
    // Where groups begin at any row, TMA loads no scales along m.
    const bool separate = kernel.serves == Serves::bf16 && kernel.recipes[0].find("1x128") != std::string::npos;
    return grouping(kernel.groups, separate ? "dense/masked/k_aligned/flat" : "dense/offsets/k_aligned/flat");
}

/// The defaults of a line: they follow from what the kernel serves.
RowCall usual_call(const KernelRow& kernel, int number) {
    RowCall call;
    CaseSpec& spec = call.spec;
    spec.grouping = usual_grouping(kernel);
    spec.layout = kernel.layout;
    spec.groups = kernel.groups == Groups::none ? 1 : 3;
    spec.output = kernel.serves == Serves::f32 ? Format::f32 : Format::bf16;
    if (kernel.unpromoted) spec.accumulation = Accumulation::unpromoted;
    spec.a_scales_transposed = kernel.serves == Serves::bf16 || kernel.serves == Serves::f32;
    spec.b_scales_transposed = kernel.serves != Serves::any;
    if (kernel.operands == Operands::wide) spec.far_scales = {.one_row_in = 2, .spread = 254};
    const int blocks = kernel.tile.cluster.size(), turn = number % 4;
    call.run = {.sms = blocks == 1 ? 1 + number % 5 : blocks * (1 + number % 2) + number % 2,
                .tma = turn < 2 ? Timing::early : Timing::late,
                .wgmma = turn % 2 == 0 ? Timing::early : Timing::late,
                .seed = static_cast<std::uint64_t>(number % 3)};
    call.prepares = kernel.operands == Operands::unpacked || kernel.operands == Operands::raw ||
                    kernel.operands == Operands::decoded || kernel.operands == Operands::expanded;
    call.packs = kernel.operands == Operands::expanded;
    return call;
}

using Setter = std::function<void(RowCall&, std::string_view, const Names&)>;

/// "word=value": each has the name of the field that it sets, as check::describe writes it.
const std::map<std::string, Setter, std::less<>>& values() {
    using Text = std::string_view;
    static const std::map<std::string, Setter, std::less<>> setters{
        {"m", [](RowCall& c, Text t, const Names& n) { c.spec.m = size(t, n); }},
        {"n", [](RowCall& c, Text t, const Names& n) { c.spec.n = size(t, n); }},
        {"k", [](RowCall& c, Text t, const Names& n) { c.spec.k = size(t, n); }},
        {"groups", [](RowCall& c, Text t, const Names& n) { c.spec.groups = size(t, n); }},
        {"group_sizes", [](RowCall& c, Text t, const Names& n) { c.spec.group_sizes = sizes(t, n); }},
        {"size_entries", [](RowCall& c, Text t, const Names& n) { c.spec.size_entries = sizes(t, n); }},
        {"size_multiple", [](RowCall& c, Text t, const Names& n) { c.spec.size_multiple = size(t, n); }},
        {"size_format", [](RowCall& c, Text t, const Names&) { c.spec.size_format = format(t); }},
        {"alignment", [](RowCall& c, Text t, const Names& n) { c.spec.alignment = size(t, n); }},
        {"index_alignment", [](RowCall& c, Text t, const Names& n) { c.spec.index_alignment = size(t, n); }},
        {"seed", [](RowCall& c, Text t, const Names& n) { c.spec.seed = static_cast<std::uint64_t>(size(t, n)); }},
        {"bias_format", [](RowCall& c, Text t, const Names&) { c.spec.bias_format = format(t); }},
        {"alpha", [](RowCall& c, Text t, const Names&) { c.spec.alpha = real(t); }},
        {"a_gaps", [](RowCall& c, Text t, const Names&) { c.spec.a_gaps = gaps(t); }},
        {"b_gaps", [](RowCall& c, Text t, const Names&) { c.spec.b_gaps = gaps(t); }},
        {"a_scale_gaps", [](RowCall& c, Text t, const Names&) { c.spec.a_scale_gaps = gaps(t); }},
        {"b_scale_gaps", [](RowCall& c, Text t, const Names&) { c.spec.b_scale_gaps = gaps(t); }},
        {"d_gaps", [](RowCall& c, Text t, const Names&) { c.spec.d_gaps = gaps(t); }},
        {"bias_gaps", [](RowCall& c, Text t, const Names&) { c.spec.bias_gaps = gaps(t); }},
        {"a_scales", [](RowCall& c, Text t, const Names&) { c.spec.a_scales_transposed = t == "m"; }},
        {"b_scales", [](RowCall& c, Text t, const Names&) { c.spec.b_scales_transposed = t == "n"; }},
        {"far_scales", [](RowCall& c, Text t, const Names&) { c.spec.far_scales = far_scales(t); }},
        {"any_tokens",
         [](RowCall& c, Text t, const Names&) { c.data.any_tokens = std::stoul(std::string(t), nullptr, 16); }},
        {"sms", [](RowCall& c, Text t, const Names& n) { c.run.sms = static_cast<int>(size(t, n)); }},
        {"tma", [](RowCall& c, Text t, const Names&) { c.run.tma = t == "late" ? Timing::late : Timing::early; }},
        {"wgmma", [](RowCall& c, Text t, const Names&) { c.run.wgmma = t == "late" ? Timing::late : Timing::early; }},
        {"threads", [](RowCall& c, Text t, const Names& n) { c.run.seed = static_cast<std::uint64_t>(size(t, n)); }},
    };
    return setters;
}

const std::map<std::string_view, void (*)(RowCall&)>& flags() {
    static const std::map<std::string_view, void (*)(RowCall&)> setters{
        {"with_c", [](RowCall& c) { c.spec.with_c = true; }},
        {"in_place", [](RowCall& c) { c.spec.with_c = c.spec.in_place = true; }},
        {"with_bias", [](RowCall& c) { c.spec.with_bias = true; }},
        {"shared_bias", [](RowCall& c) { c.spec.with_bias = c.spec.shared_bias = true; }},
        {"shared_scales", [](RowCall& c) { c.spec.shared_scales = true; }},
        {"guard_pages", [](RowCall& c) { c.spec.guard_pages = true; }},
        {"special_scales", [](RowCall& c) { c.data.special_scales = true; }},
        {"special_c", [](RowCall& c) { c.data.special_c = c.spec.with_c = true; }},
        {"special_bias", [](RowCall& c) { c.data.special_bias = c.spec.with_bias = true; }},
        {"copies_scales", [](RowCall& c) { c.copies_scales = true; }},
        {"packs", [](RowCall& c) { c.prepares = c.packs = true; }},
        {"prepares", [](RowCall& c) { c.prepares = true; }},
        {"counts_products", [](RowCall& c) { c.counts_products = true; }},
    };
    return setters;
}

const std::vector<check::Distribution>& distributions() {
    static const std::vector<check::Distribution> list = [] {
        std::vector<check::Distribution> all = check::random_distributions();
        all.push_back(check::Distribution::distinct_scales);
        return all;
    }();
    return list;
}

void read_word(const KernelRow& kernel, std::string_view word, const Names& names, RowCall& call) {
    CaseSpec& spec = call.spec;
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
        if (const auto flag = flags().find(word); flag != flags().end()) return flag->second(call);
        if (take({Format::bf16, Format::f16, Format::f32}, word, spec.output)) return;
        if (take({Layout::nt, Layout::nn, Layout::tn, Layout::tt}, word, spec.layout) ||
            take(distributions(), word, spec.distribution))
            return;
        spec.grouping = grouping(kernel.groups, word);
        const bool in_groups = spec.grouping != Grouping::dense;
        spec.groups = !in_groups ? 1 : std::max<std::int64_t>(spec.groups, 3);
        return;
    }
    const auto value = values().find(word.substr(0, equals));
    if (value == values().end())
        throw std::invalid_argument(fmt::format("got '{}'; expected a word of README.md", word));
    value->second(call, word.substr(equals + 1), names);
}

/// Draws follow from the texts of both lines, so that lines that are added or moved change no other draws.
std::uint64_t seed_of(const KernelRow& kernel, const CallRow& call) {
    std::uint64_t hash = 14695981039346656037U;
    const auto add = [&](std::string_view text) {
        for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    };
    add(kernel.text);
    for (const std::string& word : call.words) add(word);
    return hash % 1000000;
}

std::int64_t up_to(std::int64_t size, std::int64_t multiple) { return (multiple - size % multiple) % multiple; }

/// Rows of operands that TMA loads begin at multiples of 16 bytes, and so do rows of scales along m.
void pad_rows(const KernelRow& kernel, const CallRow& call, CaseSpec& spec) {
    const auto gives = [&](std::string_view word) {
        return std::ranges::any_of(call.words, [&](const std::string& each) { return each.starts_with(word); });
    };
    const auto pad = [](const OperandRecipe& recipe, std::int64_t length, check::Gaps& gaps) {
        if (recipe.values != Format::e2m1) {
            const std::int64_t of_16_bytes = 128 / bits(recipe.values);
            gaps.row = of_16_bytes + up_to(length, of_16_bytes);
        }
    };
    const bool flat = spec.grouping == Grouping::k_grouped_flat;
    if (!gives("a_gaps=") && !flat) pad(spec.recipe.a, a_is_transposed(spec.layout) ? spec.m : spec.k, spec.a_gaps);
    if (!gives("b_gaps=") && !flat) pad(spec.recipe.b, b_is_transposed(spec.layout) ? spec.n : spec.k, spec.b_gaps);
    const bool of_rows = spec.recipe.a.granularity == Granularity::block_1x128;
    if (kernel.serves == Serves::bf16 && of_rows && !gives("a_scale_gaps=")) spec.a_scale_gaps.row = up_to(spec.m, 4);
}

/// "recipe=2" is the second recipe of the kernel's line, or the last; "powers" scales of powers of two.
std::string recipe_of(const KernelRow& kernel, const CallRow& call) {
    std::size_t index = 1;
    bool powers = false;
    for (const std::string& word : call.words) {
        if (word.starts_with("recipe=")) index = static_cast<std::size_t>(number(std::string_view(word).substr(7)));
        powers = powers || word == "powers";
    }
    std::string text = kernel.recipes[std::min(index, kernel.recipes.size()) - 1];
    if (!powers) return text;
    for (const std::string_view scales : {"128x128", "1x128"}) {
        for (std::size_t at = text.find(scales); at != std::string::npos; at = text.find(scales, at + 1)) {
            text.insert(at + scales.size(), ".ue8m0");
        }
    }
    return text;
}

}  // namespace

RowCall call_of(const KernelRow& kernel, const CallRow& row, int number) {
    try {
        RowCall call = usual_call(kernel, number);
        call.spec.recipe = parse_recipe(recipe_of(kernel, row)).value();
        call.spec.seed = seed_of(kernel, row);
        const Names names = sizes_of(kernel.tile);
        for (const std::string& word : row.words) {
            if (!word.starts_with("recipe=") && word != "powers") read_word(kernel, word, names, call);
        }
        CaseSpec& spec = call.spec;
        if (!spec.group_sizes.empty()) spec.groups = static_cast<std::int64_t>(spec.group_sizes.size());
        if (spec.layout != kernel.layout) call.prepares = true;
        if (spec.recipe.b.values != Format::e2m1 || spec.recipe.b.scales != Format::ue8m0) spec.far_scales = {};
        pad_rows(kernel, row, spec);
        return call;
    } catch (const std::exception& error) {
        throw std::invalid_argument(fmt::format("{}: {}", row.place, error.what()));
    }
}

check::CaseSpec spec_of(const KernelRow& kernel, std::string_view words) {
    CallRow row{.place = "a test's call", .words = {}};
    for (const std::string_view word : planner::split(words, ' ')) row.words.emplace_back(word);
    return call_of(kernel, row, 0).spec;
}

}  // namespace tilewright::tests
