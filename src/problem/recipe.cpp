// The closed list of recipes, and their names.
#include <tilewright/error.h>
#include <tilewright/recipe.h>

#include <array>

namespace tilewright {
namespace {

constexpr std::array granularities{Granularity::none,        Granularity::tensor,        Granularity::row,
                                   Granularity::block_1x128, Granularity::block_128x128, Granularity::block_1x32,
                                   Granularity::block_1x16};

/// Scales that go without saying, and so without a word in the name.
Format usual_scales(Granularity granularity) {
    if (granularity == Granularity::block_1x32) return Format::ue8m0;
    if (granularity == Granularity::block_1x16) return Format::ue4m3;
    return Format::f32;
}

bool is_scaleless(Format format) { return format == Format::bf16 || format == Format::f16 || format == Format::f32; }

/// fp8 without scales: what they would say is in the other side's values and scales.
bool is_folded(const OperandRecipe& side) { return side.granularity == Granularity::none && is_fp8(side.values); }

bool is_micro_scaled(const OperandRecipe& side) {
    return side.granularity == Granularity::block_1x32 || side.granularity == Granularity::block_1x16;
}

std::vector<OperandRecipe> all_sides() {
    std::vector<OperandRecipe> sides;
    for (Granularity granularity : granularities) {
        for (Format values : {Format::e4m3, Format::e5m2, Format::e2m1, Format::bf16, Format::f16, Format::f32}) {
            for (Format scales : {Format::f32, Format::ue8m0, Format::ue4m3}) {
                const OperandRecipe side{values, granularity, scales};
                if (is_accepted(side)) sides.push_back(side);
            }
        }
    }
    return sides;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::optional<Granularity> parse_granularity(std::string_view text) {
    for (Granularity granularity : granularities) {
        if (granularity != Granularity::none && name(granularity) == text) return granularity;
    }
    return std::nullopt;
}

}  // namespace

std::string_view name(Granularity granularity) {
    switch (granularity) {
        case Granularity::none: return "none";
        case Granularity::tensor: return "tensor";
        case Granularity::row: return "row";
        case Granularity::block_1x128: return "1x128";
        case Granularity::block_128x128: return "128x128";
        case Granularity::block_1x32: return "1x32";
        case Granularity::block_1x16: return "1x16";
    }
    return "unknown granularity";
}

bool is_accepted(const OperandRecipe& side) {
    switch (side.granularity) {
        case Granularity::none: return (is_scaleless(side.values) || is_fp8(side.values)) && side.scales == Format::f32;
        case Granularity::tensor:
        case Granularity::row: return is_fp8(side.values) && side.scales == Format::f32;
        case Granularity::block_1x128:
        case Granularity::block_128x128:
            return is_fp8(side.values) && (side.scales == Format::f32 || side.scales == Format::ue8m0);
        case Granularity::block_1x32:
            return (is_fp8(side.values) || side.values == Format::e2m1) && side.scales == Format::ue8m0;
        case Granularity::block_1x16: return side.values == Format::e2m1 && side.scales == Format::ue4m3;
    }
    return false;
}

bool is_accepted(const Recipe& recipe) {
    const auto& [a, b] = recipe;
    if (!is_accepted(a) || !is_accepted(b) || is_folded(a)) return false;
    if (is_folded(b)) return a.granularity != Granularity::none && !is_micro_scaled(a);
    if (a.granularity == Granularity::block_128x128) return b.granularity == Granularity::block_128x128;
    if (is_micro_scaled(a) || is_micro_scaled(b)) return true;
    if (a.granularity == Granularity::none) return a == b;
    if (a.granularity == Granularity::block_1x128) return b.granularity != Granularity::none;
    return a.granularity == b.granularity;
}

const std::vector<Recipe>& all_recipes() {
    static const std::vector<Recipe> list = [] {
        std::vector<Recipe> recipes;
        const std::vector<OperandRecipe> sides = all_sides();
        for (bool scaleless : {false, true}) {
            for (const OperandRecipe& a : sides) {
                for (const OperandRecipe& b : sides) {
                    const Recipe recipe{a, b};
                    const bool neither_scaled =
                        a.granularity == Granularity::none && b.granularity == Granularity::none;
                    if (neither_scaled == scaleless && is_accepted(recipe)) recipes.push_back(recipe);
                }
            }
        }
        return recipes;
    }();
    return list;
}

std::string name(const OperandRecipe& side) {
    if (side.granularity == Granularity::none) return std::string(name(side.values));
    const bool usual = side.scales == usual_scales(side.granularity);
    if (usual && side.granularity == Granularity::block_1x32) {
        if (side.values == Format::e4m3) return "mxfp8";
        if (side.values == Format::e2m1) return "mxfp4";
    }
    if (usual && side.granularity == Granularity::block_1x16 && side.values == Format::e2m1) return "nvfp4";
    std::string text;
    if (side.values != Format::e4m3) text += std::string(name(side.values)) + ".";
    text += name(side.granularity);
    if (!usual) text += "." + std::string(name(side.scales));
    return text;
}

std::string name(const Recipe& recipe) { return name(recipe.a) + ":" + name(recipe.b); }

std::optional<OperandRecipe> parse_operand_recipe(std::string_view text) {
    if (text == "mxfp8") return OperandRecipe{Format::e4m3, Granularity::block_1x32, Format::ue8m0};
    if (text == "mxfp4") return OperandRecipe{Format::e2m1, Granularity::block_1x32, Format::ue8m0};
    if (text == "nvfp4") return OperandRecipe{Format::e2m1, Granularity::block_1x16, Format::ue4m3};
    std::vector<std::string_view> parts = split(text, '.');
    std::optional<Format> values = parse_format(parts.front());
    if (values && parts.size() == 1) {
        if (!is_scaleless(*values) && !is_fp8(*values)) return std::nullopt;
        return OperandRecipe{*values, Granularity::none, Format::f32};
    }
    if (values) parts.erase(parts.begin());
    const std::optional<Granularity> granularity = parse_granularity(parts.front());
    if (!granularity || parts.size() > 2) return std::nullopt;
    OperandRecipe side{values.value_or(Format::e4m3), *granularity, usual_scales(*granularity)};
    if (!values && *granularity == Granularity::block_1x16) side.values = Format::e2m1;
    if (parts.size() == 2) {
        const std::optional<Format> scales = parse_format(parts[1]);
        if (!scales) return std::nullopt;
        side.scales = *scales;
    }
    return side;
}

std::optional<Recipe> parse_recipe(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() > 2) return std::nullopt;
    const std::optional<OperandRecipe> a = parse_operand_recipe(parts.front());
    const std::optional<OperandRecipe> b = parse_operand_recipe(parts.back());
    if (!a || !b) return std::nullopt;
    return Recipe{*a, *b};
}

std::string recipe_words() {
    return "a:b, each one of tensor, row, 1x128, 128x128 (for a only with 128x128 for b), mxfp8, mxfp4, nvfp4, bf16, "
           "f16, f32 and e4m3 (for b only), e.g. 1x128:128x128, row:row, mxfp8:mxfp4, bf16:nvfp4, e5m2.row:row";
}

Recipe recipe_named(std::string_view text) {
    const std::optional<Recipe> recipe = parse_recipe(text);
    if (recipe && is_accepted(*recipe)) return *recipe;
    throw Error({Finding{.operand = "recipe",
                         .given = "'" + std::string(text) + "'",
                         .expected = recipe_words(),
                         .advice = recipe ? "both sides are valid, but this pair is not supported" : ""}});
}

}  // namespace tilewright
