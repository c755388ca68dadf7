// Every grouping, recipe, layout and output of the fast arithmetic through the gates, on small odd shapes.
#include "cpu/fast/cases.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <mutex>

namespace tilewright {
namespace {

using check::CaseSpec;
using check::Distribution;

constexpr Grouping groupings[] = {Grouping::dense,
                                  Grouping::batched,
                                  Grouping::m_grouped_indices,
                                  Grouping::m_grouped_offsets,
                                  Grouping::m_grouped_aligned_offsets,
                                  Grouping::m_grouped_masked,
                                  Grouping::k_grouped,
                                  Grouping::k_grouped_aligned_offsets,
                                  Grouping::k_grouped_flat};

Distribution pick_distribution(check::Random& random) {
    const auto& list = check::random_distributions();
    if (random.up_to(1) == 0) return Distribution::exact_grid;
    return list[static_cast<std::size_t>(random.up_to(static_cast<std::int64_t>(list.size()) - 1))];
}

/// Sizes around the edges of tiles, layouts of memory and options, all from the seed.
CaseSpec small_case(std::uint64_t seed, const Recipe& recipe) {
    check::Random random(seed);
    constexpr std::int64_t sizes[] = {1, 2, 3, 5, 8, 9, 13, 16, 17, 24, 31, 33, 40};
    constexpr std::int64_t lengths[] = {1, 7, 16, 31, 32, 33, 48, 96, 127, 128, 129, 144, 160, 257};
    const auto pick = [&](const auto& list) {
        const std::int64_t size = list[random.up_to(static_cast<std::int64_t>(std::size(list)) - 1)];
        return test::is_packed(recipe) ? size + size % 2 : size;
    };
    CaseSpec spec{.recipe = recipe, .m = pick(sizes), .n = pick(sizes), .k = pick(lengths)};
    spec.distribution = pick_distribution(random);
    spec.seed = seed;
    spec.groups = 1 + random.up_to(3);
    spec.alignment = random.up_to(1) == 0 ? 8 : 128;
    spec.size_format = random.up_to(1) == 0 ? Format::i32 : Format::i64;
    spec.with_c = random.up_to(1) == 0;
    spec.in_place = spec.with_c && random.up_to(1) == 0;
    spec.alpha = random.up_to(1) == 0 ? 1.0F : -2.0F;
    const std::int64_t gap = random.up_to(2);
    spec.a_gaps = {.element = test::is_packed(recipe) ? 0 : gap % 2, .row = 2 * gap, .group = 4 * gap};
    spec.b_gaps = {.element = test::is_packed(recipe) ? 0 : gap / 2, .row = 4 - 2 * gap, .group = 2 * gap};
    spec.d_gaps = {.element = gap / 2, .row = gap, .group = gap};
    spec.c_gaps = spec.in_place ? spec.d_gaps : check::Gaps{.element = gap % 2, .row = gap, .group = gap};
    spec.a_scale_gaps = {.element = gap % 2, .row = gap, .group = gap};
    spec.a_scales_transposed = random.up_to(1) == 0;
    spec.b_scales_transposed = random.up_to(1) == 0;
    spec.guard_pages = random.up_to(3) == 0;
    return spec;
}

/// One failure's text for each recipe at most, so that a broken kernel stays readable.
void sweep(const std::vector<CaseSpec>& specs) {
    const std::vector<cpu::FastOptions> ways = test::ways();
    std::mutex mutex;
    int failures = 0;
    std::string first;
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const std::string reason = check::impossible(specs[i]);
        std::string failure = reason;
        if (reason.empty()) {
            check::Case test_case(specs[i]);
            failure = test::failure(test_case, ways[i % ways.size()]);
        }
        if (failure.empty()) continue;
        const std::scoped_lock lock(mutex);
        if (++failures <= 3) first += failure + "\n";
    }
    EXPECT_EQ(failures, 0) << "of " << specs.size() << "; the first:\n" << first;
}

std::vector<CaseSpec> sample(const std::vector<CaseSpec>& specs, int step = 13) {
    EXPECT_GE(specs.size(), 150U);
    tests::Sample taken(step);
    std::vector<CaseSpec> some;
    std::ranges::copy_if(specs, std::back_inserter(some), [&](const CaseSpec&) { return taken.takes_next(); });
    return some;
}

class FastGrouping : public ::testing::TestWithParam<Grouping> {};

TEST_P(FastGrouping, EveryRecipeLayoutAndOutput) {
    std::vector<CaseSpec> specs;
    std::uint64_t seed = 1000 * static_cast<std::uint64_t>(GetParam());
    for (const Recipe& recipe : all_recipes()) {
        for (Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
            for (Format output : {Format::bf16, Format::f16, Format::f32}) {
                CaseSpec spec = small_case(++seed, recipe);
                spec.grouping = GetParam();
                spec.layout = layout;
                spec.output = output;
                if (spec.grouping == Grouping::dense) spec.groups = 1;
                specs.push_back(spec);
            }
        }
    }
    sweep(sample(specs, 5));
}

INSTANTIATE_TEST_SUITE_P(All, FastGrouping, ::testing::ValuesIn(groupings),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

TEST(FastGates, EveryRecipeInEveryWay) {
    std::vector<CaseSpec> specs;
    std::uint64_t seed = 77;
    for (const Recipe& recipe : all_recipes()) {
        for (std::size_t way = 0; way < test::ways().size(); ++way) {
            specs.push_back({.recipe = recipe,
                             .output = Format::f32,
                             .m = way % 2 == 0 ? 50 : 6,
                             .n = 118,
                             .k = 546,
                             .distribution = Distribution::uniform,
                             .seed = ++seed});
        }
    }
    sweep(sample(specs));
}

TEST(FastGates, EveryDistribution) {
    std::vector<CaseSpec> specs;
    for (const char* recipe : {"1x128:128x128", "row:row", "mxfp8:mxfp4", "nvfp4:nvfp4", "bf16:bf16", "f32:f32"}) {
        for (Distribution distribution : check::random_distributions()) {
            for (std::size_t way = 0; way < test::ways().size(); ++way) {
                specs.push_back({.recipe = *parse_recipe(recipe),
                                 .output = Format::f32,
                                 .m = 40,
                                 .n = 64,
                                 .k = 1024,
                                 .distribution = distribution,
                                 .with_c = way % 2 == 0});
            }
        }
    }
    sweep(sample(specs));
}

TEST(FastGates, EmptySizes) {
    std::vector<CaseSpec> specs;
    for (Grouping grouping : groupings) {
        for (int empty = 0; empty < 8; ++empty) {
            for (std::size_t way = 0; way < test::ways().size(); ++way) {
                CaseSpec spec{.grouping = grouping, .recipe = *parse_recipe("1x128:128x128")};
                spec.m = (empty & 1) != 0 ? 0 : 20;
                spec.n = (empty & 2) != 0 ? 0 : 12;
                spec.k = (empty & 4) != 0 ? 0 : 136;
                spec.groups = grouping == Grouping::dense ? 1 : 3;
                spec.with_c = way % 2 == 0;
                specs.push_back(spec);
            }
        }
    }
    sweep(sample(specs, 5));
}

TEST(FastGates, PartsAndChunks) {
    // More than 512 rows are cut into parts, more than 16 MiB of decoded rows into chunks.
    std::vector<CaseSpec> specs;
    for (std::size_t way = 0; way < test::ways().size(); ++way) {
        specs.push_back({.recipe = *parse_recipe("mxfp8:mxfp4"), .m = 1100, .n = 34, .k = 160, .with_c = true});
        specs.push_back({.recipe = *parse_recipe("1x128:128x128"), .m = 150, .n = 20, .k = 33'000});
    }
    sweep(specs);
}

}  // namespace
}  // namespace tilewright
