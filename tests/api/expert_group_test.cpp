// A layer that ranks share has the bits of one rank, or a sum of ranks within its bound. Ranks are threads.
#include "verify/ranked_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "check/limits.h"
#include "formats/element.h"

namespace tilewright {
namespace {

using check::MoeCase;
using check::MoeChoices;
using check::MoeSpec;
using verify::keep_to_routed_experts;
using verify::options_of;
using verify::random_split;
using verify::result_of_sums;
using verify::SharedLayer;
using verify::sums_of_ranks;

constexpr std::array rank_counts{1, 2, 3, 4, 8};

MoeSpec small(const Recipe& recipe, std::uint64_t seed) {
    return {.recipe = recipe,
            .tokens = 11,
            .choices = 3,
            .experts = 24,
            .hidden = 48,
            .inner = 32,
            .arithmetic = Arithmetic::fast,
            .seed = seed};
}

void expect_bits_of_one_rank(const MoeSpec& spec, ExpertGroupOptions options, MoeCase& whole, int ranks) {
    SCOPED_TRACE(describe(spec) + ", ranks " + std::to_string(ranks) + ", " + std::string(name(options.exchange)));
    options.combine = RankSums::rows;
    whole.reset_output();
    run(whole.layer(), {.threads = 1});
    const std::vector<std::byte> wanted = whole.output();
    whole.reset_output();
    SharedLayer shared(whole, options, random_split(spec.tokens, ranks, spec.seed));
    ASSERT_EQ(shared.run(), "");
    EXPECT_TRUE(whole.output() == wanted);
}

/// A scale of a whole tensor is that of h on a rank, so that ranks have other bits.
bool has_scale_of_tensor(const Recipe& recipe) {
    return recipe.a.granularity == Granularity::tensor || recipe.a.granularity == Granularity::block_1x16;
}

TEST(ExpertGroup, RowsHaveTheBitsOfOneRankForEveryRecipe) {
    std::uint64_t seed = 1;
    for (const Recipe& recipe : check::moe_recipes()) {
        if (has_scale_of_tensor(recipe)) continue;
        MoeSpec spec = small(recipe, ++seed);
        spec.weights_at = all_weights_at[seed % 3];
        spec.unit.kind = all_gated_units[seed / 3 % 4];
        spec.quantized = seed % 5 == 0 && spec.weights_at != WeightsAt::input;
        spec.round_up = seed % 3 == 0;
        spec.with_bias = seed % 2 == 0;
        spec.with_addend = seed % 7 < 3;
        spec.in_place = seed % 7 == 2;
        spec.with_weights = seed % 6 != 5;
        spec.weights = std::array{Format::f32, Format::bf16, Format::f16}[seed % 3];
        spec.indices = seed % 4 == 1 ? Format::i64 : Format::i32;
        spec.x = std::array{Format::bf16, Format::f32, Format::f16}[seed / 2 % 3];
        spec.out = std::array{Format::bf16, Format::f32, Format::f16}[seed / 4 % 3];
        spec.gap = seed % 4 == 2 ? 8 : 0;
        MoeCase whole(spec);
        ExpertGroupOptions options = options_of(whole);
        options.exchange = seed % 2 == 0 ? Exchange::collectives : Exchange::addresses;
        expect_bits_of_one_rank(spec, options, whole, rank_counts[seed % 5]);
    }
}

TEST(ExpertGroup, RowsHaveTheBitsOfOneRankForAnyNumberOfRanks) {
    std::uint64_t seed = 100;
    for (const int ranks : rank_counts) {
        for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
            for (const MoeChoices chosen : check::all_moe_choices) {
                MoeSpec spec = small(recipe_named("1x128:128x128"), ++seed);
                spec.chosen = chosen;
                spec.arithmetic = Arithmetic::bit_exact;
                spec.reproducibility = Reproducibility::invariant;
                MoeCase whole(spec);
                ExpertGroupOptions options = options_of(whole);
                options.exchange = exchange;
                expect_bits_of_one_rank(spec, options, whole, ranks);
            }
        }
    }
}

TEST(ExpertGroup, RoundsOfFewTokensHaveTheSameBits) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        for (const std::int64_t chunk : {1, 4}) {
            const MoeSpec spec = small(recipe_named("1x128:128x128"), 7);
            MoeCase whole(spec);
            ExpertGroupOptions options = options_of(whole);
            options.exchange = exchange;
            options.chunk = chunk;
            expect_bits_of_one_rank(spec, options, whole, 3);
        }
    }
}

MoeSpec with_shared_experts(MoeSpec spec) {
    spec.shared = 2;
    spec.experts += spec.shared;
    return spec;
}

TEST(ExpertGroup, SharedExpertsTakeTheTokensOfTheirRank) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        const MoeSpec spec = with_shared_experts(small(recipe_named("mxfp8:mxfp8"), 9));
        MoeCase whole(spec);
        keep_to_routed_experts(whole);
        ExpertGroupOptions options = options_of(whole);
        options.exchange = exchange;
        expect_bits_of_one_rank(spec, options, whole, 3);
    }
}

/// Expert 0 on both ranks, expert 3 twice on one, and places without an expert.
ExpertGroupOptions with_copies(ExpertGroupOptions options) {
    options.per_rank = 16;
    options.places.clear();
    for (int expert = 0; expert < options.experts; ++expert)
        options.places.push_back({expert < 12 ? expert : expert + 6});
    options.places[0].push_back(31);
    options.places[3] = {30, 12, 13};
    return options;
}

TEST(ExpertGroup, CopiesOfExpertsHaveTheSameBits) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        MoeSpec spec = small(recipe_named("row:row"), 11);
        spec.chosen = MoeChoices::wild;
        MoeCase whole(spec);
        ExpertGroupOptions options = with_copies(options_of(whole));
        options.exchange = exchange;
        expect_bits_of_one_rank(spec, options, whole, 2);
        // Every token chooses the expert with three copies.
        auto* const ids = static_cast<std::int32_t*>(whole.layer().routing.experts.data);
        std::fill(ids, ids + spec.tokens * spec.choices, 3);
        expect_bits_of_one_rank(spec, options, whole, 2);
    }
}

TEST(ExpertGroup, CallsOneAfterAnotherDoNotDisturbEachOther) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        for (const RankSums sums : {RankSums::rows, RankSums::sums}) {
            const MoeSpec spec = small(recipe_named("1x128:128x128"), 13);
            MoeCase whole(spec);
            ExpertGroupOptions options = options_of(whole);
            options.exchange = exchange;
            options.combine = sums;
            SharedLayer shared(whole, options, random_split(spec.tokens, 4, 3));
            ASSERT_EQ(shared.run(), "");
            const std::vector<std::byte> once = whole.output();
            whole.reset_output();
            ASSERT_EQ(shared.run(50), "");
            EXPECT_TRUE(whole.output() == once);
        }
    }
}

TEST(ExpertGroup, ManyRanksHaveCollectives) {
    MoeSpec spec = small(recipe_named("1x128:128x128"), 15);
    spec.experts = 20;
    MoeCase whole(spec);
    const ExpertGroupOptions options = options_of(whole);
    expect_bits_of_one_rank(spec, options, whole, 20);
}

/// The result in f32.
std::vector<float> numbers_of(const Moe& layer) {
    std::vector<float> numbers;
    for (std::int64_t token = 0; token < layer.out.shape[0]; ++token) {
        for (std::int64_t i = 0; i < layer.out.shape[1]; ++i) {
            numbers.push_back(
                static_cast<float>(formats::load(layer.out.data, layer.out.format, token * layer.out.strides[0] + i)));
        }
    }
    return numbers;
}

/// The layers of a test of sums: every number of ranks, exchange, format of sums and place of weights.
template <class Expect>
void for_each_layer_of_sums(std::uint64_t seed, const Expect& expect) {
    for (const int ranks : rank_counts) {
        for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
            for (const Format sums : {Format::bf16, Format::f32}) {
                for (const WeightsAt place : all_weights_at) {
                    ++seed;
                    MoeSpec spec = small(recipe_named(seed % 2 == 0 ? "1x128:128x128" : "bf16:bf16"), seed);
                    spec.weights_at = place;
                    spec.with_addend = seed % 3 == 0;
                    spec.out = std::array{Format::bf16, Format::f32, Format::f16}[seed / 2 % 3];
                    MoeCase whole(spec);
                    ExpertGroupOptions options = options_of(whole);
                    options.exchange = exchange;
                    options.combine = RankSums::sums;
                    options.sums = sums;
                    SCOPED_TRACE(describe(spec) + ", ranks " + std::to_string(ranks) + ", " +
                                 std::string(name(exchange)) + ", sums in " + std::string(name(sums)));
                    expect(whole, options, ranks);
                }
            }
        }
    }
}

TEST(ExpertGroup, SumsOfRanksHaveTheBitsOfTheirDefinition) {
    for_each_layer_of_sums(300, [](MoeCase& whole, const ExpertGroupOptions& options, int ranks) {
        const std::vector<std::int64_t> split = random_split(whole.spec().tokens, ranks, whole.spec().seed);
        const std::vector<std::byte> wanted =
            result_of_sums(whole, options, sums_of_ranks(whole, options, split, verify::RankedRun{}));
        whole.reset_output();
        ASSERT_EQ(SharedLayer(whole, options, split).run(), "");
        EXPECT_TRUE(whole.output() == wanted);
    });
}

/// For each number of the result: the magnitudes of what is added for it.
std::vector<double> magnitudes_of(const MoeSpec& spec) {
    MoeCase whole(spec);
    Moe& layer = whole.layer();
    std::vector<double> sizes(static_cast<std::size_t>(spec.tokens * spec.hidden), 0);
    for (std::size_t i = 0; i < whole.addend().size(); ++i) sizes[i] = std::abs(double{whole.addend()[i]});
    std::vector<float> term(sizes.size());
    layer.addend = {};
    layer.out = row_major(term.data(), Format::f32, layer.out.shape);
    auto* const ids = static_cast<std::int32_t*>(layer.routing.experts.data);
    const std::vector<std::int32_t> given(ids, ids + spec.tokens * spec.choices);
    for (std::int64_t kept = 0; kept < spec.choices; ++kept) {
        for (std::size_t i = 0; i < given.size(); ++i) {
            ids[i] = static_cast<std::int64_t>(i) % spec.choices == kept ? given[i] : -1;
        }
        run(layer, {.threads = 1});
        for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] += std::abs(double{term[i]});
    }
    return sizes;
}

double unit_roundoff(Format format) {
    return std::ldexp(1, format == Format::f32 ? -24 : format == Format::f16 ? -11 : -8);
}

/// docs/numerics.md, "Layers over ranks".
TEST(ExpertGroup, SumsOfRanksAreWithinTheirBound) {
    for_each_layer_of_sums(200, [](MoeCase& whole, const ExpertGroupOptions& options, int ranks) {
        const MoeSpec& spec = whole.spec();
        run(whole.layer(), {.threads = 1});
        const std::vector<float> wanted = numbers_of(whole.layer());
        whole.reset_output();
        ASSERT_EQ(SharedLayer(whole, options, random_split(spec.tokens, ranks, spec.seed)).run(), "");
        const std::vector<float> found = numbers_of(whole.layer());
        const std::vector<double> sizes = magnitudes_of(spec);
        const double u_out = unit_roundoff(spec.out);
        double size = 0;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const double ours = found[i], one = wanted[i];
            const double bound = (unit_roundoff(options.sums) + std::ldexp(8, -24)) * sizes[i] +
                                 u_out * (std::abs(ours) + std::abs(one)) + check::smallest_number(spec.out);
            ASSERT_LE(std::abs(ours - one), bound) << i;
            size += std::abs(one);
        }
        EXPECT_GT(size, 0);
    });
}

/// If rounded sums were as near, the bound above would judge nothing.
TEST(ExpertGroup, SumsInF32AreNearerThanRoundedOnes) {
    MoeSpec spec = small(recipe_named("1x128:128x128"), 401);
    spec.out = Format::f32;
    MoeCase whole(spec);
    run(whole.layer(), {.threads = 1});
    const std::vector<float> wanted = numbers_of(whole.layer());
    ExpertGroupOptions options = options_of(whole);
    options.combine = RankSums::sums;
    std::array<double, 2> errors{};
    for (const Format sums : {Format::bf16, Format::f32}) {
        options.sums = sums;
        whole.reset_output();
        ASSERT_EQ(SharedLayer(whole, options, random_split(spec.tokens, 4, 1)).run(), "");
        const std::vector<float> found = numbers_of(whole.layer());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            double& worst = errors[sums == Format::f32 ? 1 : 0];
            worst = std::max(worst, std::abs(double{found[i]} - double{wanted[i]}));
        }
    }
    EXPECT_GT(errors[0], 1000 * errors[1]);
}

TEST(ExpertGroup, SumsWithSharedExpertsAreNearOneRank) {
    for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
        MoeSpec spec = with_shared_experts(small(recipe_named("row:row"), 402));
        spec.out = Format::f32;
        MoeCase whole(spec);
        keep_to_routed_experts(whole);
        ExpertGroupOptions options = options_of(whole);
        options.exchange = exchange;
        options.combine = RankSums::sums;
        options.sums = Format::f32;
        run(whole.layer(), {.threads = 1});
        const std::vector<float> wanted = numbers_of(whole.layer());
        whole.reset_output();
        ASSERT_EQ(SharedLayer(whole, options, random_split(spec.tokens, 3, 2)).run(), "");
        const std::vector<float> found = numbers_of(whole.layer());
        double error = 0, size = 0;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            error += std::pow(double{found[i]} - double{wanted[i]}, 2);
            size += std::pow(double{wanted[i]}, 2);
        }
        EXPECT_GT(size, 0);
        EXPECT_LE(std::sqrt(error), std::sqrt(size) * std::ldexp(8, -24));
    }
}

TEST(ExpertGroup, ScalesOfAWholeTensorAreThoseOfAllTokens) {
    for (const char* recipe : {"tensor:tensor", "nvfp4:nvfp4"}) {
        for (const Exchange exchange : {Exchange::collectives, Exchange::addresses}) {
            // With one rank that has experts, h is the same too: the bits are those of one rank.
            MoeSpec spec = small(recipe_named(recipe), 31);
            spec.experts = 12;
            MoeCase whole(spec);
            ExpertGroupOptions options = options_of(whole);
            options.exchange = exchange;
            options.per_rank = 12;
            expect_bits_of_one_rank(spec, options, whole, 3);
        }
    }
}

}  // namespace
}  // namespace tilewright
