// The kernels around the products of a layer of experts on the emulator against the CPU, bit for bit. Rows that do not
// exist, and bytes between rows, stay as they are.
#include "emulator/other_kernels.h"

#include "emulator/quantize_case.h"
#include "launch/moe.h"
#include "moe/rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

namespace tilewright::tests {
namespace {

using moe::Rows;

constexpr std::byte untouched{0xCD};  // what Matrix fills its memory with

/// An operand in memory, with scales if its recipe has them.
struct Target {
    Target(const OperandRecipe& recipe, const Dims& shape) : values(recipe.values, shape) {
        operand = {.values = values.tensor(), .granularity = recipe.granularity};
        if (recipe.granularity == Granularity::none) return;
        scales.emplace(recipe.scales, scale_shape(recipe.granularity, shape));
        operand.scales = scales->tensor();
        if (recipe.granularity == Granularity::block_1x128 && shape.rank() == 2) {  // scales adjacent along rows
            scales.emplace(recipe.scales, scale_shape(recipe.granularity, shape), Order::transposed);
            operand.scales = scales->tensor();
        }
    }
    Matrix values;
    std::optional<Matrix> scales{};
    Operand operand;
};

std::vector<std::byte> elements(const Rows& rows, std::int64_t row, std::int64_t columns, std::int64_t bytes) {
    std::vector<std::byte> all(static_cast<std::size_t>(columns * bytes));
    for (std::int64_t i = 0; i < columns; ++i) {
        std::memcpy(all.data() + i * bytes, rows.at(row, i), static_cast<std::size_t>(bytes));
    }
    return all;
}

/// Rows of `given` are those of `expected` where they exist; elsewhere each byte is `otherwise`.
void expect_rows(const Rows& given, const Rows& expected, const std::vector<char>& exists, std::byte otherwise) {
    const std::int64_t bytes = std::max<std::int64_t>(given.element_bytes(), 1);
    const std::int64_t columns = given.element_bytes() == 0 ? given.columns() / 2 : given.columns();
    ASSERT_EQ(static_cast<std::size_t>(given.count()), exists.size());
    for (std::int64_t row = 0; row < given.count(); ++row) {
        const std::vector<std::byte> found = elements(given, row, columns, bytes);
        std::vector<std::byte> wanted(found.size(), otherwise);
        if (exists[static_cast<std::size_t>(row)] != 0) wanted = elements(expected, row, columns, bytes);
        if (found == wanted) continue;
        const auto first = std::mismatch(found.begin(), found.end(), wanted.begin()).first - found.begin();
        ADD_FAILURE() << "row " << row << (exists[static_cast<std::size_t>(row)] != 0 ? "" : " (does not exist)")
                      << ", byte " << first << " of elements of " << bytes << ": is " << int(found[first]) << ", not "
                      << int(wanted[first]);
        return;
    }
}

void expect_rows(const Target& given, const Target& expected, const std::vector<char>& exists,
                 std::byte otherwise = untouched) {
    expect_rows(Rows(given.operand.values), Rows(expected.operand.values), exists, otherwise);
    EXPECT_TRUE(given.values.gaps_are_untouched());
    if (!given.scales) return;
    expect_rows(Rows::of_scales(given.operand.scales, given.operand.values),
                Rows::of_scales(expected.operand.scales, expected.operand.values), exists, untouched);
}

// ---- Recipes and shapes

constexpr OperandRecipe unscaled(Format format) { return {.values = format, .granularity = Granularity::none}; }
constexpr OperandRecipe by_blocks{Format::e4m3, Granularity::block_1x128};
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
                                 Written{{Format::e4m3, Granularity::block_1x128, Format::ue8m0}},
                                 Written{{Format::e5m2, Granularity::block_1x128}},
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
          weights(Format::f32, {c.tokens * (c.choices + c.shared)}) {}
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
        wide.assign(narrow.begin(), narrow.end());
        if (c.wild && c.wide) {
            for (std::int64_t& id : wide) {
                if (id < 0) id = std::int64_t{1} << 40;
            }
        }
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

std::vector<std::uint8_t> bytes_of(const Matrix& matrix) {
    const Tensor& tensor = matrix.tensor();
    std::int64_t count = bits(tensor.format) / 8;
    for (const std::int64_t size : tensor.shape) count *= size;
    const auto* data = static_cast<const std::uint8_t*>(tensor.data);
    return {data, data + count};
}

void expect_same(const RouteOutputs& given, const RouteOutputs& expected) {
    EXPECT_EQ(bytes_of(given.rows), bytes_of(expected.rows));
    EXPECT_EQ(bytes_of(given.sources), bytes_of(expected.sources));
    EXPECT_EQ(bytes_of(given.ends), bytes_of(expected.ends));
    EXPECT_EQ(bytes_of(given.weights), bytes_of(expected.weights));
}

/// `launches` of the step whose output is given.
template <class Lower>
void expect_cpu_route(const RouteCase& c, std::uint64_t seed, Lower launches) {
    SCOPED_TRACE("tokens " + std::to_string(c.tokens) + " experts " + std::to_string(c.experts));
    RouteCall call(c);
    const RouteOutputs given(c), expected(c);
    call.step.out = expected.routed();
    run_on_cpu(call.step);
    call.step.out = given.routed();
    ASSERT_EQ(launch::unserved(call.step), "");
    run_on_emulator(launches(call.step), seed);
    expect_same(given, expected);
}

void expect_cpu_route(const RouteCase& c, std::uint64_t seed = 3) {
    expect_cpu_route(c, seed, [](const moe::RouteStep& step) { return launch::lower(step); });
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
}

TEST(Moe, RoutesOfManyChoicesHaveTheCpusRows) {
    expect_cpu_route({.tokens = 2731, .choices = 3, .experts = 257, .wild = true}, 0);  // one more than 8 full blocks
    expect_cpu_route({.tokens = 4500, .choices = 2, .experts = 8, .shared = 2, .wide = true, .mapped = true}, 0);
}

TEST(Moe, RoutesOfTheMostExpertsHaveTheCpusRows) { expect_cpu_route({.tokens = 64, .choices = 4, .experts = 2048}); }

TEST(Moe, RoutesOfAnyClusterHaveTheCpusRows) {
    using hopper::RouteKeeps;
    const RouteCase few{.tokens = 1, .choices = 7, .experts = 9, .wild = true};
    const RouteCase ragged{.tokens = 701, .choices = 3, .experts = 13, .shared = 1, .wild = true};
    const RouteCase hot{.tokens = 2100, .choices = 1, .experts = 1030, .only = 1029, .weights = Format::f16};
    std::uint64_t seed = 0;
    for (const RouteKeeps keeps : {RouteKeeps::nothing, RouteKeeps::places, RouteKeeps::order}) {
        for (const int blocks : {1, 2, 16}) {
            SCOPED_TRACE("blocks " + std::to_string(blocks) + " keep " + std::to_string(static_cast<int>(keeps)));
            const launch::RouteCluster cluster{.blocks = blocks, .keeps = keeps};
            for (const RouteCase& c : {few, ragged, hot}) {
                expect_cpu_route(c, seed++,
                                 [&](const moe::RouteStep& step) { return std::vector{launch::lower(step, cluster)}; });
            }
        }
    }
}

TEST(Moe, RoutesReadAdjacentIdsAndWeightsAsSuch) {
    const auto adjacent = [](const RouteCase& c) {
        return launch::lower(RouteCall(c).step).front().of<launch::Route>().arguments.adjacent;
    };
    EXPECT_TRUE(adjacent({.tokens = 40, .choices = 3}));
    EXPECT_FALSE(adjacent({.tokens = 40, .choices = 3, .shared = 1}));
    EXPECT_FALSE(adjacent({.tokens = 40, .choices = 3, .wide = true}));
    EXPECT_FALSE(adjacent({.tokens = 40, .choices = 3, .mapped = true}));
    EXPECT_FALSE(adjacent({.tokens = 40, .choices = 3, .weights = Format::f16}));
    EXPECT_FALSE(adjacent({.tokens = 40, .choices = 3, .gap = 1}));
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
            const std::int64_t bytes = room * all[1] * 4;
            const std::array shifts{-bytes, std::int64_t{0}, bytes};
            const Matrix given(Format::i32, all), expected(Format::i32, all);
            call.step.owners = {.rank = own, .size = ranks, .shifts = shifts.data(), .room = room};
            const auto rows_in = [&](const Matrix& matrix) {
                return row_major(static_cast<void*>(static_cast<std::byte*>(matrix.tensor().data) + own * bytes),
                                 Format::i32, {room, all[1]});
            };
            call.step.owner_rows = rows_in(expected);
            run_on_cpu(call.step);
            call.step.owner_rows = rows_in(given);
            run_on_emulator(launch::lower(call.step), static_cast<std::uint64_t>(room));
            EXPECT_EQ(bytes_of(given), bytes_of(expected)) << room << " tokens of a rank, shared " << shared;
        }
    }
}

TEST(Moe, RoutesKeepAsMuchAsSharedMemoryHolds) {
    const auto kept = [](const RouteCase& c, bool has_sources) {
        RouteCall call(c);
        std::int32_t none = 0;
        if (has_sources) call.step.out.sources = row_major(&none, Format::i32, {1});
        return launch::route_cluster(call.step);
    };
    const RouteCase usual{.tokens = 8192, .choices = 8, .experts = 256};
    EXPECT_EQ(kept(usual, true).keeps, hopper::RouteKeeps::order);
    EXPECT_EQ(kept(usual, false).keeps, hopper::RouteKeeps::places);
    EXPECT_EQ(kept({.tokens = 128, .choices = 8, .experts = 256}, true).keeps, hopper::RouteKeeps::order);
    EXPECT_EQ(kept({.tokens = 1 << 18, .choices = 1, .experts = 2048}, true).keeps, hopper::RouteKeeps::places);
    EXPECT_EQ(kept({.tokens = 1 << 20, .choices = 1, .experts = 2048}, true).keeps, hopper::RouteKeeps::nothing);
    RouteCall call({.tokens = 8192, .choices = 8, .experts = 2048});
    EXPECT_THROW(launch::lower(call.step, {.blocks = 8}), Error);
}

TEST(Moe, RoutesNeedNoOutput) {
    RouteCall call({.tokens = 40});
    run_on_emulator(launch::lower(call.step));
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
void expect_cpu_copies(RouteCall& call, const RouteCase& route, moe::PermuteStep step, const Target& given,
                       const Target& expected, bool fused, std::uint64_t seed) {
    const RouteOutputs routed(route), wanted(route);
    call.step.out = wanted.routed();
    run_on_cpu(call.step);
    step.places = wanted.rows.tensor();
    step.out = expected.operand;
    run_on_cpu(step, {});
    step.out = given.operand;
    ASSERT_EQ(launch::unserved(step), "");
    if (fused) {
        call.step.out = routed.routed();
        step.places = routed.rows.tensor();
        ASSERT_EQ(launch::lower(call.step, step).size(), 1U);
        run_on_emulator(launch::lower(call.step, step), seed);
        expect_same(routed, wanted);
    } else {
        run_on_emulator(launch::lower(step), seed);
    }
    expect_rows(given, expected, placed(wanted.rows, route.tokens * (route.choices + route.shared)));
}

void expect_cpu_bits(const PermuteCase& c) {
    SCOPED_TRACE(name(c.out.recipe) + " of " + std::to_string(c.features) + " " + std::string(name(c.source)) +
                 (c.has_factors ? " with factors" : "") + (c.fused ? " fused" : ""));
    const std::int64_t rows = c.route.tokens * (c.route.choices + c.route.shared);
    Matrix x(c.source, {c.route.tokens, c.features});
    fill(x, 19, c.route.tokens > 0);
    RouteCall call(c.route);
    const Target given(c.out.recipe, {rows, c.features}), expected(c.out.recipe, {rows, c.features});
    moe::PermuteStep step{.x = x.tensor(), .round_up = c.out.round_up};
    if (c.has_factors) step.factors = call.weights.tensor();
    expect_cpu_copies(call, c.route, step, given, expected, c.fused, c.seed);
}

TEST(Moe, CopiesOfTokensHaveTheCpusBits) {
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
    }
}

TEST(Moe, LongRowsHaveTheCpusBits) {
    RouteCase few{.tokens = 2, .choices = 2, .experts = 3};
    for (const Written& out : few_written) {
        expect_cpu_bits(PermuteCase{.out = out, .features = 4352, .route = few});
        expect_cpu_bits(PermuteCase{.out = out, .features = 8720, .route = few});  // more than a block's lanes hold
    }
    expect_cpu_bits(PermuteCase{.out = {by_rows}, .features = 8720, .route = few, .has_factors = true});
}

TEST(Moe, CopiesTimesFactorsHaveTheCpusBits) {
    for (const Written& out : few_written) {
        expect_cpu_bits(PermuteCase{.out = out, .features = 272, .has_factors = true});
        RouteCase half{.tokens = 7, .choices = 5, .experts = 5, .shared = 1, .weights = Format::bf16};
        expect_cpu_bits(
            PermuteCase{.source = Format::f16, .out = out, .features = 77, .route = half, .has_factors = true});
    }
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

struct CopyCase {
    OperandRecipe recipe{};
    std::int64_t features = 0;
    bool fused = false;
};

void expect_cpu_bytes(const CopyCase& c) {
    SCOPED_TRACE(name(c.recipe) + " of " + std::to_string(c.features));
    const RouteCase route{.tokens = 9, .choices = 3, .experts = 5, .shared = 1, .wild = true};
    const std::int64_t rows = route.tokens * (route.choices + route.shared);
    Matrix x(Format::f32, {route.tokens, c.features});
    fill(x, 23, false);
    const OwnedOperand codes = quantize(x.tensor(), {.recipe = c.recipe});
    RouteCall call(route);
    const Target given(c.recipe, {rows, c.features}), expected(c.recipe, {rows, c.features});
    expect_cpu_copies(call, route, {.quantized = codes}, given, expected, c.fused, 5);
}

TEST(Moe, CodesAreCopiedAsOnTheCpu) {
    const OperandRecipe recipes[] = {by_blocks,
                                     by_rows,
                                     by_mx,
                                     {Format::e4m3, Granularity::block_1x128, Format::ue8m0},
                                     {Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                     {Format::e2m1, Granularity::block_1x16, Format::ue4m3}};
    for (const OperandRecipe& recipe : recipes) {
        for (const std::int64_t features : {16, 270, 288, 4352}) {
            expect_cpu_bytes({recipe, features, features == 288});
        }
    }
    expect_cpu_bytes({by_blocks, 39, true});
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

Tensor without_columns(const Tensor& tensor) {
    Tensor numbers = tensor;
    numbers.shape = numbers.strides = {};
    for (int i = 0; i + 1 < tensor.shape.rank(); ++i) {
        numbers.shape.push_back(tensor.shape[i]);
        numbers.strides.push_back(tensor.strides[i]);
    }
    return numbers;
}

TEST(Moe, OnlyRowsThatExistAreQuantized) {
    for (const Existing& existing : all_existing()) {
        SCOPED_TRACE(to_string(existing.rows));
        const ExistingCall call(existing);
        for (const Written& out : few_written) {
            for (const bool has_factors : {false, true}) {
                Matrix x(Format::bf16, call.shape(144));
                x.fill_randomly(2);
                Matrix factors(Format::f32, call.shape(1));
                factors.fill_randomly(3);
                const Target given(out.recipe, call.shape(144)), expected(out.recipe, call.shape(144));
                moe::PermuteStep step{.x = x.tensor(), .existing = call.rows, .out = expected.operand};
                if (has_factors) step.factors = without_columns(factors.tensor());
                run_on_cpu(step, {});
                step.out = given.operand;
                run_on_emulator(launch::lower(step), 11);
                expect_rows(given, expected, call.exists());
            }
        }
    }
}

TEST(Moe, OtherRowsAreClearedIfTheStepSaysSo) {
    for (const Existing& existing : all_existing()) {
        SCOPED_TRACE(to_string(existing.rows));
        const ExistingCall call(existing);
        for (const std::int64_t columns : {32, 39}) {
            Matrix x(Format::bf16, call.shape(columns)), gate_up(Format::bf16, call.shape(2 * columns));
            x.fill_randomly(2);
            gate_up.fill_randomly(4);
            const OperandRecipe recipe = unscaled(Format::f32);
            const Target copies(recipe, call.shape(columns)), expected_copies(recipe, call.shape(columns));
            moe::PermuteStep permute{
                .x = x.tensor(), .existing = call.rows, .out = expected_copies.operand, .clears = true};
            run_on_cpu(permute, {});
            permute.out = copies.operand;
            run_on_emulator(launch::lower(permute), 11);
            expect_rows(copies, expected_copies, call.exists(), std::byte{0});
            const Target h(recipe, call.shape(columns)), expected_h(recipe, call.shape(columns));
            moe::ActivateStep activate{
                .gate_up = gate_up.tensor(), .existing = call.rows, .out = expected_h.operand, .clears = true};
            run_on_cpu(activate, {});
            activate.out = h.operand;
            run_on_emulator(launch::lower(activate), 11);
            expect_rows(h, expected_h, call.exists(), std::byte{0});
        }
    }
}

// ---- Activation

struct ActivateCase {
    GatedUnit unit{};
    Written out{by_blocks};
    std::int64_t inner = 144;
    Existing existing{.rows = {8}};
    bool has_factors = false;
    bool special = false;
};

void expect_cpu_bits(const ActivateCase& c) {
    SCOPED_TRACE(std::string(name(c.unit.kind)) + " " + name(c.out.recipe) + " of " + std::to_string(c.inner) +
                 (c.unit.swiglu.interleaved ? " interleaved" : ""));
    const ExistingCall call(c.existing);
    const std::int64_t columns = c.unit.kind == GatedUnit::Kind::relu_squared ? c.inner : 2 * c.inner;
    Matrix gate_up(Format::bf16, call.shape(columns));
    fill(gate_up, 29, c.special);
    Matrix factors(Format::f32, call.shape(1));
    factors.fill_randomly(3);
    const Target given(c.out.recipe, call.shape(c.inner)), expected(c.out.recipe, call.shape(c.inner));
    moe::ActivateStep step{.gate_up = gate_up.tensor(),
                           .unit = c.unit,
                           .existing = call.rows,
                           .out = expected.operand,
                           .round_up = c.out.round_up};
    if (c.has_factors) step.factors = without_columns(factors.tensor());
    run_on_cpu(step, {});
    step.out = given.operand;
    ASSERT_EQ(launch::unserved(step), "");
    run_on_emulator(launch::lower(step), 13);
    expect_rows(given, expected, call.exists());
}

constexpr GatedUnit gated(GatedUnit::Kind kind, bool interleaved = false) {
    return {.kind = kind, .swiglu = {.interleaved = interleaved}};
}

TEST(Moe, UnitsHaveTheCpusBits) {
    for (const Written& out : all_written) expect_cpu_bits(ActivateCase{.out = out, .special = true});
    for (const Written& out : few_written) {
        for (const GatedUnit::Kind kind : all_gated_units) {
            for (const bool interleaved : {false, true}) {
                if (interleaved && kind == GatedUnit::Kind::situ) continue;
                expect_cpu_bits(ActivateCase{.unit = gated(kind, interleaved), .out = out, .special = interleaved});
            }
        }
        expect_cpu_bits(ActivateCase{.out = out, .inner = 39, .has_factors = true});
        expect_cpu_bits(ActivateCase{.unit = gated(GatedUnit::Kind::swiglu, true), .out = out, .inner = 39});
        expect_cpu_bits(ActivateCase{.unit = gated(GatedUnit::Kind::relu_squared), .out = out, .inner = 39});
        expect_cpu_bits(ActivateCase{.unit = {.swiglu = gpt_oss}, .out = out, .has_factors = true, .special = true});
        expect_cpu_bits(
            ActivateCase{.unit = {.swiglu = SwiGlu{.alpha = 1.702F, .beta = 1, .limit = 0.3F}}, .out = out});
        expect_cpu_bits(ActivateCase{
            .unit = {.kind = GatedUnit::Kind::situ, .up_bound = std::numeric_limits<float>::infinity()}, .out = out});
        expect_cpu_bits(ActivateCase{.out = out, .inner = 4352, .existing = {.rows = {2}}});
    }
}

TEST(Moe, OnlyRowsThatExistAreActivated) {
    for (const Existing& existing : all_existing()) {
        SCOPED_TRACE(to_string(existing.rows));
        for (const Written& out : few_written) {
            expect_cpu_bits(ActivateCase{.out = out, .inner = 48, .existing = existing, .has_factors = true});
        }
    }
}

// ---- Sums

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
    const std::int64_t rows = c.tokens * c.choices;
    Matrix y(c.rows, {rows, c.columns});
    fill(y, 37, true);
    std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(4));
    for (std::int32_t& place : places) place = place % 4 == 1 ? -1 : place;
    const bool adds = c.addend != Format::i32;
    Matrix addend(adds ? c.addend : Format::f32, {c.tokens, c.columns});
    fill(addend, 41, true);
    Matrix weights(c.weights == Format::i32 ? Format::f32 : c.weights, {c.tokens, c.weighted});
    weights.fill_randomly(43);
    const Matrix given(c.out, {c.tokens, c.columns}), expected(c.out, {c.tokens, c.columns});
    moe::CombineStep step{.y = y.tensor(),
                          .places = row_major(places.data(), Format::i32, {c.tokens, c.choices}),
                          .out = expected.tensor()};
    if (c.weights != Format::i32) step.weights = weights.tensor();
    if (adds) step.addend = addend.tensor();
    run_on_cpu(step, {});
    step.out = given.tensor();
    if (c.in_place) {
        std::memcpy(given.tensor().data, addend.tensor().data, bytes_of(addend).size());
        step.addend = given.tensor();
    }
    ASSERT_EQ(launch::unserved(step), "");
    run_on_emulator(launch::lower(step), 17);
    expect_rows(Rows(given.tensor()), Rows(expected.tensor()), std::vector<char>(static_cast<std::size_t>(c.tokens), 1),
                untouched);
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

TEST(Moe, UnitsOfTrainingHaveTheCpusBits) {
    const GatedUnit unbounded{.kind = GatedUnit::Kind::situ, .up_bound = std::numeric_limits<float>::infinity()};
    const Existing routed{.rows = {20}, .ends = {3, 3, 9, 14}, .sorted = true, .wide = false};
    const Written out{unscaled(Format::f32)};
    for (const GatedUnit& unit : {gated(GatedUnit::Kind::situ), unbounded, gated(GatedUnit::Kind::situ, true),
                                  gated(GatedUnit::Kind::geglu), gated(GatedUnit::Kind::relu_squared)}) {
        expect_cpu_bits(ActivateCase{.unit = unit, .out = out, .existing = routed, .special = true});
    }
    expect_cpu_bits(ActivateCase{.unit = unbounded, .out = out, .inner = 39, .existing = routed, .special = true});
}

// ---- Gradients of gate_up

struct UnitGradientCase {
    GatedUnit unit{};
    std::int64_t inner = 144;
    Existing existing{.rows = {6}};
    std::int64_t gap = 0;  // columns after those of a row, in each matrix
};

/// The first columns of a matrix.
Tensor narrowed(const Matrix& matrix, std::int64_t columns) {
    Tensor tensor = matrix.tensor();
    tensor.shape[tensor.shape.rank() - 1] = columns;
    return tensor;
}

/// Whether a row's bytes after its first columns are untouched.
bool has_untouched_gaps(const Matrix& matrix, std::int64_t columns) {
    const Rows rows(matrix.tensor());
    for (std::int64_t row = 0; row < rows.count(); ++row) {
        for (std::int64_t i = columns; i < rows.columns(); ++i) {
            if (*rows.at(row, i) != untouched) return false;
        }
    }
    return true;
}

void expect_cpu_bits(const UnitGradientCase& c) {
    SCOPED_TRACE(std::string(name(c.unit.kind)) + (c.unit.swiglu.interleaved ? " interleaved" : "") + ", inner " +
                 std::to_string(c.inner) + ", gap " + std::to_string(c.gap));
    const ExistingCall call(c.existing);
    const std::int64_t columns = c.inner * (c.unit.kind == GatedUnit::Kind::relu_squared ? 1 : 2);
    Matrix gate_up(Format::bf16, call.shape(columns + c.gap)), gradient(Format::bf16, call.shape(c.inner + c.gap));
    fill(gate_up, 61, true);
    fill(gradient, 62, true);
    const Matrix given(Format::f32, call.shape(columns + c.gap)), expected(Format::f32, call.shape(columns + c.gap));
    moe::UnitGradientStep step{.gate_up = narrowed(gate_up, columns),
                               .unit = c.unit,
                               .gradient = narrowed(gradient, c.inner),
                               .existing = call.rows,
                               .out = narrowed(expected, columns)};
    run_on_cpu(step, {});
    const Tensor wanted = step.out;
    step.out = narrowed(given, columns);
    ASSERT_EQ(launch::unserved(step), "");
    run_on_emulator(launch::lower(step), 23);
    expect_rows(Rows(step.out), Rows(wanted), call.exists(), untouched);
    EXPECT_TRUE(has_untouched_gaps(given, columns));
}

/// With and without limits and bounds.
std::vector<GatedUnit> differentiated(bool interleaved) {
    const float infinity = std::numeric_limits<float>::infinity();
    const SwiGlu limited{.alpha = 1.702F, .beta = 1, .limit = 0.3F, .interleaved = interleaved};
    return {gated(GatedUnit::Kind::swiglu, interleaved),
            {.kind = GatedUnit::Kind::swiglu, .swiglu = limited},
            gated(GatedUnit::Kind::situ, interleaved),
            {.kind = GatedUnit::Kind::situ, .swiglu = limited, .gate_bound = 1.5F, .up_bound = infinity},
            gated(GatedUnit::Kind::geglu, interleaved),
            gated(GatedUnit::Kind::relu_squared, interleaved)};
}

TEST(Moe, GradientsOfUnitsHaveTheCpusBits) {
    for (const bool interleaved : {false, true}) {
        for (const GatedUnit& unit : differentiated(interleaved)) {
            for (const std::int64_t inner : {8, 39, 1, 144}) expect_cpu_bits(UnitGradientCase{unit, inner});
            for (const std::int64_t gap : {8, 3}) expect_cpu_bits(UnitGradientCase{.unit = unit, .gap = gap});
        }
    }
    // More than one block's lanes hold.
    expect_cpu_bits(UnitGradientCase{.unit = gated(GatedUnit::Kind::situ), .inner = 4360, .existing = {.rows = {2}}});
}

TEST(Moe, OnlyRowsThatExistHaveGradients) {
    for (const Existing& existing : all_existing()) {
        if (existing.rows.rank() == 2) continue;  // training has no masked rows
        SCOPED_TRACE(to_string(existing.rows));
        for (const std::int64_t inner : {48, 39}) {
            expect_cpu_bits(
                UnitGradientCase{.unit = gated(GatedUnit::Kind::geglu), .inner = inner, .existing = existing});
        }
    }
}

// ---- Gradients of weights

struct WeightGradientCase {
    GatedUnit unit{};
    std::int64_t inner = 0;
    std::int64_t gap = 0;  // columns of gate_up after those of a row
    std::int64_t weighted = 3;
};

void expect_cpu_bits(const WeightGradientCase& c) {
    SCOPED_TRACE(std::string(name(c.unit.kind)) + ", inner " + std::to_string(c.inner));
    constexpr std::int64_t tokens = 5, choices = 3, rows = tokens * choices;
    const std::int64_t columns = c.inner * (c.unit.kind == GatedUnit::Kind::relu_squared ? 1 : 2);
    Matrix gate_up(Format::bf16, {rows, columns + c.gap}), gradient(Format::bf16, {rows, c.inner});
    fill(gate_up, 51, true);
    fill(gradient, 52, true);
    std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(4));
    places[3] = -1;
    places[7] = rows;  // as if it were not a row
    const Matrix given(Format::f32, {tokens, c.weighted}), expected(Format::f32, {tokens, c.weighted});
    moe::WeightGradientStep step{.gate_up = narrowed(gate_up, columns),
                                 .unit = c.unit,
                                 .gradient = gradient.tensor(),
                                 .places = row_major(places.data(), Format::i32, {tokens, choices}),
                                 .out = expected.tensor()};
    run_on_cpu(step, {});
    step.out = given.tensor();
    ASSERT_EQ(launch::unserved(step), "");
    run_on_emulator(launch::lower(step), 18);
    EXPECT_EQ(bytes_of(given), bytes_of(expected));
}

TEST(Moe, GradientsOfWeightsHaveTheCpusBits) {
    for (const GatedUnit::Kind kind : all_gated_units) {
        for (const bool interleaved : {false, true}) {
            GatedUnit unit{.kind = kind};
            unit.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = interleaved};
            for (const std::int64_t inner : {8, 39, 264}) expect_cpu_bits(WeightGradientCase{unit, inner});
            expect_cpu_bits(WeightGradientCase{.unit = unit, .inner = 520, .gap = 3, .weighted = 2});
        }
    }
}

TEST(Moe, OnlyRowsThatExistAreSummed) {
    for (const Existing& existing : all_existing()) {
        SCOPED_TRACE(to_string(existing.rows));
        const ExistingCall call(existing);
        for (const std::int64_t columns : {48, 39}) {
            Matrix y(Format::bf16, call.shape(columns)), weights(Format::f32, call.shape(1));
            y.fill_randomly(2);
            weights.fill_randomly(3);
            const Matrix given(Format::bf16, call.shape(columns)), expected(Format::bf16, call.shape(columns));
            moe::CombineStep step{.y = y.tensor(),
                                  .existing = call.rows,
                                  .weights = without_columns(weights.tensor()),
                                  .addend = y.tensor(),
                                  .out = expected.tensor()};
            run_on_cpu(step, {});
            step.out = given.tensor();
            run_on_emulator(launch::lower(step), 19);
            expect_rows(Rows(given.tensor()), Rows(expected.tensor()), call.exists(), untouched);
        }
    }
}

// ---- Gaps between rows

TEST(Moe, GapsBetweenRowsAreNeitherReadNorWritten) {
    const std::vector<char> all(10, 1);
    for (const std::int64_t gap : {16, 3}) {
        constexpr std::int64_t columns = 48;
        const Dims wide{2, 5, columns + gap};
        Matrix x(Format::bf16, wide), gate_up(Format::bf16, {2, 5, 2 * columns + gap});
        x.fill_randomly(1);
        gate_up.fill_randomly(2);
        const Matrix given(Format::bf16, wide), expected(Format::bf16, wide);
        const Tensor to = narrowed(given, columns), wanted = narrowed(expected, columns);
        const auto expect_same_rows = [&] {
            expect_rows(Rows(to), Rows(wanted), all, untouched);
            EXPECT_TRUE(has_untouched_gaps(given, columns));
        };
        moe::PermuteStep permute{.x = narrowed(x, columns), .out = {.values = wanted}};
        run_on_cpu(permute, {});
        permute.out.values = to;
        run_on_emulator(launch::lower(permute), 21);
        expect_same_rows();
        moe::ActivateStep activate{.gate_up = narrowed(gate_up, 2 * columns), .out = {.values = wanted}};
        run_on_cpu(activate, {});
        activate.out.values = to;
        run_on_emulator(launch::lower(activate), 21);
        expect_same_rows();
        moe::CombineStep combine{.y = narrowed(x, columns), .out = wanted};
        run_on_cpu(combine, {});
        combine.out = to;
        run_on_emulator(launch::lower(combine), 21);
        expect_same_rows();
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
        EXPECT_NE(launch::unserved(moe::PermuteStep{.x = x.tensor(), .out = out}), "");
        EXPECT_NE(launch::unserved(moe::ActivateStep{.gate_up = x.tensor(), .out = out}), "");
    }
    EXPECT_NE(launch::unserved(moe::ActivateStep{.gate_up = gate_up.tensor(), .out = {.values = x.tensor()}}), "");
    const Matrix transposed(Format::bf16, {4, 64}, Order::transposed), halves(Format::f16, {4, 64});
    EXPECT_NE(launch::unserved(moe::CombineStep{.y = transposed.tensor(), .out = x.tensor()}), "");
    EXPECT_NE(launch::unserved(moe::CombineStep{.y = halves.tensor(), .out = x.tensor()}), "");
    RouteCall many({.tokens = 1, .experts = 2049});
    EXPECT_NE(launch::unserved(many.step), "");
}

}  // namespace
}  // namespace tilewright::tests
