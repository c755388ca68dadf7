// Formats and recipes: what an operand's values and scales may be, and which operands go together.
#include "formats/recipe_of.h"
#include "problem/checks.h"

#include <algorithm>
#include <array>

namespace tilewright::validation {
namespace {

constexpr std::array value_formats{Format::e4m3, Format::e5m2, Format::e2m1, Format::bf16, Format::f16, Format::f32};
constexpr std::array scale_formats{Format::f32, Format::ue8m0, Format::ue4m3};
constexpr std::array granularities{Granularity::none,        Granularity::tensor,        Granularity::row,
                                   Granularity::block_1x128, Granularity::block_128x128, Granularity::block_1x32,
                                   Granularity::block_1x16};

struct NamedOperand {
    std::string name;
    const Operand* operand;
};

bool takes(Format values, Granularity granularity) {
    return std::any_of(scale_formats.begin(), scale_formats.end(), [&](Format scales) {
        return is_accepted(OperandRecipe{values, granularity, scales});
    });
}

void check_format(std::string_view name, const Tensor& tensor, const std::vector<Format>& allowed, Findings& findings) {
    if (!tensor.given() || std::find(allowed.begin(), allowed.end(), tensor.format) != allowed.end()) return;
    std::vector<std::string> words;
    words.reserve(allowed.size());
    for (Format format : allowed) words.emplace_back(tilewright::name(format));
    findings.add({.operand = std::string(name),
                  .given = std::string(tilewright::name(tensor.format)),
                  .expected = either(words),
                  .advice = {}});
}

/// Whether the side is valid by itself, except for the format of its scales.
bool check_granularity(const NamedOperand& side, Findings& findings) {
    const Format values = side.operand->values.format;
    const Granularity granularity = side.operand->granularity;
    const bool known = std::find(value_formats.begin(), value_formats.end(), values) != value_formats.end();
    if (!known || takes(values, granularity)) return known;
    std::vector<std::string> words;
    for (Granularity other : granularities) {
        if (takes(values, other)) words.emplace_back(name(other));
    }
    findings.add({.operand = side.name + ".granularity",
                  .given = std::string(name(granularity)),
                  .expected = either(words) + " for " + std::string(name(values)) + " values",
                  .advice = {}});
    return false;
}

bool check_scale_format(const NamedOperand& side, Findings& findings) {
    const OperandRecipe recipe = recipe_of(*side.operand);
    if (!side.operand->scales.given()) return false;
    if (is_accepted(recipe)) return true;
    std::vector<std::string> words;
    for (Format scales : scale_formats) {
        if (is_accepted(OperandRecipe{recipe.values, recipe.granularity, scales})) words.emplace_back(name(scales));
    }
    findings.add({.operand = side.name + ".scales",
                  .given = std::string(name(recipe.scales)),
                  .expected = either(words) + " for " + std::string(name(recipe.granularity)) + " scales of " +
                              std::string(name(recipe.values)),
                  .advice = {}});
    return false;
}

/// True if the side is complete and in the list, so that the pair can be judged.
bool check_operand_formats(const NamedOperand& side, Findings& findings) {
    if (!side.operand->values.given()) return false;
    if (side.operand->granularity == Granularity::block_1x16) {
        check_format(side.name + ".tensor_scale", side.operand->tensor_scale, {Format::f32}, findings);
    }
    check_format(side.name + ".values", side.operand->values, {value_formats.begin(), value_formats.end()}, findings);
    if (!check_granularity(side, findings)) return false;
    return side.operand->granularity == Granularity::none || check_scale_format(side, findings);
}

/// "row" or, without scales, the format: the part that decides whether two sides fit.
std::string short_name(const OperandRecipe& side) {
    return std::string(side.granularity == Granularity::none ? name(side.values) : name(side.granularity));
}

void add_once(std::vector<std::string>& words, const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

/// (fp8 without scales is, by somebody who multiplied them into the other side.)
bool is_quantised(const OperandRecipe& side) {
    return side.values != Format::f32 && side.values != Format::bf16 && side.values != Format::f16;
}

/// The first of the usual recipes by which the side that is not quantized goes with the other; empty if none does.
std::string usual_recipe(bool of_a, const Recipe& recipe) {
    for (const char* word : {of_a ? "1x128" : "128x128", "row", "tensor", "mxfp8"}) {
        const OperandRecipe side = *parse_operand_recipe(word);
        if (is_accepted(of_a ? Recipe{side, recipe.b} : Recipe{recipe.a, side})) return word;
    }
    return "";
}

/// The likely intention of a caller whose pair is not supported.
std::string advice_on(const Recipe& recipe) {
    const bool scaled = recipe.a.granularity != Granularity::none && recipe.b.granularity != Granularity::none;
    if (scaled && is_accepted({recipe.b, recipe.a}))
        return "did you swap a and b? a holds the activations, b the weights";
    if (is_quantised(recipe.a) == is_quantised(recipe.b)) return "";
    const bool of_a = is_quantised(recipe.b);
    const std::string side = of_a ? "a" : "b", word = usual_recipe(of_a, recipe);
    if (word.empty()) return "";
    return "quantize " + side + ", e.g. to " + word + " (tilewright.quantize(" + side + ", '" + word + "') in Python)";
}

void check_pair(const Recipe& recipe, Findings& findings) {
    if (is_accepted(recipe)) return;
    std::vector<std::string> with_a;
    std::vector<std::string> with_b;
    for (const Recipe& other : all_recipes()) {
        if (other.a == recipe.a) add_once(with_a, short_name(recipe.a) + ":" + short_name(other.b));
        if (other.b == recipe.b) add_once(with_b, short_name(other.a) + ":" + short_name(recipe.b));
    }
    for (const std::string& word : with_b) add_once(with_a, word);
    findings.add({.operand = "recipe",
                  .given = short_name(recipe.a) + ":" + short_name(recipe.b),
                  .expected = either(with_a),
                  .advice = advice_on(recipe)});
}

}  // namespace

void check_formats(const Problem& p, Findings& findings) {
    const NamedOperand a{.name = "a", .operand = &p.a};
    const NamedOperand b{.name = "b", .operand = &p.b};
    const bool a_is_fine = check_operand_formats(a, findings);
    const bool b_is_fine = check_operand_formats(b, findings);
    if (a_is_fine && b_is_fine) check_pair({recipe_of(p.a), recipe_of(p.b)}, findings);
    check_format("d", p.d, {Format::bf16, Format::f16, Format::f32}, findings);
    if (p.c.given() && p.d.given() && p.c.format != p.d.format) {
        findings.add({.operand = "c",
                      .given = std::string(name(p.c.format)),
                      .expected = std::string(name(p.d.format)) + ", the format of d",
                      .advice = {}});
    }
    check_format("bias", p.bias, {Format::f32, Format::bf16}, findings);
    if (takes_sizes(p.groups.grouping)) {
        check_format("groups.sizes", p.groups.sizes, {Format::i32, Format::i64}, findings);
    }
}

}  // namespace tilewright::validation
