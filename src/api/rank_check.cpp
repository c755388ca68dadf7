#include "api/rank_check.h"

#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "api/moe_steps.h"

namespace tilewright {
namespace {

constexpr std::int64_t most_numbers = std::int64_t{1} << 30;  // indices of rows are int32
constexpr std::int64_t most_columns = std::int64_t{1} << 24;  // bytes of a group are int64

std::string decimal(std::int64_t number) { return std::to_string(number); }

class OptionFindings {
public:
    void add(std::string operand, std::int64_t given, std::string expected, std::string advice = "") {
        list_.push_back({std::move(operand), std::to_string(given), std::move(expected), std::move(advice)});
    }
    void add(std::string operand, std::string given, std::string expected) {
        list_.push_back({std::move(operand), std::move(given), std::move(expected), ""});
    }
    void within(const char* operand, std::int64_t given, std::int64_t least, std::int64_t most) {
        if (given >= least && given <= most) return;
        add(operand, given, std::to_string(least) + " to " + std::to_string(most));
    }
    std::vector<Finding> take() { return std::move(list_); }
    bool empty() const { return list_.empty(); }

private:
    std::vector<Finding> list_{};
};

void check_places(const ExpertGroupOptions& options, int ranks, OptionFindings& findings) {
    const std::int64_t each = experts_of_a_rank(options, ranks), routed = each - options.shared;
    if (options.places.empty()) {
        if (options.per_rank == 0 && options.experts % ranks != 0) {
            findings.add("experts", options.experts, "a multiple of " + decimal(ranks) + " ranks",
                         "pass the places of the experts");
        } else if (options.experts > routed * ranks) {
            findings.add("experts", options.experts,
                         "at most " + decimal(routed * ranks) + ", the experts of all ranks without shared ones");
        }
        return;
    }
    if (static_cast<std::int64_t>(options.places.size()) != options.experts) {
        return findings.add("places", static_cast<std::int64_t>(options.places.size()),
                            decimal(options.experts) + " lists, one per expert");
    }
    std::set<int> taken;
    for (const std::vector<int>& copies : options.places) {
        if (copies.empty()) return findings.add("places", 0, "one or more copies of every expert");
        for (const int place : copies) {
            if (place < 0 || place >= each * ranks || place % each >= routed) {
                return findings.add(
                    "places", place,
                    "rank * " + decimal(each) + " + 0 to " + decimal(routed - 1) + ", for " + decimal(ranks) + " ranks",
                    options.shared > 0 ? "the last places of a rank are its shared experts" : "");
            }
            if (!taken.insert(place).second) {
                return findings.add("places", place, "each place once", "two experts cannot share weights");
            }
        }
    }
}

/// The numbers that ranks compare, in one order.
struct Agreed {
    static constexpr std::array names{"max_tokens",  "hidden",          "experts", "choices",    "shared",   "per_rank",
                                      "activations", "round_up",        "x",       "weights_at", "exchange", "combine",
                                      "sums",        "reproducibility", "chunk",   "places"};
    std::array<std::int64_t, names.size()> numbers{};
    std::int64_t is_wrong = 0;  // on its own
};

/// FNV-1a.
std::int64_t digest_of(const std::vector<std::vector<int>>& places) {
    std::uint64_t digest = 0xCBF2'9CE4'8422'2325;
    const auto add = [&](std::uint64_t number) { digest = (digest ^ number) * 0x100'0000'01B3; };
    for (const std::vector<int>& copies : places) {
        for (const int place : copies) add(static_cast<std::uint64_t>(place));
        add(~std::uint64_t{0});
    }
    return static_cast<std::int64_t>(digest);
}

Agreed agreed_of(const ExpertGroupOptions& options) {
    const OperandRecipe& recipe = options.activations;
    const auto code = static_cast<std::int64_t>(recipe.values) << 16 |
                      static_cast<std::int64_t>(recipe.granularity) << 8 | static_cast<std::int64_t>(recipe.scales);
    return {.numbers = {options.max_tokens, options.hidden, options.experts, options.choices, options.shared,
                        options.per_rank, code, options.round_up ? 1 : 0, static_cast<std::int64_t>(options.x),
                        static_cast<std::int64_t>(options.weights_at), static_cast<std::int64_t>(options.exchange),
                        static_cast<std::int64_t>(options.combine), static_cast<std::int64_t>(options.sums),
                        static_cast<std::int64_t>(options.reproducibility), options.chunk, digest_of(options.places)}};
}

/// A number of `Agreed` in words.
std::string shown(std::size_t index, std::int64_t number) {
    const std::string_view field = Agreed::names[index];
    if (field == "activations") {
        return name(OperandRecipe{static_cast<Format>(number >> 16), static_cast<Granularity>(number >> 8 & 0xFF),
                                  static_cast<Format>(number & 0xFF)});
    }
    if (field == "round_up") return number != 0 ? "true" : "false";
    if (field == "x" || field == "sums") return std::string(name(static_cast<Format>(number)));
    if (field == "weights_at") return std::string(name(static_cast<WeightsAt>(number)));
    if (field == "exchange") return std::string(name(static_cast<Exchange>(number)));
    if (field == "combine") return std::string(name(static_cast<RankSums>(number)));
    if (field == "reproducibility") return number != 0 ? "another one" : "repeatable";
    if (field == "places") return "a table";
    return decimal(number);
}

}  // namespace

std::vector<Finding> check(const ExpertGroupOptions& options, int ranks) {
    OptionFindings findings;
    constexpr std::int64_t any = most_numbers;
    findings.within("ranks", ranks, 1, most_ranks);
    if (!findings.empty()) return findings.take();
    findings.within("max_tokens", options.max_tokens, 1, any);
    findings.within("hidden", options.hidden, 1, most_columns);
    findings.within("experts", options.experts, 1, any);
    findings.within("choices", options.choices, 0, any);
    findings.within("per_rank", options.per_rank, 0, any);
    findings.within("shared", options.shared, 0, any);
    findings.within("chunk", options.chunk, 1, any);
    constexpr double most_seconds = 1e9;  // nanoseconds are int64
    if (!(options.seconds > 0 && options.seconds <= most_seconds)) {
        findings.add("seconds", std::to_string(options.seconds), "more than 0, and at most 1e9");
    }
    if (options.sums != Format::bf16 && options.sums != Format::f32) {
        findings.add("sums", std::string(name(options.sums)), "bf16 or f32");
    }
    if (!findings.empty()) return findings.take();
    if (std::int64_t{options.choices} + options.shared == 0) {
        findings.add("choices", 0, "one or more choices, or shared experts");
    }
    const std::int64_t room = std::min(options.max_tokens, options.chunk);
    if (room * ranks > most_numbers / std::max(std::int64_t{options.choices} + options.shared, std::int64_t{1})) {
        findings.add("max_tokens", options.max_tokens, "at most 2^30 choices of all ranks", "lower `chunk`");
    }
    if (experts_of_a_rank(options, ranks) > most_numbers / ranks) {
        findings.add("per_rank", experts_of_a_rank(options, ranks), "at most 2^30 experts of all ranks");
        return findings.take();
    }
    check_places(options, ranks, findings);
    if (options.combine == RankSums::sums && options.reproducibility == Reproducibility::invariant) {
        std::vector<Finding> found = findings.take();
        found.push_back(
            {"combine", "sums", "rows for an invariant group", "sums of ranks depend on where experts are"});
        return found;
    }
    return findings.take();
}

Exchange exchange_of(const ExpertGroupOptions& options, bool has_addresses) {
    if (options.exchange == Exchange::automatic) return has_addresses ? Exchange::addresses : Exchange::collectives;
    if (options.exchange == Exchange::addresses && !has_addresses) {
        throw Error(std::vector<Finding>{
            {"exchange", "addresses", "collectives, because the ranks have no addresses", "let the group choose"}});
    }
    return options.exchange;
}

void require_agreement(Ranks& ranks, const ExpertGroupOptions& options) {
    std::vector<Finding> findings = check(options, ranks.size());
    Agreed own = agreed_of(options);
    own.is_wrong = findings.empty() ? 0 : 1;
    std::vector<Agreed> all(static_cast<std::size_t>(ranks.size()));
    ranks.share(&own, all.data(), sizeof(Agreed));
    if (!findings.empty()) throw Error(std::move(findings));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const std::string other = "rank " + std::to_string(rank);
        if (all[rank].is_wrong != 0) throw Error("the options of " + other + " are wrong; see the error there");
        for (std::size_t i = 0; i < Agreed::names.size(); ++i) {
            if (all[rank].numbers[i] == own.numbers[i]) continue;
            const std::string theirs = shown(i, all[rank].numbers[i]), ours = shown(i, own.numbers[i]);
            std::string expected = "the one of ";
            if (theirs != ours) expected = theirs + ", as ";
            expected += other;
            if (theirs != ours) expected += " has";
            findings.push_back({Agreed::names[i], ours, expected, "all ranks make a group with the same options"});
        }
        if (!findings.empty()) throw Error(std::move(findings));
    }
}

bool all_have(Ranks& ranks, bool has) {
    const char own = has ? 1 : 0;
    std::vector<char> all(static_cast<std::size_t>(ranks.size()));
    ranks.share(&own, all.data(), 1);
    return std::all_of(all.begin(), all.end(), [](char each) { return each != 0; });
}

std::vector<Finding> check_against(const Moe& layer, const ExpertGroupOptions& options, const GroupSizes& sizes,
                                   const DeviceId& device) {
    std::vector<Finding> findings;
    const auto add = [&](std::string operand, std::string given, std::string expected, std::string advice = "") {
        findings.push_back({std::move(operand), std::move(given), std::move(expected), std::move(advice)});
    };
    const auto require = [&](const char* operand, std::int64_t given, std::int64_t wanted) {
        if (given != wanted) add(operand, decimal(given), decimal(wanted) + ", as the group has");
    };
    if (!layer.routing.experts.given()) {
        add("routing.experts", "nothing", "the experts of each token", "rows that are sorted already need no group");
        return findings;
    }
    const MoeSizes own = sizes_of(layer);
    if (layer.out.device != device) add("out", "memory of another device", "memory of the group's device");
    if (own.tokens > options.max_tokens) {
        add("x", decimal(own.tokens) + " tokens", "at most " + decimal(options.max_tokens) + ", the group's max_tokens",
            "make a group with room for them");
    }
    require("hidden", own.hidden, sizes.hidden);
    require("experts of up", own.experts, sizes.per_rank);
    require("routing.experts.choices", layer.routing.experts.shape[1], options.choices);
    require("routing.shared", layer.routing.shared, options.shared);
    if (layer.routing.map.given()) {
        add("routing.map", "a map", "nothing", "the group's `places` say where experts are");
    }
    if (!(layer.activations == options.activations)) {
        add("activations", name(layer.activations), name(options.activations) + ", as the group has");
    }
    if (layer.round_up != options.round_up) add("round_up", layer.round_up ? "true" : "false", "the group's");
    if (layer.weights_at != options.weights_at) {
        add("weights_at", std::string(name(layer.weights_at)),
            std::string(name(options.weights_at)) + ", as the group has");
    }
    const bool has_codes = layer.quantized.values.given();
    if (!travels_quantized(options) && has_codes) {
        add("quantized", name(options.activations), "x in its place",
            "a scale of a whole tensor is that of the tokens of all ranks");
    }
    const bool keeps_format = !travels_quantized(options);
    if (keeps_format && !has_codes && layer.x.format != options.x) {
        add("x", std::string(name(layer.x.format)), std::string(name(options.x)) + ", the group's format of x");
    }
    if (options.reproducibility == Reproducibility::invariant && layer.reproducibility != Reproducibility::invariant) {
        add("reproducibility", "repeatable", "invariant, as the group has");
    }
    if (layer.reproducibility == Reproducibility::invariant && sizes.combine == RankSums::sums) {
        add("reproducibility", "invariant", "repeatable, because the group sends sums",
            "make a group with combine = rows");
    }
    return findings;
}

std::int64_t memory_bytes(const ExpertGroupOptions& options, int ranks) {
    std::vector<Finding> findings = check(options, ranks);
    if (!findings.empty()) throw Error(std::move(findings));
    std::int64_t bytes = 0;
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        if (options.exchange != Exchange::automatic && options.exchange != exchange) continue;
        bytes = std::max(bytes, RankLayout(GroupSizes(options, ranks, exchange), nullptr, {}).bytes);
    }
    return bytes;
}

}  // namespace tilewright
