// The predicted steps of a call over ranks: their order, and the bytes that travel.
#include <tilewright/error.h>

#include <gtest/gtest.h>

#include <cmath>

#include "api/link_rates.h"
#include "api/moe_steps.h"
#include "verify/shared_layer.h"

namespace tilewright {
namespace {

using check::MoeCase;
using check::MoeSpec;
using verify::options_of;

constexpr int experts_here = 4;
constexpr std::int64_t word_bytes = 128;  // of a rank, ahead of what it announces

/// Sizes of which no piece of memory is padded.
MoeSpec spec_of(const char* recipe = "1x128:128x128") {
    return {.recipe = recipe_named(recipe),
            .tokens = 128,
            .choices = 8,
            .experts = experts_here,
            .hidden = 256,
            .inner = 128};
}

class RankedLayer {
public:
    explicit RankedLayer(const MoeSpec& spec) : rank_(spec), options(options_of(rank_)) {}

    std::vector<MoeStep> explain(int ranks, bool has_addresses) {
        const MoeSpec& spec = rank_.spec();
        options.experts = (spec.experts - spec.shared) * ranks;
        return tilewright::explain(rank_.layer(), options, ranks, has_addresses);
    }

    std::string message(int ranks, bool has_addresses) {
        try {
            explain(ranks, has_addresses);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    const Moe& layer() const { return rank_.layer(); }

private:
    MoeCase rank_;

public:
    ExpertGroupOptions options;
};

std::vector<std::string> names_of(const std::vector<MoeStep>& steps) {
    std::vector<std::string> names;
    names.reserve(steps.size());
    for (const MoeStep& step : steps) names.push_back(step.name);
    return names;
}

std::int64_t link_bytes_of(const std::vector<MoeStep>& steps) {
    std::int64_t bytes = 0;
    for (const MoeStep& step : steps) bytes += step.link_bytes;
    return bytes;
}

const MoeStep& step_named(const std::vector<MoeStep>& steps, std::string_view name) {
    for (const MoeStep& step : steps) {
        if (step.name == name) return step;
    }
    throw std::out_of_range(std::string(name));
}

TEST(RankExplain, StepsAreInTheOrderOfTheirRun) {
    using Names = std::vector<std::string>;
    struct Row {
        bool has_addresses;
        RankSums sums;
        Names names;
    };
    const std::vector<Row> rows{
        {true,
         RankSums::rows,
         {"announce", "barrier", "route", "permute", "up", "activate", "down", "barrier", "combine"}},
        {true,
         RankSums::sums,
         {"announce", "barrier", "route", "permute", "up", "activate", "down", "sums", "barrier", "combine"}},
        {false,
         RankSums::rows,
         {"announce", "all-gather", "route", "permute", "up", "activate", "down", "rows", "all-to-all", "combine"}},
        {false,
         RankSums::sums,
         {"announce", "all-gather", "route", "permute", "up", "activate", "down", "sums", "all-to-all", "combine"}},
    };
    for (const Row& row : rows) {
        RankedLayer layer(spec_of());
        layer.options.combine = row.sums;
        EXPECT_EQ(names_of(layer.explain(2, row.has_addresses)), row.names);
    }
}

TEST(RankExplain, FewChoicesAreRoutedWithinTheirPermutation) {
    MoeSpec spec = spec_of();
    spec.tokens = 8;
    RankedLayer layer(spec);
    EXPECT_EQ(names_of(layer.explain(2, true)), (std::vector<std::string>{"announce", "barrier", "permute", "up",
                                                                          "activate", "down", "barrier", "combine"}));
}

TEST(RankExplain, OptionsChooseTheExchange) {
    RankedLayer layer(spec_of());
    layer.options.exchange = Exchange::collectives;
    EXPECT_EQ(layer.explain(2, true)[1].name, "all-gather");
    layer.options.exchange = Exchange::addresses;
    EXPECT_EQ(layer.explain(2, true)[1].name, "barrier");
    EXPECT_EQ(layer.message(2, false).rfind("exchange: got addresses; expected collectives", 0), 0U);
}

/// Bytes of each token that a rank announces: its choices, and its numbers.
struct Announced {
    const char* recipe;
    std::int64_t token;
};

TEST(RankExplain, AsManyBytesTravelAsAreNeeded) {
    const MoeSpec sizes = spec_of();
    const std::int64_t hidden = sizes.hidden, choices = sizes.choices, tokens = sizes.tokens;
    for (const Announced& announced :
         {Announced{"1x128:128x128", hidden + hidden / 128 * 4}, Announced{"bf16:mxfp4", 2 * hidden},
          Announced{"mxfp8:mxfp4", hidden + hidden / 32}, Announced{"row:row", hidden + 4}}) {
        for (const int ranks : {1, 2, 8}) {
            SCOPED_TRACE(std::string(announced.recipe) + ", ranks " + std::to_string(ranks));
            RankedLayer layer(spec_of(announced.recipe));
            const double others = ranks - 1, all_tokens = static_cast<double>(tokens) * others;
            const double chosen = 1 - std::pow(1 - 1.0 / ranks, choices);
            const auto dispatched = [&](double share) {
                return all_tokens * (share * static_cast<double>(announced.token) + 8.0 * static_cast<double>(choices));
            };
            const double of_a_row = 2.0 * static_cast<double>(hidden);
            const auto expect = [&](bool has_addresses, RankSums sums, double bytes) {
                layer.options.combine = sums;
                EXPECT_NEAR(static_cast<double>(link_bytes_of(layer.explain(ranks, has_addresses))), bytes, 2)
                    << has_addresses << name(sums);
            };
            const double word = static_cast<double>(word_bytes) * others;
            expect(false, RankSums::sums, dispatched(1) + word + all_tokens * of_a_row);
            expect(false, RankSums::rows, dispatched(1) + word + all_tokens * static_cast<double>(choices) * of_a_row);
            expect(true, RankSums::sums, dispatched(chosen) + all_tokens * chosen * of_a_row);
            // Each row that travels has a number of 4 bytes, by which it is found.
            expect(true, RankSums::rows,
                   dispatched(chosen) + all_tokens * static_cast<double>(choices) / ranks * (of_a_row + 4));
        }
    }
}

TEST(RankExplain, SumsInF32AreTwiceTheBytes) {
    for (const bool has_addresses : {false, true}) {
        RankedLayer bf16(spec_of()), f32(spec_of());
        bf16.options.combine = f32.options.combine = RankSums::sums;
        f32.options.sums = Format::f32;
        const std::vector<MoeStep> narrow = bf16.explain(4, has_addresses), wide = f32.explain(4, has_addresses);
        ASSERT_EQ(names_of(narrow), names_of(wide));
        const char* const sends = has_addresses ? "sums" : "all-to-all";
        EXPECT_EQ(step_named(wide, sends).link_bytes, 2 * step_named(narrow, sends).link_bytes);
        EXPECT_NE(step_named(wide, "sums").what.find("as f32"), std::string::npos) << step_named(wide, "sums").what;
        for (std::size_t i = 0; i < narrow.size(); ++i) {
            const bool has_sums =
                narrow[i].name == "sums" || narrow[i].name == "all-to-all" || narrow[i].name == "combine";
            EXPECT_EQ(wide[i].bytes > narrow[i].bytes, has_sums) << narrow[i].name;
        }
        // Rows travel in bf16, whatever the format of sums.
        bf16.options.combine = f32.options.combine = RankSums::rows;
        EXPECT_EQ(link_bytes_of(f32.explain(4, has_addresses)), link_bytes_of(bf16.explain(4, has_addresses)));
        EXPECT_EQ(memory_bytes(f32.options, 4), memory_bytes(bf16.options, 4));
    }
    ExpertGroupOptions options = RankedLayer(spec_of()).options;
    options.experts = 4;
    options.combine = RankSums::sums;
    const std::int64_t narrow = memory_bytes(options, 4), sums = 4 * 128 * 256 * 2;  // ranks, tokens, hidden, bf16
    options.sums = Format::f32;
    EXPECT_EQ(memory_bytes(options, 4), narrow + 2 * sums);  // sent and received
}

TEST(RankExplain, NothingTravelsWithinOneRank) {
    for (const char* recipe : {"1x128:128x128", "tensor:tensor"}) {
        for (const bool has_addresses : {false, true}) {
            for (const RankSums sums : {RankSums::rows, RankSums::sums}) {
                RankedLayer layer(spec_of(recipe));
                layer.options.combine = sums;
                for (const MoeStep& step : layer.explain(1, has_addresses)) EXPECT_EQ(step.link_bytes, 0) << step.name;
            }
        }
    }
}

/// Products do not depend on where their tokens come from.
TEST(RankExplain, ProductsAreThoseOfOneGpuWithAsManyRows) {
    for (const int ranks : {1, 2, 8}) {
        RankedLayer layer(spec_of());
        const std::vector<MoeStep> found = layer.explain(ranks, true), wanted = explain(layer.layer());
        for (const char* name : {"up", "activate", "down"}) {
            EXPECT_EQ(step_named(found, name).bytes, step_named(wanted, name).bytes) << name << " of ranks " << ranks;
            EXPECT_DOUBLE_EQ(step_named(found, name).seconds, step_named(wanted, name).seconds) << name;
        }
    }
}

TEST(RankExplain, SharedExpertsAddNoTravel) {
    for (const RankSums sums : {RankSums::rows, RankSums::sums}) {
        MoeSpec spec = spec_of();
        RankedLayer without(spec);
        spec.shared = 1;
        spec.experts += 1;
        RankedLayer with(spec);
        without.options.combine = with.options.combine = sums;
        // A choice of a shared expert is announced, as every choice is.
        EXPECT_EQ(link_bytes_of(with.explain(2, true)), link_bytes_of(without.explain(2, true)) + spec.tokens * 8);
        EXPECT_GT(step_named(with.explain(2, true), "combine").bytes,
                  step_named(without.explain(2, true), "combine").bytes);
    }
}

TEST(RankExplain, AScaleOfAllTokensNeedsAllTokens) {
    RankedLayer layer(spec_of("tensor:tensor"));
    const std::vector<MoeStep> steps = layer.explain(8, true);
    EXPECT_EQ(names_of(steps),
              (std::vector<std::string>{"announce", "barrier", "gather", "route", "quantize", "permute", "up",
                                        "activate", "quantize", "down", "sums", "barrier", "combine"}));
    EXPECT_EQ(step_named(steps, "gather").link_bytes, 7 * 128 * 256 * 2);
    EXPECT_EQ(step_named(steps, "permute").link_bytes, 0);
    EXPECT_EQ(step_named(layer.explain(8, false), "gather").link_bytes, 0);
}

TEST(RankExplain, TokensWithWeightsAtTheInputTravelAsTheyAre) {
    MoeSpec spec = spec_of();
    spec.weights_at = WeightsAt::input;
    const double chosen = 1 - std::pow(1 - 1.0 / 4, spec.choices);
    RankedLayer layer(spec);
    EXPECT_NEAR(static_cast<double>(step_named(layer.explain(4, true), "permute").link_bytes),
                3 * chosen * 128 * 256 * 2, 1);
}

TEST(RankExplain, ARankWithFewerTokensIsExpectedToHaveAll) {
    RankedLayer layer(spec_of());
    layer.options.experts = 2 * experts_here;
    const Moe none = tokens_of(layer.layer(), 0, 0);
    const std::vector<MoeStep> found = explain(none, layer.options, 2, true), wanted = layer.explain(2, true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(found.at(i).bytes, wanted[i].bytes) << wanted[i].name;
        EXPECT_EQ(found.at(i).link_bytes, wanted[i].link_bytes) << wanted[i].name;
    }
}

TEST(RankExplain, TakesAsLongAsItsLink) {
    RankedLayer layer(spec_of());
    layer.options.combine = RankSums::rows;
    layer.options.max_tokens = layer.options.chunk = 1 << 16;
    const std::vector<MoeStep> steps = layer.explain(2, true);
    const MoeStep& combine = step_named(steps, "combine");
    EXPECT_EQ(combine.link_bytes, std::int64_t{1} << 16 << 2 << 9);  // half of 8 rows of 512 bytes
    EXPECT_NEAR(combine.seconds, static_cast<double>(combine.link_bytes) / pulled_bytes_per_second, 3e-6);
    for (const MoeStep& step : steps) EXPECT_GT(step.seconds, 1e-6) << step.name;
}

int launches_of(const std::vector<MoeStep>& steps) {
    int launches = 0;
    for (const MoeStep& step : steps) launches += step.launches;
    return launches;
}

/// In a call, each kernel that can be a barrier is one.
TEST(RankExplain, LaunchesAreThoseOfTheRun) {
    constexpr int announce = 1, rows = 2, products = 3, combine = 1;  // rows: route and permute
    struct Row {
        bool has_addresses;
        RankSums sums;
        int exchanges;
    };
    for (const Row& row : {Row{true, RankSums::rows, 0}, Row{true, RankSums::sums, 1}, Row{false, RankSums::rows, 4},
                           Row{false, RankSums::sums, 4}}) {
        SCOPED_TRACE(std::string(name(row.sums)) + (row.has_addresses ? ", addresses" : ", collectives"));
        RankedLayer layer(spec_of());
        layer.options.combine = row.sums;
        const std::vector<MoeStep> steps = layer.explain(2, row.has_addresses);
        EXPECT_EQ(launches_of(steps), announce + rows + products + combine + row.exchanges);
        // A sum of more tokens has more blocks than may wait.
        layer.options.max_tokens = 1024;
        EXPECT_EQ(launches_of(layer.explain(2, row.has_addresses)), launches_of(steps) + 1);
    }
    MoeSpec few = spec_of();
    few.tokens = 8;
    EXPECT_EQ(launches_of(RankedLayer(few).explain(2, true)), announce + 1 + products + combine);
    few.weights_at = WeightsAt::input;  // weights of other ranks are read after a separate barrier
    EXPECT_EQ(launches_of(RankedLayer(few).explain(2, true)), announce + 2 + products + combine);
}

TEST(RankExplain, AScaleOfATensorTakesFourLaunches) {
    const MoeStep quantize = step_named(RankedLayer(spec_of("tensor:tensor")).explain(2, true), "quantize");
    EXPECT_EQ(quantize.launches, 4);
    MoeSpec spec = spec_of("nvfp4:nvfp4");
    spec.tokens = 8;
    EXPECT_EQ(step_named(explain(MoeCase(spec).layer()), "quantize").launches, 4);
    spec.recipe = recipe_named("mxfp4:mxfp4");
    EXPECT_EQ(step_named(explain(MoeCase(spec).layer()), "quantize").launches, 1);
}

TEST(RankExplain, ExposedIsTheWaitForOtherRanks) {
    for (const bool has_addresses : {false, true}) {
        for (const RankSums sums : {RankSums::rows, RankSums::sums}) {
            RankedLayer layer(spec_of());
            layer.options.combine = sums;
            layer.options.max_tokens = layer.options.chunk = 1 << 14;
            for (const MoeStep& step : layer.explain(2, has_addresses)) {
                SCOPED_TRACE(step.name);
                EXPECT_LE(step.exposed_seconds, step.seconds);
                if (step.name == "barrier") {
                    EXPECT_GE(step.exposed_seconds, barrier_seconds);
                } else if (step.name.starts_with("all-")) {
                    EXPECT_DOUBLE_EQ(step.exposed_seconds, collective_seconds(step.link_bytes));
                } else {
                    EXPECT_EQ(step.exposed_seconds > 0, step.link_bytes > 0);
                }
            }
        }
    }
    for (const MoeStep& step : explain(RankedLayer(spec_of()).layer())) EXPECT_EQ(step.exposed_seconds, 0) << step.name;
}

TEST(RankExplain, ARoundHasAChunkOfTokens) {
    RankedLayer layer(spec_of()), part(spec_of());
    layer.options.max_tokens = 1000;
    layer.options.chunk = part.options.max_tokens = part.options.chunk = 200;
    layer.options.combine = part.options.combine = RankSums::sums;
    EXPECT_EQ(link_bytes_of(layer.explain(2, true)), link_bytes_of(part.explain(2, true)));
}

TEST(RankExplain, CollectivesTakeTheTimesThatWereMeasured) {
    double before = 0;
    for (const MeasuredCollective& each : measured_collectives) {
        EXPECT_DOUBLE_EQ(collective_seconds(static_cast<std::int64_t>(each.received_bytes)), each.seconds);
        EXPECT_GT(each.seconds, before);
        before = each.seconds;
    }
    EXPECT_DOUBLE_EQ(collective_seconds(0), measured_collectives[0].seconds);
    // All-to-all: 0.5, 8 and 32 MiB that a rank receives.
    EXPECT_NEAR(collective_seconds(1 << 19), 15.3e-6, 0.08 * 15.3e-6);
    EXPECT_NEAR(collective_seconds(1 << 23), 57e-6, 0.08 * 57e-6);
    EXPECT_NEAR(collective_seconds(1 << 25), 152e-6, 0.08 * 152e-6);
    EXPECT_NEAR(collective_seconds(std::int64_t{1} << 30), 4.3e-3, 0.1e-3);  // 250 GB/s
}

TEST(RankExplain, MistakesAreNamed) {
    RankedLayer layer(spec_of());
    EXPECT_EQ(layer.message(0, true), "ranks: got 0; expected 1 to " + std::to_string(most_ranks) + ".");
    layer.options.max_tokens = 100;
    EXPECT_EQ(layer.message(2, true).rfind("x: got 128 tokens; expected at most 100", 0), 0U) << layer.message(2, true);
    layer.options.max_tokens = 128;
    layer.options.choices = 7;
    EXPECT_EQ(layer.message(2, true), "routing.experts.choices: got 8; expected 7, as the group has.");
}

}  // namespace
}  // namespace tilewright
