#include "verify/cases.h"

#include <algorithm>
#include <array>

#include "problem/gpu_routes.h"
#include "verify/choices.h"

namespace tilewright::verify {
namespace {

struct RealSize {
    std::int64_t n;
    std::int64_t k;
};

// Linear layers of the models' published configurations (n outputs, k inputs).
constexpr std::array real_sizes{
    RealSize{2112, 7168},  // DeepSeek-V3
    RealSize{4096, 1536},  // Qwen3-235B
    RealSize{2880, 2880},  // gpt-oss
    RealSize{7168, 2048},  // DeepSeek-V3
    RealSize{1536, 4096},  // Qwen3-235B
};

bool is_unscaled(const Family& family) { return family.a == Granularity::none && family.b == Granularity::none; }

bool only_fast(const Recipe& recipe) {
    const auto wide = [](Format format) { return format == Format::f16 || format == Format::f32; };
    return wide(recipe.a.values) || wide(recipe.b.values);
}

/// Random and exact distributions in turn; half of the turns are of one sign.
check::Distribution distribution_of_turn(std::size_t turn) {
    static const std::array turns{
        check::Distribution::exact_grid, check::Distribution::abs_normal,      check::Distribution::normal,
        check::Distribution::uniform,    check::Distribution::distinct_scales, check::Distribution::outliers,
        check::Distribution::log_normal, check::Distribution::normal_cubed,    check::Distribution::ones,
        check::Distribution::sparse};
    return turns[turn % turns.size()];
}

/// Sizes that end within a block: 128 + 8 columns (also rows, where A has such blocks) and 2 x 128 + 16 k-elements. All
/// are even, so that e2m1 can be packed either way.
void set_small_sizes(check::CaseSpec& spec) {
    const bool blocks_of_a = spec.recipe.a.granularity == Granularity::block_128x128;
    spec.m = blocks_of_a ? 136 : 6;
    spec.n = spec.recipe.b.granularity == Granularity::block_128x128 ? 136 : 18;
    spec.k = 272;
    spec.groups = 3;
    spec.alignment = 8;
    switch (spec.grouping) {
        case Grouping::dense: spec.groups = 1; break;
        case Grouping::m_grouped_indices:
        case Grouping::m_grouped_offsets: spec.m = blocks_of_a ? 152 : 16; break;
        case Grouping::m_grouped_aligned_offsets: spec.m = blocks_of_a ? 152 : 24; break;
        case Grouping::k_grouped:
        case Grouping::k_grouped_flat: spec.k = 400; break;
        case Grouping::k_grouped_aligned_offsets:
            spec.k = 400;
            spec.alignment = 128;
            break;
        case Grouping::batched:
        case Grouping::m_grouped_masked: break;
    }
}

check::CaseSpec small_spec(check::CaseSpec spec, std::size_t turn) {
    set_small_sizes(spec);
    spec.distribution = distribution_of_turn(turn);
    spec.seed = turn + 1;
    spec.with_bias = turn % 5 == 2 && !is_k_grouped(spec.grouping);
    spec.shared_bias = spec.with_bias && turn % 2 == 1;
    if (turn % 3 == 0) spec.bias_format = Format::f32;
    if (turn % 2 == 1) spec.size_format = Format::i64;
    spec.with_c = turn % 3 == 1 && !spec.with_bias;
    spec.in_place = spec.with_c && turn % 2 == 1;
    spec.alpha = turn % 4 == 3 ? 0.5F : 1.0F;
    if (turn % 2 == 1 && !is_k_grouped(spec.grouping)) spec.far_scales = {.one_row_in = 4, .spread = 24};
    // Operands along their rows have a pitch of a multiple of 16 bytes of fp8, so that TMA can load them.
    const auto gap = [](std::int64_t size) { return (16 - size % 16) % 16; };
    if (a_is_transposed(spec.layout)) spec.a_gaps.row = gap(spec.m);
    if (b_is_transposed(spec.layout)) spec.b_gaps.row = gap(spec.n);
    return spec;
}

std::vector<Arithmetic> possible(std::vector<Arithmetic> arithmetics, const Recipe& recipe) {
    if (only_fast(recipe)) std::erase(arithmetics, Arithmetic::bit_exact);
    return arithmetics;
}

/// Neighbouring rows of the table have different models, variants of the recipe, and signs of the data.
VerifyCase real_case(const Family& family, const std::vector<Arithmetic>& arithmetics) {
    const auto position = static_cast<std::size_t>(family.grouping) + static_cast<std::size_t>(family.a) * 3 +
                          static_cast<std::size_t>(family.b);
    const RealSize& size = real_sizes[position % real_sizes.size()];
    const Recipe& recipe = family.recipes[position % family.recipes.size()];
    check::CaseSpec spec{.grouping = family.grouping, .recipe = recipe, .m = 16, .n = size.n, .k = size.k, .groups = 2};
    spec.alignment = 8;
    spec.distribution = position % 2 == 0 ? check::Distribution::abs_normal : check::Distribution::normal;
    spec.seed = position + 1;
    if (family.grouping == Grouping::dense) spec.groups = 1;
    if (is_k_grouped(family.grouping)) {  // the gradient of the weight over a few tokens
        spec.m = size.k;
        spec.k = 160;
        spec.alignment = 128;
    }
    return {.spec = spec, .arithmetics = possible(arithmetics, recipe), .real_size = true};
}

/// Whether the recipe has wide rows that small cases do not.
bool has_wide_rows_of_bf16(const Recipe& recipe) { return is_mxfp4(recipe.b) && is_multiplied_as_bf16(recipe); }

VerifyCase wide_case(const Family& family, const Recipe& recipe, const std::vector<Arithmetic>& arithmetics) {
    check::CaseSpec spec{.grouping = family.grouping, .recipe = recipe};
    set_small_sizes(spec);
    spec.n = 146;
    spec.far_scales = {.one_row_in = 3, .spread = 200};
    spec.seed = static_cast<std::uint64_t>(family.grouping) + 1;
    return {.spec = spec, .arithmetics = possible(arithmetics, recipe), .wide_rows = true};
}

/// Whether all of k may be summed in the tensor core: fp8 with epilogue scales.
bool may_be_unpromoted(const Recipe& recipe) {
    return is_fp8(recipe.a.values) && is_fp8(recipe.b.values) && k_block(recipe.a.granularity) == 0 &&
           k_block(recipe.b.granularity) == 0;
}

VerifyCase unpromoted_case(const Family& family, const Recipe& recipe, const std::vector<Arithmetic>& arithmetics) {
    check::CaseSpec spec{.grouping = family.grouping, .recipe = recipe};
    set_small_sizes(spec);
    spec.distribution = check::Distribution::abs_normal;
    spec.accumulation = Accumulation::unpromoted;
    spec.seed = static_cast<std::uint64_t>(family.grouping) + 1;
    return {.spec = spec, .arithmetics = possible(arithmetics, recipe)};
}

}  // namespace

std::string Family::recipe_name() const {
    if (is_unscaled(*this)) return "unscaled";
    const auto side = [](Granularity granularity) {
        return granularity == Granularity::none ? std::string("unscaled") : std::string(name(granularity));
    };
    return side(a) + ":" + side(b);
}

std::vector<Family> all_families() {
    std::vector<Family> families;
    for (Grouping grouping : all_groupings()) {
        const std::size_t first = families.size();
        for (const Recipe& recipe : all_recipes()) {
            const auto same = [&](const Family& family) {
                return family.a == recipe.a.granularity && family.b == recipe.b.granularity;
            };
            auto family = std::find_if(families.begin() + static_cast<std::ptrdiff_t>(first), families.end(), same);
            if (family == families.end()) {
                families.push_back({.grouping = grouping, .a = recipe.a.granularity, .b = recipe.b.granularity});
                family = families.end() - 1;
            }
            family->recipes.push_back(recipe);
        }
    }
    return families;
}

std::vector<VerifyCase> cases_of(const Family& family, const std::vector<Arithmetic>& arithmetics, bool quick) {
    std::vector<VerifyCase> cases;
    std::size_t turn = 0;
    const auto add = [&](const Recipe& recipe, Layout layout, Format output) {
        cases.push_back({.spec = small_spec(
                             {.grouping = family.grouping, .recipe = recipe, .layout = layout, .output = output}, turn),
                         .arithmetics = possible(arithmetics, recipe)});
        ++turn;
    };
    for (const Recipe& recipe : family.recipes) {
        if (quick) {
            add(recipe, all_layouts()[turn % all_layouts().size()], all_outputs()[turn % all_outputs().size()]);
            continue;
        }
        for (Layout layout : all_layouts()) {
            for (Format output : all_outputs()) add(recipe, layout, output);
        }
    }
    if (!quick || family.grouping == Grouping::dense) cases.push_back(real_case(family, arithmetics));
    for (const Recipe& recipe : family.recipes) {
        if (!has_wide_rows_of_bf16(recipe) || is_k_grouped(family.grouping)) continue;
        cases.push_back(wide_case(family, recipe, arithmetics));
    }
    for (const Recipe& recipe : family.recipes) {
        if (!may_be_unpromoted(recipe) || (quick && recipe != family.recipes.front())) continue;
        cases.push_back(unpromoted_case(family, recipe, arithmetics));
    }
    return cases;
}

std::int64_t accepted_combinations(const std::vector<Arithmetic>& arithmetics) {
    std::int64_t recipes = 0;
    for (const Recipe& recipe : all_recipes()) {
        recipes += std::count_if(arithmetics.begin(), arithmetics.end(), [&](Arithmetic arithmetic) {
            return arithmetic == Arithmetic::fast || !only_fast(recipe);
        });
    }
    return recipes * static_cast<std::int64_t>(all_groupings().size() * all_layouts().size() * all_outputs().size());
}

}  // namespace tilewright::verify
