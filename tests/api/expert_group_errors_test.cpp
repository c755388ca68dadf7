// The errors of ranks when a call is wrong, when options differ, or when a rank is gone. No rank waits forever.
#include <gtest/gtest.h>

#include <atomic>

#include "api/moe_steps.h"
#include "verify/shared_layer.h"

namespace tilewright {
namespace {

using check::MoeCase;
using check::MoeSpec;
using verify::by_ranks;
using verify::options_of;
using verify::SharedLayer;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

MoeSpec small() {
    return {.recipe = recipe_named("1x128:128x128"),
            .tokens = 8,
            .choices = 2,
            .experts = 4,
            .hidden = 48,
            .inner = 32,
            .arithmetic = Arithmetic::fast};
}

TEST(ExpertGroupErrors, OptionsAreCheckedOneByOne) {
    const ExpertGroupOptions good = options_of(MoeCase(small()));
    const auto message = [&](auto change) -> std::string {
        ExpertGroupOptions options = good;
        change(options);
        try {
            memory_bytes(options, 2);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(message([](auto&) {}), "");
    EXPECT_EQ(message([](auto& o) { o.max_tokens = 0; }), "max_tokens: got 0; expected 1 to 1073741824.");
    EXPECT_TRUE(has(message([](auto& o) { o.hidden = -3; }), "hidden: got -3;"));
    EXPECT_TRUE(has(message([](auto& o) { o.experts = 0; }), "experts: got 0;"));
    EXPECT_TRUE(has(message([](auto& o) { o.experts = 5; }), "experts: got 5; expected a multiple of 2 ranks."));
    EXPECT_TRUE(has(message([](auto& o) { o.choices = o.shared = 0; }), "choices: got 0;"));
    EXPECT_TRUE(has(message([](auto& o) { o.chunk = 0; }), "chunk: got 0;"));
    EXPECT_TRUE(has(message([](auto& o) { o.seconds = 0; }), "seconds: got 0.000000; expected more than 0"));
    EXPECT_TRUE(has(message([](auto& o) { o.seconds = 1e10; }), "at most 1e9"));
    EXPECT_TRUE(has(message([](auto& o) { o.max_tokens = o.chunk = 1 << 30; }), "2^30 choices"));
    EXPECT_TRUE(has(message([](auto& o) { o.choices = o.shared = 1 << 30; }), "2^30 choices"));
    EXPECT_TRUE(has(message([](auto& o) { o.hidden = 1 << 30; }), "hidden: got 1073741824; expected 1 to 16777216."));
    EXPECT_TRUE(has(message([](auto& o) { o.per_rank = 1 << 30; }), "per_rank: got 1073741824;"));
    EXPECT_TRUE(has(message([](auto& o) { o.places = {{0}, {1}}; }), "places: got 2; expected 4 lists"));
    EXPECT_TRUE(has(message([](auto& o) { o.places = {{0}, {1}, {2}, {}}; }), "places: got 0;"));
    EXPECT_TRUE(has(message([](auto& o) {
                        o.places = {{0}, {1}, {2}, {4}};
                    }),
                    "places: got 4; expected rank * 2 + 0 to 1, for 2 ranks."));
    EXPECT_TRUE(has(message([](auto& o) {
                        o.places = {{0}, {1}, {2}, {1}};
                    }),
                    "places: got 1; expected each place once"));
    EXPECT_EQ(message([](auto& o) { o.sums = Format::f16; }), "sums: got f16; expected bf16 or f32.");
    EXPECT_TRUE(has(message([](auto& o) {
                        o.combine = RankSums::sums;
                        o.reproducibility = Reproducibility::invariant;
                    }),
                    "combine: got sums; expected rows"));
}

TEST(ExpertGroupErrors, RanksThatDifferSaySo) {
    const ExpertGroupOptions good = options_of(MoeCase(small()));
    const auto errors = [&](auto change) {
        return by_ranks(3, [&](std::unique_ptr<Ranks> own) {
            ExpertGroupOptions options = good;
            options.experts = 6;
            if (own->rank() == 1) change(options);
            ExpertGroup(std::move(own), options);
        });
    };
    const std::vector<std::string> tokens = errors([](auto& o) { o.max_tokens = 9; });
    EXPECT_TRUE(has(tokens[0], "max_tokens: got 8; expected 9, as rank 1 has.")) << tokens[0];
    EXPECT_TRUE(has(tokens[1], "max_tokens: got 9; expected 8, as rank 0 has.")) << tokens[1];
    EXPECT_TRUE(has(tokens[2], "max_tokens: got 8; expected 9, as rank 1 has.")) << tokens[2];
    const std::vector<std::string> recipe = errors([](auto& o) { o.activations = {Format::e4m3, Granularity::row}; });
    EXPECT_TRUE(has(recipe[2], "activations: got ")) << recipe[2];
    const std::vector<std::string> places = errors([](auto& o) { o.places = {{5}, {1}, {2}, {3}, {4}, {0}}; });
    EXPECT_TRUE(has(places[0], "places: got a table; expected the one of rank 1.")) << places[0];
    const std::vector<std::string> sums = errors([](auto& o) { o.sums = Format::f32; });
    EXPECT_TRUE(has(sums[0], "sums: got bf16; expected f32, as rank 1 has.")) << sums[0];
    EXPECT_TRUE(has(sums[1], "sums: got f32; expected bf16, as rank 0 has.")) << sums[1];
    const std::vector<std::string> combine = errors([](auto& o) { o.combine = RankSums::sums; });
    EXPECT_TRUE(has(combine[2], "combine: got automatic; expected sums, as rank 1 has.")) << combine[2];
    const std::vector<std::string> wrong = errors([](auto& o) { o.hidden = 0; });
    EXPECT_TRUE(has(wrong[0], "rank 1 are wrong")) << wrong[0];
    EXPECT_TRUE(has(wrong[1], "hidden: got 0;")) << wrong[1];
}

/// Rank 1's second call is wrong: the shape of its result, or its number of threads.
void expect_wrong_call(Exchange exchange, RankSums sums, int threads = 1) {
    MoeCase whole(small());
    ExpertGroupOptions options = options_of(whole);
    options.max_tokens = 4;
    options.exchange = exchange;
    options.combine = sums;
    options.per_rank = 2;
    const SharedLayer layers(whole, options, {0, 3, 6, 8});
    std::vector<std::vector<std::string>> said(3);
    const std::vector<std::string> errors = by_ranks(3, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        ExpertGroup group(std::move(own), options);
        for (int call = 1; call <= 4; ++call) {
            Moe layer = layers.part(rank);
            const bool is_wrong = call == 2 && rank == 1;
            if (is_wrong && threads > 0) layer.out.shape[1] -= 1;
            try {
                group.run(layer, {.threads = is_wrong ? threads : 1});
                said[static_cast<std::size_t>(rank)].emplace_back();
            } catch (const Error& error) {
                said[static_cast<std::size_t>(rank)].emplace_back(error.what());
            }
        }
        group.check();
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    for (const std::size_t rank : {0U, 2U}) {
        EXPECT_EQ(said[rank][0], "");
        EXPECT_TRUE(has(said[rank][1], "group: got a wrong call on rank 1, which is call 2 of the group; expected"))
            << said[rank][1];
        EXPECT_EQ(said[rank][2], "");
        EXPECT_EQ(said[rank][3], "");
    }
    EXPECT_EQ(said[1][0], "");
    EXPECT_NE(said[1][1], "");
    EXPECT_EQ(said[1][2], "");
    EXPECT_EQ(said[1][3], "");
}

TEST(ExpertGroupErrors, AWrongCallHasNoTokensAndNobodyWaits) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        for (const RankSums sums : {RankSums::rows, RankSums::sums}) expect_wrong_call(exchange, sums);
        expect_wrong_call(exchange, RankSums::rows, -1);
    }
}

TEST(ExpertGroupErrors, WhatDoesNotFitTheGroupIsNamed) {
    MoeCase whole(small());
    ExpertGroupOptions options = options_of(whole);
    options.max_tokens = 7;
    const auto message = [&](auto change) {
        std::string text;
        by_ranks(1, [&](std::unique_ptr<Ranks> own) {
            const ExpertGroup group(std::move(own), options);
            Moe layer = whole.layer();
            layer = tokens_of(layer, 0, 5);
            change(layer);
            for (const Finding& finding : group.validate(layer)) text += finding.message() + "\n";
        });
        return text;
    };
    EXPECT_EQ(message([](Moe&) {}), "");
    EXPECT_TRUE(has(message([&](Moe& layer) { layer = whole.layer(); }), "x: got 8 tokens; expected at most 7"));
    EXPECT_TRUE(has(message([](Moe& layer) { layer.routing.shared = 1; }), "routing.shared: got 1; expected 0"));
    EXPECT_TRUE(has(message([](Moe& layer) { layer.round_up = true; }), "round_up: got true"));
    EXPECT_TRUE(
        has(message([](Moe& layer) { layer.weights_at = WeightsAt::activation; }), "weights_at: got activation"));
    EXPECT_TRUE(has(message([](Moe& layer) { layer.activations.values = Format::e5m2; }), "activations: got e5m2"));
    EXPECT_TRUE(has(message([](Moe& layer) {
                        for (Operand* weights : {&layer.up, &layer.down}) {
                            weights->values.shape[0] = weights->scales.shape[0] = 2;
                        }
                    }),
                    "experts of up: got 2; expected 4, as the group has"));
    std::int32_t map[4] = {0, 1, 2, 3};
    EXPECT_TRUE(has(message([&](Moe& layer) { layer.routing.map = row_major(map, Format::i32, {4}); }),
                    "routing.map: got a map; expected nothing"));
}

TEST(ExpertGroupErrors, ALostRankEndsWaitsByTheBudget) {
    MoeCase whole(small());
    ExpertGroupOptions options = options_of(whole);
    options.exchange = Exchange::addresses;
    options.seconds = 0.2;
    const SharedLayer layers(whole, options, {0, 4, 8});
    const std::vector<std::string> errors = by_ranks(2, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        ExpertGroup group(std::move(own), options);
        group.run(layers.part(rank), {.threads = 1});
        if (rank == 1) return;
        try {
            group.run(layers.part(rank), {.threads = 1});
            ADD_FAILURE() << "a call without a rank throws";
        } catch (const Error& error) {
            EXPECT_TRUE(has(error.what(), "rank 1 did not come to the barrier ahead of the")) << error.what();
            EXPECT_TRUE(has(error.what(), "of call 2 ")) << error.what();
        }
        group.run(layers.part(rank), {.threads = 1});
    });
    EXPECT_TRUE(has(errors[0], "a rank was lost in an earlier call; make a new group")) << errors[0];
    EXPECT_EQ(errors[1], "");
}

/// Ranks of threads whose second exchange of results fails.
std::unique_ptr<Ranks> failing(std::unique_ptr<Ranks> ranks) {
    const std::shared_ptr<Ranks> inner = std::move(ranks);
    const auto exchanges = std::make_shared<int>(0);
    return ranks_of_functions(
        {.rank = inner->rank(),
         .size = inner->size(),
         .share = [inner](const void* own, void* all, std::int64_t bytes) { inner->share(own, all, bytes); },
         .allocate = [inner](std::int64_t bytes) { return inner->allocate(bytes); },
         .all_gather = [inner](std::int64_t from, std::int64_t to, std::int64_t bytes,
                               void* stream) { inner->all_gather(from, to, bytes, stream); },
         .all_to_all =
             [inner, exchanges](std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) {
                 if (++*exchanges == 2) throw Error("the cable is cut");
                 inner->all_to_all(from, to, bytes, stream);
             }});
}

/// A rank whose call ended midway is out of step, and makes no call again. The others would take its words for those of
/// another call.
TEST(ExpertGroupErrors, ACallThatEndsMidwayIsTheLastOfItsRank) {
    MoeCase whole(small());
    const ExpertGroupOptions options = options_of(whole);
    const SharedLayer layers(whole, options, {0, 4, 8});
    const std::vector<std::string> errors = by_ranks(2, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        ExpertGroup group(failing(std::move(own)), options);
        group.run(layers.part(rank), {.threads = 1});
        try {
            group.run(layers.part(rank), {.threads = 1});
            ADD_FAILURE() << "the exchange fails";
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), "the cable is cut");
        }
        group.run(layers.part(rank), {.threads = 1});
    });
    for (const std::string& error : errors) {
        EXPECT_TRUE(has(error, "a call of this rank ended midway; make a new group")) << error;
    }
}

/// Rank 1's call is wrong, and rank 0 does not come: that counts for more.
TEST(ExpertGroupErrors, ALostRankCountsForMoreThanAWrongCall) {
    MoeCase whole(small());
    ExpertGroupOptions options = options_of(whole);
    options.experts = 6;
    options.per_rank = 2;
    options.exchange = Exchange::addresses;
    options.seconds = 0.2;
    const SharedLayer layers(whole, options, {0, 3, 6, 8});
    const std::vector<std::string> errors = by_ranks(3, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        ExpertGroup group(std::move(own), options);
        if (rank == 0) return;
        Moe layer = layers.part(rank);
        if (rank == 1) layer.out.shape[1] -= 1;
        EXPECT_THROW(group.run(layer, {.threads = 1}), Error);
        group.run(layers.part(rank), {.threads = 1});
    });
    EXPECT_TRUE(has(errors[2], "make a new group")) << errors[2];
}

TEST(ExpertGroupErrors, FunctionsOfTheCallerAreAllThere) {
    RankFunctions functions{.rank = 2, .size = 2};
    try {
        ranks_of_functions(functions);
        ADD_FAILURE() << "functions are missing";
    } catch (const Error& error) {
        EXPECT_TRUE(has(error.what(), "rank: got 2; expected 0 to 1."));
        for (const char* name : {"share", "allocate", "all_gather", "all_to_all"}) {
            EXPECT_TRUE(has(error.what(), std::string(name) + ": got nothing; expected a function")) << error.what();
        }
    }
}

}  // namespace
}  // namespace tilewright
