// The kernels around the products of a layer of experts on the emulator against the CPU, bit for bit. Rows that do not
// exist, and bytes between rows, stay as they are.
#include "emulator/other_kernels.h"

#include "emulator/quantize_case.h"
#include "launch/moe.h"
#include "moe/rows.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace tilewright::tests {
namespace {

using moe::Rows;

constexpr std::byte untouched{0xCD};  // what Matrix fills its memory with

/// An operand in memory, with scales if its recipe has them. `gap` columns that are not its follow each row.
struct Target {
    Target(const OperandRecipe& recipe, Dims shape, std::int64_t gap = 0) : values(recipe.values, wider(shape, gap)) {
        operand = {.values = values.tensor(), .granularity = recipe.granularity};
        operand.values.shape = shape;
        if (recipe.granularity == none) return;
        const bool along_rows = recipe.granularity == blocks && shape.rank() == 2;
        scales.emplace(recipe.scales, scale_shape(recipe.granularity, shape),
                       along_rows ? Order::transposed : Order::row_major);
        operand.scales = scales->tensor();
    }
    static Dims wider(Dims shape, std::int64_t gap) {
        shape[shape.rank() - 1] += gap;
        return shape;
    }
    bool gaps_are_untouched() const {
        const Rows rows(values.tensor());
        for (std::int64_t row = 0; row < rows.count(); ++row) {
            for (std::int64_t i = Rows(operand.values).columns(); i < rows.columns(); ++i) {
                if (*rows.at(row, i) != untouched) return false;
            }
        }
        return values.gaps_are_untouched();
    }
    Matrix values;
    std::optional<Matrix> scales{};
    Operand operand;
};

/// Rows of `given` are those of `expected` where they exist; elsewhere each byte is `otherwise`.
void expect_rows(const Rows& given, const Rows& expected, const std::vector<char>& exists, std::byte otherwise) {
    ASSERT_EQ(static_cast<std::size_t>(given.count()), exists.size());
    const std::int64_t step = given.element_bytes() == 0 ? 2 : 1,
                       bytes = std::max<std::int64_t>(given.element_bytes(), 1);
    for (std::int64_t row = 0; row < given.count(); ++row) {
        const bool is_there = exists[static_cast<std::size_t>(row)] != 0;
        for (std::int64_t i = 0; i < given.columns(); i += step) {
            const std::vector<std::byte> found(given.at(row, i), given.at(row, i) + bytes);
            std::vector<std::byte> wanted(found.size(), otherwise);
            if (is_there) wanted.assign(expected.at(row, i), expected.at(row, i) + bytes);
            if (found == wanted) continue;
            ADD_FAILURE() << "row " << row << (is_there ? "" : " (does not exist)") << ", element " << i;
            return;
        }
    }
}

void expect_rows(const Target& given, const Target& expected, const std::vector<char>& exists,
                 std::byte otherwise = untouched) {
    expect_rows(Rows(given.operand.values), Rows(expected.operand.values), exists, otherwise);
    EXPECT_TRUE(given.gaps_are_untouched());
    if (!given.scales) return;
    expect_rows(Rows::of_scales(given.operand.scales, given.operand.values),
                Rows::of_scales(expected.operand.scales, expected.operand.values), exists, untouched);
}

/// The step's output on the emulator is the CPU's.
template <class Step>
void expect_cpu_rows(Step step, const OperandRecipe& recipe, const Dims& shape, const std::vector<char>& exists,
                     std::int64_t gap = 0, std::byte otherwise = untouched) {
    const Target given(recipe, shape, gap), expected(recipe, shape, gap);
    const auto set_out = [&](const Target& target) {
        if constexpr (requires { step.out.granularity; }) {
            step.out = target.operand;
        } else {
            step.out = target.operand.values;
        }
    };
    set_out(expected);
    run_on_cpu(step, {});
    set_out(given);
    launch::require_served(step);
    run_on_emulator(launch::lower(step), 13);
    expect_rows(given, expected, exists, otherwise);
}

// ---- Recipes and shapes

constexpr OperandRecipe unscaled(Format format) { return {.values = format, .granularity = none}; }
constexpr OperandRecipe by_blocks{Format::e4m3, blocks};
constexpr OperandRecipe by_rows{Format::e4m3, Granularity::row};
constexpr OperandRecipe by_mx{Format::e4m3, Granularity::block_1x32, Format::ue8m0};

struct Written {
    OperandRecipe recipe{};
    bool round_up = false;
};
constexpr std::array all_written{Written{unscaled(Format::bf16)},
                                 Written{unscaled(Format::f16)},
                                 Written{unscaled(Format::f32)},
                                 Written{by_rows},
                                 Written{{Format::e5m2, Granularity::row}, true},
                                 Written{by_blocks},
                                 Written{by_blocks, true},
                                 Written{{Format::e4m3, blocks, Format::ue8m0}},
                                 Written{{Format::e5m2, blocks}},
                                 Written{by_mx},
                                 Written{{Format::e5m2, Granularity::block_1x32, Format::ue8m0}, true}};
constexpr std::array few_written{Written{unscaled(Format::bf16)}, Written{by_rows}, Written{by_blocks}, Written{by_mx}};

// ---- Routing

struct RouteCase {
    std::int64_t tokens = 0;
    std::int64_t choices = 2;  // that ids have
    int experts = 8;
    int shared = 0;
    bool wide = false;    // int64
    bool mapped = false;  // global ids, every other one of which is elsewhere
    bool wild = false;    // ids beyond the last, and negative ones
    int only = -1;        // the expert of all choices
    Format weights = Format::f32;
    std::int64_t gap = 0;  // ids between tokens, which are not choices
};

struct RouteOutputs {
    explicit RouteOutputs(const RouteCase& c)
        : rows(Format::i32, {c.tokens, c.choices + c.shared}),
          sources(Format::i32, {c.tokens * (c.choices + c.shared)}),
          ends(Format::i32, {c.experts}),
          weights(Format::f32, sources.shape()) {}
    Routed routed() const { return {rows.tensor(), sources.tensor(), ends.tensor(), weights.tensor()}; }
    Matrix rows, sources, ends, weights;
};

struct RouteCall {
    explicit RouteCall(const RouteCase& c)
        : narrow(static_cast<std::size_t>(c.tokens * (c.choices + c.gap))), weights(c.weights, {c.tokens, c.choices}) {
        std::mt19937 random(31 + static_cast<unsigned>(c.tokens));
        const int range = c.mapped ? 2 * c.experts : c.experts;
        for (std::int32_t& id : narrow) {
            id = c.only >= 0 ? c.only : static_cast<std::int32_t>(random() % static_cast<unsigned>(range));
            if (c.wild && random() % 4 == 0) id = std::array{-1, range, 1 << 30, -2147483647}[random() % 4];
        }
        for (const std::int32_t id : narrow) wide.push_back(c.wild && id < 0 ? std::int64_t{1} << 40 : id);
        map.resize(static_cast<std::size_t>(range));
        for (int i = 0; i < range; ++i) map[static_cast<std::size_t>(i)] = i % 2 == 0 ? i / 2 : -1;
        weights.fill_randomly(5);
        const Dims shape{c.tokens, c.choices};
        step.experts = c.experts;
        step.routing = {.experts = c.wide ? row_major(wide.data(), Format::i64, shape)
                                          : row_major(narrow.data(), Format::i32, shape),
                        .weights = weights.tensor(),
                        .shared = c.shared};
        step.routing.experts.strides[0] = c.choices + c.gap;
        if (c.mapped) step.routing.map = row_major(map.data(), Format::i32, {range});
    }
    std::vector<std::int32_t> narrow, map;
    std::vector<std::int64_t> wide;
    Matrix weights;
    moe::RouteStep step;
};

void expect_same(const RouteOutputs& given, const RouteOutputs& expected) {
    for (const auto each : {&RouteOutputs::rows, &RouteOutputs::sources, &RouteOutputs::ends, &RouteOutputs::weights})
        EXPECT_EQ(bytes((given.*each).tensor()), bytes((expected.*each).tensor()));
}

using LowerRoute = std::function<std::vector<launch::OtherLaunch>(const moe::RouteStep&)>;

std::vector<launch::OtherLaunch> usual(const moe::RouteStep& step) { return launch::lower(step); }

/// `launches` of the step whose output is given.
void expect_cpu_route(const RouteCase& c, std::uint64_t seed = 3, const LowerRoute& launches = usual) {
    SCOPED_TRACE("tokens " + std::to_string(c.tokens) + " experts " + std::to_string(c.experts));
    RouteCall call(c);
    const RouteOutputs given(c), expected(c);
    call.step.out = expected.routed();
    run_on_cpu(call.step);
    call.step.out = given.routed();
    launch::require_served(call.step);
    run_on_emulator(launches(call.step), seed);
    expect_same(given, expected);
}

TEST(Moe, RoutesHaveTheCpusRows) {
    expect_cpu_route({.tokens = 700, .choices = 3, .experts = 13, .wild = true});
    expect_cpu_route({.tokens = 300, .choices = 8, .experts = 512, .shared = 1, .wide = true, .wild = true}, 0);
    expect_cpu_route({.tokens = 5, .choices = 1, .experts = 1});
    expect_cpu_route({.tokens = 0, .experts = 40});
    expect_cpu_route({.tokens = 130, .choices = 16, .experts = 600, .mapped = true, .weights = Format::bf16}, 9);
    expect_cpu_route({.tokens = 1000, .choices = 2, .experts = 32, .only = 31, .weights = Format::f16});
    expect_cpu_route({.tokens = 1024, .choices = 1, .experts = 16, .weights = Format::bf16}, 0);
    expect_cpu_route({.tokens = 205, .choices = 5, .experts = 255, .wild = true});
    expect_cpu_route({.tokens = 300, .choices = 4, .experts = 100, .weights = Format::f16, .gap = 3});
    // One more than 8 full blocks, many choices, the most experts.
    expect_cpu_route({.tokens = 2731, .choices = 3, .experts = 257, .wild = true}, 0);
    expect_cpu_route({.tokens = 4500, .choices = 2, .experts = 8, .shared = 2, .wide = true, .mapped = true}, 0);
    expect_cpu_route({.tokens = 64, .choices = 4, .experts = 2048});
    run_on_emulator(launch::lower(RouteCall({.tokens = 40}).step));  // no output is needed
}

TEST(Moe, RoutesOfAnyClusterHaveTheCpusRows) {
    using hopper::RouteKeeps;
    Sample sample(7);
    std::uint64_t seed = 0;
    for (const RouteKeeps keeps : {RouteKeeps::nothing, RouteKeeps::places, RouteKeeps::order}) {
        for (const int count : {1, 2, 16}) {
            SCOPED_TRACE("blocks " + std::to_string(count) + " keep " + std::to_string(static_cast<int>(keeps)));
            const LowerRoute in_cluster = [&](const moe::RouteStep& step) {
                return std::vector{launch::in_cluster(launch::lower(step).front(), {.blocks = count, .keeps = keeps})};
            };
            for (const RouteCase& c :
                 {RouteCase{.tokens = 1, .choices = 7, .experts = 9, .wild = true},
                  {.tokens = 701, .choices = 3, .experts = 13, .shared = 1, .wild = true},
                  {.tokens = 2100, .choices = 1, .experts = 1030, .only = 1029, .weights = Format::f16}}) {
                if (!sample.takes_next()) continue;
                expect_cpu_route(c, seed++, in_cluster);
            }
        }
    }
}

TEST(Moe, RoutesReadAdjacentIdsAndWeightsAsSuch) {
    const auto adjacent = [](const RouteCase& c) {
        return launch::lower(RouteCall(c).step).front().of<launch::Route>().arguments.adjacent;
    };
    EXPECT_TRUE(adjacent({.tokens = 40}));
    for (const RouteCase& c : {RouteCase{.tokens = 40, .shared = 1},
                               {.tokens = 40, .wide = true},
                               {.tokens = 40, .mapped = true},
                               {.tokens = 40, .weights = Format::f16},
                               {.tokens = 40, .gap = 1}}) {
        EXPECT_FALSE(adjacent(c));
    }
}

TEST(Moe, RoutesInAPortableClusterHaveTheCpusRows) {
    expect_cpu_route({.tokens = 2731, .choices = 3, .experts = 300, .wild = true}, 0, [](const moe::RouteStep& step) {
        const launch::OtherLaunch large = launch::lower(step).front();
        EXPECT_EQ(large.cluster, hopper::most_route_blocks);
        const launch::OtherLaunch portable = launch::in_portable_cluster(large);
        EXPECT_EQ(portable.cluster, hopper::portable_cluster);
        EXPECT_EQ(portable.blocks, hopper::portable_cluster);
        return std::vector{portable};
    });
}

TEST(Moe, RoutesAfterABarrierHaveTheCpusRows) {
    formats::RankCounters counters{};
    expect_cpu_route({.tokens = 700, .choices = 3, .experts = 13, .wild = true}, 5, [&](const moe::RouteStep& step) {
        launch::OtherLaunch launch = launch::lower(step).front();
        launch.call = launch::CallOf<launch::MeetAndRoute>{
            .arguments = {.meet = {.counters = &counters}, .route = launch.of<launch::Route>().arguments}};
        return std::vector{launch};
    });
}

/// The memory of three ranks, of which the second runs the step.
TEST(Moe, OwnersOfTokensGetTheirRows) {
    constexpr std::int64_t ranks = 3, own = 1;
    for (const std::int64_t room : {30, 250}) {
        for (const int shared : {0, 1}) {
            const RouteCase c{.tokens = ranks * room, .choices = 4, .experts = 9, .shared = shared, .wild = true};
            RouteCall call(c);
            const Dims all{c.tokens, c.choices + shared};
            const std::int64_t size = room * all[1] * 4;
            const std::array shifts{-size, std::int64_t{0}, size};
            const Matrix given(Format::i32, all), expected(Format::i32, all);
            call.step.owners = {.rank = own, .size = ranks, .shifts = shifts.data(), .room = room};
            const auto rows_in = [&](const Matrix& matrix) {
                return row_major(static_cast<void*>(static_cast<std::byte*>(matrix.tensor().data) + own * size),
                                 Format::i32, {room, all[1]});
            };
            call.step.owner_rows = rows_in(expected);
            run_on_cpu(call.step);
            call.step.owner_rows = rows_in(given);
            run_on_emulator(launch::lower(call.step), static_cast<std::uint64_t>(room));
            EXPECT_EQ(bytes(given.tensor()), bytes(expected.tensor()))
                << room << " tokens of a rank, shared " << shared;
        }
    }
}

TEST(Moe, RoutesKeepAsMuchAsSharedMemoryHolds) {
    const auto kept = [](const RouteCase& c, bool has_sources) {
        RouteCall call(c);
        std::int32_t source = 0;
        if (has_sources) call.step.out.sources = row_major(&source, Format::i32, {1});
        return launch::lower(call.step).front().of<launch::Route>().arguments.keeps;
    };
    const RouteCase usual{.tokens = 8192, .choices = 8, .experts = 256};
    EXPECT_EQ(kept(usual, true), hopper::RouteKeeps::order);
    EXPECT_EQ(kept(usual, false), hopper::RouteKeeps::places);
    EXPECT_EQ(kept({.tokens = 128, .choices = 8, .experts = 256}, true), hopper::RouteKeeps::order);
    EXPECT_EQ(kept({.tokens = 1 << 18, .choices = 1, .experts = 2048}, true), hopper::RouteKeeps::places);
    EXPECT_EQ(kept({.tokens = 1 << 20, .choices = 1, .experts = 2048}, true), hopper::RouteKeeps::nothing);
    RouteCall call({.tokens = 8192, .choices = 8, .experts = 2048});
    EXPECT_GT(launch::in_cluster(launch::lower(call.step).front(), {.blocks = 8}).shared_bytes,
              hopper::most_route_shared);
}

// ---- Permutation

struct PermuteCase {
    Format source = Format::bf16;
    Written out{by_blocks};
    std::int64_t features = 0;
    RouteCase route{.tokens = 9, .choices = 3, .experts = 5, .wild = true};
    bool has_factors = false;
    bool fused = false;
    std::uint64_t seed = 7;
};

std::vector<char> placed(const Matrix& places, std::int64_t rows) {
    std::vector<char> exists(static_cast<std::size_t>(rows), 0);
    const auto* numbers = static_cast<const std::int32_t*>(places.tensor().data);
    for (std::int64_t i = 0; i < places.rows() * places.columns(); ++i) {
        if (numbers[i] >= 0) exists[static_cast<std::size_t>(numbers[i])] = 1;
    }
    return exists;
}

/// Routes and permutes on both sides, into the rows of all choices.
void expect_cpu_copies(RouteCall& call, const RouteCase& route, moe::PermuteStep step, const OperandRecipe& recipe,
                       std::int64_t features, bool fused, std::uint64_t seed) {
    const std::int64_t rows = route.tokens * (route.choices + route.shared);
    const Target given(recipe, {rows, features}), expected(recipe, {rows, features});
    const RouteOutputs routed(route), wanted(route);
    call.step.out = wanted.routed();
    run_on_cpu(call.step);
    step.places = wanted.rows.tensor();
    step.out = expected.operand;
    run_on_cpu(step, {});
    step.out = given.operand;
    launch::require_served(step);
    if (fused) {
        call.step.out = routed.routed();
        step.places = routed.rows.tensor();
        ASSERT_EQ(launch::lower(call.step, step).size(), 1U);
        run_on_emulator(launch::lower(call.step, step), seed);
        expect_same(routed, wanted);
    } else {
        run_on_emulator(launch::lower(step), seed);
    }
    expect_rows(given, expected, placed(wanted.rows, rows));
}

void expect_cpu_bits(const PermuteCase& c) {
    SCOPED_TRACE(name(c.out.recipe) + " of " + std::to_string(c.features) + " " + std::string(name(c.source)) +
                 (c.has_factors ? " with factors" : "") + (c.fused ? " fused" : ""));
    Matrix x(c.source, {c.route.tokens, c.features});
    fill(x, 19, c.route.tokens > 0);
    RouteCall call(c.route);
    moe::PermuteStep step{.x = x.tensor(), .round_up = c.out.round_up};
    if (c.has_factors) step.factors = call.weights.tensor();
    expect_cpu_copies(call, c.route, step, c.out.recipe, c.features, c.fused, c.seed);
}

TEST(Moe, CopiesOfTokensHaveTheCpusBits) {
    const RouteCase few{.tokens = 2, .choices = 2, .experts = 3};
    const RouteCase half{.tokens = 7, .choices = 5, .experts = 5, .shared = 1, .weights = Format::bf16};
    for (const Written& out : all_written) {
        for (const Format source : {Format::bf16, Format::f32}) {
            expect_cpu_bits(PermuteCase{.source = source, .out = out, .features = 272});
        }
        expect_cpu_bits(PermuteCase{.out = out, .features = 39, .seed = 0});
    }
    for (const Written& out : few_written) {
        expect_cpu_bits(PermuteCase{.source = Format::f16, .out = out, .features = 144});
        expect_cpu_bits(PermuteCase{.source = Format::f32, .out = out, .features = 150});
        expect_cpu_bits(PermuteCase{.out = out, .features = 16});
        // Long rows, and more than a block's lanes hold.
        expect_cpu_bits(PermuteCase{.out = out, .features = 4352, .route = few});
        expect_cpu_bits(PermuteCase{.out = out, .features = 8720, .route = few});
        // Times factors.
        expect_cpu_bits(PermuteCase{.out = out, .features = 272, .has_factors = true});
        expect_cpu_bits(
            PermuteCase{.source = Format::f16, .out = out, .features = 77, .route = half, .has_factors = true});
    }
    expect_cpu_bits(PermuteCase{.out = {by_rows}, .features = 8720, .route = few, .has_factors = true});
}

TEST(Moe, FewTokensAreRoutedByTheCopyingKernel) {
    for (const Written& out : few_written) expect_cpu_bits(PermuteCase{.out = out, .features = 272, .fused = true});
    const RouteCase routes[] = {
        {.tokens = 1, .choices = 8, .experts = 256, .shared = 1},
        {.tokens = 128, .choices = 8, .experts = 64, .wild = true},
        {.tokens = 0, .choices = 4, .experts = 33},
        {.tokens = 33, .choices = 16, .experts = 512, .shared = 2, .wide = true, .wild = true},
        {.tokens = 60, .choices = 1, .experts = 3, .mapped = true, .weights = Format::f16},
        {.tokens = 20, .choices = 40, .experts = 7, .only = 6},
    };
    for (const RouteCase& route : routes) {
        SCOPED_TRACE("tokens " + std::to_string(route.tokens));
        expect_cpu_bits(PermuteCase{.features = 16, .route = route, .fused = true});
    }
    for (const Written& out : few_written) {
        expect_cpu_bits(PermuteCase{
            .source = Format::f16, .out = out, .features = 39, .route = routes[3], .has_factors = true, .fused = true});
    }
    EXPECT_FALSE(launch::fits_in_permute(RouteCall({.tokens = 1025, .choices = 1}).step));
}

TEST(Moe, CodesAreCopiedAsOnTheCpu) {
    const RouteCase route{.tokens = 9, .choices = 3, .experts = 5, .shared = 1, .wild = true};
    const auto expect_cpu_bytes = [&](const OperandRecipe& recipe, std::int64_t features, bool fused) {
        SCOPED_TRACE(name(recipe) + " of " + std::to_string(features));
        Matrix x(Format::f32, {route.tokens, features});
        fill(x, 23, false);
        const OwnedOperand codes = quantize(x.tensor(), {.recipe = recipe});
        RouteCall call(route);
        expect_cpu_copies(call, route, {.quantized = codes}, recipe, features, fused, 5);
    };
    for (const OperandRecipe& recipe : {by_blocks,
                                        by_rows,
                                        by_mx,
                                        OperandRecipe{Format::e4m3, blocks, Format::ue8m0},
                                        {Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                        {Format::e2m1, Granularity::block_1x16, Format::ue4m3}}) {
        for (const std::int64_t features : {16, 270, 288, 4352}) expect_cpu_bytes(recipe, features, features == 288);
    }
    expect_cpu_bytes(by_blocks, 39, true);
}

// ---- Rows that exist

/// A description of rows and the memory that it refers to.
struct Existing {
    Dims rows{};  // of a matrix, without its columns
    std::vector<std::int64_t> ends{};
    std::vector<std::int64_t> counts{};
    std::int64_t alignment = 1;
    bool sorted = false;
    bool wide = true;
};

struct ExistingCall {
    explicit ExistingCall(const Existing& e) : narrow(e.ends.begin(), e.ends.end()), given(e) {
        rows.alignment = e.alignment;
        rows.sorted = e.sorted;
        if (!e.counts.empty()) narrow.assign(e.counts.begin(), e.counts.end());
        const std::vector<std::int64_t>& list = e.counts.empty() ? given.ends : given.counts;
        if (list.empty()) return;
        const Dims shape{std::ssize(list)};
        const Tensor tensor =
            e.wide ? row_major(list.data(), Format::i64, shape) : row_major(narrow.data(), Format::i32, shape);
        (e.counts.empty() ? rows.ends : rows.counts) = tensor;
    }
    Dims shape(std::int64_t columns) const {
        Dims all = given.rows;
        all.push_back(columns);
        return all;
    }
    std::vector<char> exists() const {
        const bool masked = given.rows.rank() == 2;
        const std::int64_t room = given.rows[given.rows.rank() - 1];
        return moe::existing(rows, masked ? given.rows[0] * room : room, room);
    }
    std::vector<std::int32_t> narrow;
    Existing given;
    moe::ExistingRows rows;
};

std::vector<Existing> all_existing() {
    std::vector<std::int64_t> many(70);
    for (std::int64_t i = 0; i < 70; ++i) many[static_cast<std::size_t>(i)] = i < 40 ? i / 3 : i - 20;
    return {
        {.rows = {7}},
        {.rows = {2, 5}},
        {.rows = {20}, .ends = {3, 3, 9, 14}, .sorted = true, .wide = false},
        {.rows = {20}, .ends = {0, 0}, .sorted = true},
        {.rows = {30}, .ends = {5, 2, -9, 11, std::int64_t{1} << 40}, .wide = true},
        {.rows = {60}, .ends = {5, 17, 1, 33, 41}, .alignment = 8, .wide = false},
        {.rows = {100}, .ends = many, .alignment = 4},
        {.rows = {49}, .ends = many},
        {.rows = {4, 6}, .counts = {3, -2, 999, 0}, .wide = false},
        {.rows = {3, 9}, .counts = {9, 1, std::int64_t{1} << 40}},
    };
}

/// The first columns of a matrix.
Tensor narrowed(const Matrix& matrix, std::int64_t columns) {
    Tensor tensor = matrix.tensor();
    tensor.shape[tensor.shape.rank() - 1] = columns;
    return tensor;
}

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto swiglu = GatedUnit::Kind::swiglu, situ = GatedUnit::Kind::situ, geglu = GatedUnit::Kind::geglu;
constexpr auto relu_squared = GatedUnit::Kind::relu_squared;

constexpr GatedUnit gated(GatedUnit::Kind kind, bool interleaved = false) {
    return {.kind = kind, .swiglu = {.interleaved = interleaved}};
}
std::int64_t width(const GatedUnit& unit, std::int64_t inner) { return unit.kind == relu_squared ? inner : 2 * inner; }
std::string name_of(const GatedUnit& unit) {
    return std::string(name(unit.kind)) + (unit.swiglu.interleaved ? " interleaved" : "");
}

enum class Does : std::uint8_t { copies, activates, sums, differentiates };

/// A step whose rows are those of its input.
struct RowsCase {
    Does does = Does::activates;
    Written out{by_blocks};
    std::int64_t columns = 144;  // of the output, or of the gradient's h
    Existing existing{.rows = {8}};
    GatedUnit unit{};
    bool has_factors = false;  // or weights, and an addend
    bool special = false;      // numbers
    bool clears = false;
    std::int64_t gap = 0;  // columns after those of a row, in each matrix
};

void expect_cpu_bits(const RowsCase& c) {
    SCOPED_TRACE(std::to_string(int(c.does)) + " " + name_of(c.unit) + " " + name(c.out.recipe) + " of " +
                 std::to_string(c.columns) + ", rows " + to_string(c.existing.rows) + ", gap " + std::to_string(c.gap));
    const ExistingCall call(c.existing);
    const bool has_unit = c.does == Does::activates || c.does == Does::differentiates;
    const std::int64_t columns = has_unit ? width(c.unit, c.columns) : c.columns;
    Matrix x(Format::bf16, call.shape(columns + c.gap)), of_h(Format::bf16, call.shape(c.columns + c.gap));
    fill(x, 29, c.special);
    fill(of_h, 62, true);
    Matrix factors(Format::f32, call.shape(1));
    factors.fill_randomly(3);
    const Tensor input = narrowed(x, columns);
    const Tensor of_rows = row_major(factors.tensor().data, Format::f32, c.existing.rows);
    const Tensor given_factors = c.has_factors ? of_rows : Tensor{};
    const auto expect = [&](auto step, std::int64_t wide) {
        step.existing = call.rows;
        if constexpr (requires { step.clears; }) {
            step.factors = given_factors;
            step.round_up = c.out.round_up;
            step.clears = c.clears;
        }
        const std::byte otherwise = c.clears ? std::byte{0} : untouched;
        expect_cpu_rows(step, c.out.recipe, call.shape(wide), call.exists(), c.gap, otherwise);
    };
    switch (c.does) {
        case Does::copies: return expect(moe::PermuteStep{.x = input}, c.columns);
        case Does::activates: return expect(moe::ActivateStep{.gate_up = input, .unit = c.unit}, c.columns);
        case Does::sums: {
            const Tensor addend = c.has_factors ? input : Tensor{};
            return expect(moe::CombineStep{.y = input, .weights = given_factors, .addend = addend}, c.columns);
        }
        case Does::differentiates: {
            const Tensor gradient = narrowed(of_h, c.columns);
            return expect(moe::UnitGradientStep{.gate_up = input, .unit = c.unit, .gradient = gradient}, columns);
        }
    }
}

constexpr Written f32{unscaled(Format::f32)}, bf16{unscaled(Format::bf16)};

TEST(Moe, OnlyRowsThatExistAreWritten) {
    Sample sample(2);
    for (const Existing& existing : all_existing()) {
        if (!sample.takes_next()) continue;
        for (const Written& out : few_written) {
            for (const bool factors : {false, true}) {
                expect_cpu_bits({.does = Does::copies, .out = out, .existing = existing, .has_factors = factors});
            }
            expect_cpu_bits({.out = out, .columns = 48, .existing = existing, .has_factors = true});
        }
        for (const std::int64_t columns : {32, 39}) {  // others are cleared if the step says so
            for (const Does does : {Does::copies, Does::activates}) {
                expect_cpu_bits({.does = does, .out = f32, .columns = columns, .existing = existing, .clears = true});
            }
        }
        for (const std::int64_t columns : {48, 39}) {
            expect_cpu_bits(
                {.does = Does::sums, .out = bf16, .columns = columns, .existing = existing, .has_factors = true});
            if (existing.rows.rank() == 2) continue;  // training has no masked rows
            expect_cpu_bits({Does::differentiates, f32, columns, existing, gated(geglu), false, true});
        }
    }
}

/// A block has two rows of 768, of which the second begins in the middle of a warp, or three of 1152 and idle threads.
TEST(Moe, RowsOfOneBlockAreSeparate) {
    Sample sample(11);
    for (const std::int64_t columns : {768, 1152}) {
        for (const Existing& existing : all_existing()) {
            if (!sample.takes_next()) continue;
            for (const Written& out : few_written)
                expect_cpu_bits({.out = out, .columns = columns, .existing = existing});
            expect_cpu_bits({.out = f32, .columns = columns, .existing = existing, .clears = true});
        }
    }
}

TEST(Moe, GapsBetweenRowsAreNeitherReadNorWritten) {
    for (const std::int64_t gap : {16, 3}) {
        for (const Does does : {Does::copies, Does::activates, Does::sums}) {
            expect_cpu_bits({.does = does, .out = bf16, .columns = 48, .existing = {.rows = {2, 5}}, .gap = gap});
        }
    }
}

// ---- Units

TEST(Moe, UnitsHaveTheCpusBits) {
    for (const Written& out : all_written) expect_cpu_bits(RowsCase{.out = out, .special = true});
    for (const Written& out : few_written) {
        for (const GatedUnit::Kind kind : all_gated_units) {
            expect_cpu_bits(RowsCase{.out = out, .unit = gated(kind)});
            if (kind != situ) expect_cpu_bits(RowsCase{.out = out, .unit = gated(kind, true), .special = true});
        }
        expect_cpu_bits(RowsCase{.out = out, .columns = 39, .has_factors = true});
        expect_cpu_bits(RowsCase{.out = out, .columns = 39, .unit = gated(swiglu, true)});
        expect_cpu_bits(RowsCase{.out = out, .columns = 39, .unit = gated(relu_squared)});
        expect_cpu_bits(RowsCase{.out = out, .unit = {.swiglu = gpt_oss}, .has_factors = true, .special = true});
        expect_cpu_bits(RowsCase{.out = out, .unit = {.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 0.3F}}});
        expect_cpu_bits(RowsCase{.out = out, .unit = {.kind = situ, .up_bound = infinity}});
        expect_cpu_bits(RowsCase{.out = out, .columns = 4352, .existing = {.rows = {2}}});
    }
}

TEST(Moe, UnitsOfTrainingHaveTheCpusBits) {
    const GatedUnit unbounded{.kind = situ, .up_bound = infinity};
    const Existing routed{.rows = {20}, .ends = {3, 3, 9, 14}, .sorted = true, .wide = false};
    for (const GatedUnit& unit : {gated(situ), unbounded, gated(situ, true), gated(geglu), gated(relu_squared)}) {
        expect_cpu_bits({.out = f32, .existing = routed, .unit = unit, .special = true});
    }
    expect_cpu_bits({.out = f32, .columns = 39, .existing = routed, .unit = unbounded, .special = true});
}

TEST(Moe, GradientsOfUnitsHaveTheCpusBits) {
    const SwiGlu limited{.alpha = 1.702F, .beta = 1, .limit = 0.3F},
        swapped{.alpha = 1.702F, .beta = 1, .limit = 0.3F, .interleaved = true};
    RowsCase c{.does = Does::differentiates, .out = f32, .existing = {.rows = {6}}, .special = true};
    std::vector<GatedUnit> units;
    for (const GatedUnit::Kind kind : all_gated_units) units.insert(units.end(), {gated(kind), gated(kind, true)});
    for (const SwiGlu& each : {limited, swapped}) {
        units.push_back({.kind = swiglu, .swiglu = each});
        units.push_back({.kind = situ, .swiglu = each, .gate_bound = 1.5F, .up_bound = infinity});
    }
    for (const GatedUnit& unit : units) {
        c.unit = unit;
        for (c.columns = 144; const std::int64_t gap : {8, 3}) {
            c.gap = gap;
            expect_cpu_bits(c);
        }
        c.gap = 0;
        for (const std::int64_t inner : {8, 39, 1, 144}) {
            c.columns = inner;
            expect_cpu_bits(c);
        }
    }
    // More than one block's lanes hold.
    expect_cpu_bits({Does::differentiates, f32, 4360, {.rows = {2}}, gated(situ), false, true});
}

// ---- Sums

/// Rows of choices, in some order.
std::vector<std::int32_t> shuffled_places(std::int64_t rows) {
    std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(4));
    return places;
}

struct CombineCase {
    Format rows = Format::bf16;
    Format out = Format::bf16;
    Format addend = Format::i32;   // i32: none
    Format weights = Format::i32;  // i32: none
    std::int64_t columns = 0;
    std::int64_t tokens = 5;
    std::int64_t choices = 3;
    std::int64_t weighted = 3;  // choices that have weights
    bool in_place = false;      // the addend is the memory of the result
};

void expect_cpu_bits(const CombineCase& c) {
    SCOPED_TRACE(std::string(name(c.out)) + " of " + std::string(name(c.rows)) + ", columns " +
                 std::to_string(c.columns) + ", choices " + std::to_string(c.choices));
    Matrix y(c.rows, {c.tokens * c.choices, c.columns});
    fill(y, 37, true);
    std::vector<std::int32_t> places = shuffled_places(c.tokens * c.choices);
    for (std::int32_t& place : places) place = place % 4 == 1 ? -1 : place;
    const bool adds = c.addend != Format::i32;
    Matrix addend(adds ? c.addend : Format::f32, {c.tokens, c.columns});
    fill(addend, 41, true);
    Matrix weights(c.weights == Format::i32 ? Format::f32 : c.weights, {c.tokens, c.weighted});
    weights.fill_randomly(43);
    moe::CombineStep step{.y = y.tensor(), .places = row_major(places.data(), Format::i32, {c.tokens, c.choices})};
    if (c.weights != Format::i32) step.weights = weights.tensor();
    if (adds) step.addend = addend.tensor();
    const std::vector<char> all(static_cast<std::size_t>(c.tokens), 1);
    if (!c.in_place) return expect_cpu_rows(step, unscaled(c.out), {c.tokens, c.columns}, all);
    const Matrix expected(c.out, {c.tokens, c.columns});
    step.out = expected.tensor();
    run_on_cpu(step, {});
    step.out = addend.tensor();
    run_on_emulator(launch::lower(step), 17);
    EXPECT_EQ(bytes(addend.tensor()), bytes(expected.tensor()));
}

TEST(Moe, SumsHaveTheCpusBits) {
    for (const Format out : {Format::bf16, Format::f32}) {
        for (const std::int64_t columns : {8, 39, 272, 2056}) {
            expect_cpu_bits(CombineCase{.out = out, .weights = Format::f32, .columns = columns});
            expect_cpu_bits(CombineCase{.out = out, .addend = out, .columns = columns, .in_place = true});
        }
    }
    for (const Format addend : {Format::f32, Format::f16, Format::bf16}) {
        for (const Format weights : {Format::f16, Format::bf16}) {
            expect_cpu_bits(CombineCase{
                .addend = addend, .weights = weights, .columns = 64, .tokens = 3, .choices = 17, .weighted = 16});
        }
    }
    expect_cpu_bits(CombineCase{.out = Format::f16, .columns = 40, .choices = 40});
    expect_cpu_bits(CombineCase{.weights = Format::f32, .columns = 8, .tokens = 1200, .choices = 2});  // blocks loop
}

TEST(Moe, SumsOfF32RowsHaveTheCpusBits) {
    for (const std::int64_t columns : {8, 39, 272, 2056}) {
        for (const std::int64_t choices : {1, 8, 33}) {  // also more than are loaded at a time
            expect_cpu_bits(CombineCase{
                .rows = Format::f32, .addend = Format::bf16, .columns = columns, .tokens = 3, .choices = choices});
        }
        expect_cpu_bits(
            CombineCase{.rows = Format::f32, .out = Format::f32, .weights = Format::f32, .columns = columns});
    }
}

// ---- Gradients of weights

void expect_cpu_weight_gradient(const GatedUnit& unit, std::int64_t inner, std::int64_t gap, std::int64_t weighted) {
    SCOPED_TRACE(name_of(unit) + ", inner " + std::to_string(inner));
    constexpr std::int64_t tokens = 5, choices = 3, rows = tokens * choices;
    const std::int64_t columns = width(unit, inner);
    Matrix gate_up(Format::bf16, {rows, columns + gap}), gradient(Format::bf16, {rows, inner});
    fill(gate_up, 51, true);
    fill(gradient, 52, true);
    std::vector<std::int32_t> places = shuffled_places(rows);
    places[3] = -1;
    places[7] = rows;  // as if it were not a row
    const moe::WeightGradientStep step{.gate_up = narrowed(gate_up, columns),
                                       .unit = unit,
                                       .gradient = gradient.tensor(),
                                       .places = row_major(places.data(), Format::i32, {tokens, choices})};
    expect_cpu_rows(step, unscaled(Format::f32), {tokens, weighted}, std::vector<char>(tokens, 1));
}

TEST(Moe, GradientsOfWeightsHaveTheCpusBits) {
    for (const GatedUnit::Kind kind : all_gated_units) {
        for (const bool interleaved : {false, true}) {
            GatedUnit unit{.kind = kind};
            unit.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = interleaved};
            for (const std::int64_t inner : {8, 39, 264}) expect_cpu_weight_gradient(unit, inner, 0, 3);
            expect_cpu_weight_gradient(unit, 520, 3, 2);
        }
    }
}

// ---- Calls that are left to others

TEST(Moe, OtherRecipesAreLeftToQuantize) {
    const Matrix x(Format::bf16, {4, 64}), gate_up(Format::f32, {4, 128});
    const Matrix codes(Format::e4m3, {4, 64}), fp4(Format::e2m1, {4, 64});
    const Operand by_tensor{.values = codes.tensor(), .granularity = Granularity::tensor};
    const Operand by_squares{.values = codes.tensor(), .granularity = Granularity::block_128x128};
    const Operand mxfp4{.values = fp4.tensor(), .granularity = Granularity::block_1x32};
    for (const Operand& out : {by_tensor, by_squares, mxfp4}) {
        EXPECT_THROW(launch::require_served(moe::PermuteStep{.x = x.tensor(), .out = out}), Error);
        EXPECT_THROW(launch::require_served(moe::ActivateStep{.gate_up = x.tensor(), .out = out}), Error);
    }
    EXPECT_THROW(launch::require_served(moe::ActivateStep{.gate_up = gate_up.tensor(), .out = {.values = x.tensor()}}),
                 Error);
    const Matrix transposed(Format::bf16, {4, 64}, Order::transposed), halves(Format::f16, {4, 64});
    EXPECT_THROW(launch::require_served(moe::CombineStep{.y = transposed.tensor(), .out = x.tensor()}), Error);
    EXPECT_THROW(launch::require_served(moe::CombineStep{.y = halves.tensor(), .out = x.tensor()}), Error);
    RouteCall many({.tokens = 1, .experts = 2049});
    EXPECT_THROW(launch::require_served(many.step), Error);
}

}  // namespace
}  // namespace tilewright::tests
