#include "cli/moe_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/words.h"
#include "output/table.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::cli {
namespace {

template <class List>
std::vector<std::string> names_of(const List& list) {
    std::vector<std::string> words;
    std::transform(list.begin(), list.end(), std::back_inserter(words),
                   [](auto value) { return std::string(name(value)); });
    return words;
}

template <class List>
auto named(const List& list, const std::string& word) {
    return *std::find_if(list.begin(), list.end(), [&](auto value) { return name(value) == word; });
}

/// Without memory.
Tensor shaped(Format format, const Dims& shape) {
    Tensor tensor = row_major(static_cast<void*>(nullptr), format, shape);
    tensor.device = {.kind = DeviceId::Kind::cuda};
    return tensor;
}

/// The second operand of a product of groups: [experts, n, k].
Operand weights(const MoeArguments& arguments, const Recipe& recipe, std::int64_t n, std::int64_t k) {
    const ProblemSizes sizes{.grouping = Grouping::m_grouped_offsets,
                             .recipe = recipe,
                             .m = 128,
                             .n = n,
                             .k = k,
                             .groups = arguments.experts};
    Problem problem = problem_of(sizes);
    const bool packs = takes_packed_weights(problem) && !arguments.unpacked;
    Operand operand = (packs ? with_packed_shape(problem, sizes) : problem).b;
    for (Tensor* tensor : {&operand.values, &operand.scales, &operand.tensor_scale}) {
        tensor->device = {.kind = DeviceId::Kind::cuda};
    }
    operand.packed.device = {.kind = DeviceId::Kind::cuda};
    return operand;
}

}  // namespace

void add_moe_size_options(CLI::App& command, MoeArguments& arguments) {
    const CLI::Validator positive = whole_number(1, most_int);
    command.add_option("--experts", arguments.experts, "Experts on this GPU")->check(positive);
    command.add_option("--top", arguments.top, "Experts that each token chooses")->check(positive);
    command.add_option("--hidden", arguments.hidden, "Numbers of a token")->check(positive);
    command.add_option("--inner", arguments.inner, "Numbers between the two products")->check(positive);
    command.add_option("--shared", arguments.shared, "How many of the experts take every token")
        ->check(whole_number(0, most_int))
        ->capture_default_str();
}

void add_moe_kind_options(CLI::App& command, MoeArguments& arguments) {
    const auto known = [](const std::string& text) { return is_known_recipe(full_recipe(text)); };
    command.add_option("--recipe", arguments.recipe, "Formats and scales of the activations and of both weights")
        ->check(known_by("recipe", known, recipe_words()))
        ->capture_default_str();
    command.add_option("--unit", arguments.unit, output::joined(names_of(all_gated_units)))
        ->check(one_of("unit", names_of(all_gated_units)))
        ->capture_default_str();
    command
        .add_option("--weights-at", arguments.weights_at,
                    "Where routing weights multiply: " + output::joined(names_of(all_weights_at)))
        ->check(one_of("place", names_of(all_weights_at)))
        ->capture_default_str();
    command.add_flag("--with-bias", arguments.with_bias, "Both products have bf16 biases");
    command.add_flag("--unpacked", arguments.unpacked, "FP4 weights are packed on each call (default: in advance)");
    command.add_flag("--invariant", arguments.invariant, "Make the bits of a token independent of the other tokens");
}

void add_moe_rank_options(CLI::App& command, RankArguments& arguments, int most, const std::string& text) {
    CLI::Option* const ranks = command.add_option("--ranks", arguments.ranks, text)->check(whole_number(1, most));
    command.add_option("--exchange", arguments.exchange, "How tokens and results travel: addresses, collectives")
        ->check(one_of("exchange", {"addresses", "collectives"}))
        ->needs(ranks)
        ->capture_default_str();
    command
        .add_option("--combine", arguments.combine,
                    fmt::format("What a rank returns for a token: rows, sums; default: rows up to {} tokens or with "
                                "--invariant",
                                rows_up_to))
        ->check(one_of("form of results", {"rows", "sums"}))
        ->needs(ranks);
    command.add_option("--sums", arguments.sums, "The format of the sums that a rank returns: bf16, f32")
        ->check(one_of("format of sums", {"bf16", "f32"}))
        ->needs(ranks)
        ->capture_default_str();
}

MoeArguments of_each_rank(const MoeArguments& arguments, int ranks) {
    const std::int64_t routed = arguments.experts - arguments.shared;
    if (routed < ranks || routed % ranks != 0) {
        throw UsageError(
            fmt::format("--experts: got {} without shared ones; expected a multiple of {} ranks", routed, ranks));
    }
    MoeArguments made = arguments;
    made.experts = routed / ranks + arguments.shared;
    return made;
}

ExpertGroupOptions group_of(const MoeArguments& arguments, const RankArguments& ranks, std::int64_t tokens) {
    const Moe layer = layer_of(of_each_rank(arguments, ranks.ranks), tokens);
    return {.max_tokens = tokens,
            .hidden = arguments.hidden,
            .experts = arguments.experts - arguments.shared,
            .choices = static_cast<int>(arguments.top),
            .shared = arguments.shared,
            .activations = layer.activations,
            .x = layer.x.format,
            .weights_at = layer.weights_at,
            .exchange = named(all_exchanges, ranks.exchange),
            .combine = ranks.combine.empty() ? RankSums::automatic : named(all_rank_sums, ranks.combine),
            .sums = parse_format(ranks.sums).value(),
            .reproducibility = layer.reproducibility};
}

Moe layer_of(const MoeArguments& arguments, std::int64_t tokens) {
    if (arguments.shared > arguments.experts) {
        throw UsageError(
            fmt::format("--shared: got {}; expected 0 to {}, the experts", arguments.shared, arguments.experts));
    }
    const Recipe recipe = parse_recipe(full_recipe(arguments.recipe)).value();
    const GatedUnit::Kind kind = named(all_gated_units, arguments.unit);
    const std::int64_t up_rows = (kind == GatedUnit::Kind::relu_squared ? 1 : 2) * arguments.inner;
    Moe layer{.x = shaped(Format::bf16, {tokens, arguments.hidden}),
              .routing = {.experts = shaped(Format::i32, {tokens, arguments.top}),
                          .weights = shaped(Format::f32, {tokens, arguments.top}),
                          .shared = arguments.shared},
              .up = weights(arguments, recipe, up_rows, arguments.hidden),
              .down = weights(arguments, recipe, arguments.hidden, arguments.inner),
              .activations = recipe.a,
              .unit = {.kind = kind},
              .weights_at = named(all_weights_at, arguments.weights_at),
              .out = shaped(Format::bf16, {tokens, arguments.hidden})};
    if (arguments.invariant) layer.reproducibility = Reproducibility::invariant;
    if (arguments.with_bias) {
        layer.up_bias = shaped(Format::bf16, {arguments.experts, up_rows});
        layer.down_bias = shaped(Format::bf16, {arguments.experts, arguments.hidden});
    }
    return layer;
}

std::string sizes_text(const MoeArguments& arguments) {
    return fmt::format("{} experts, top {}, hidden {}, inner {}{}", arguments.experts, arguments.top, arguments.hidden,
                       arguments.inner, arguments.shared > 0 ? fmt::format(", {} shared", arguments.shared) : "");
}

}  // namespace tilewright::cli
