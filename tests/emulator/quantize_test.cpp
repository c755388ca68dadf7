// The quantizers' kernels on the emulator against the CPU's quantizers, bit for bit: codes and scales. Neither writes
// the bytes between and after them.
#include "emulator/other_kernels.h"

#include "emulator/quantize_case.h"
#include "formats/quantize_cpu.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace tilewright::tests {
namespace {

constexpr Granularity row = Granularity::row, tensor = Granularity::tensor;
constexpr OperandRecipe by_128{Format::e4m3, blocks}, by_squares{Format::e4m3, squares};
constexpr OperandRecipe nvfp4{Format::e2m1, Granularity::block_1x16, Format::ue4m3};
constexpr OperandRecipe short_blocks[] = {{Format::e4m3, Granularity::block_1x32, Format::ue8m0},
                                          {Format::e5m2, Granularity::block_1x32, Format::ue8m0},
                                          {Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                          nvfp4};
constexpr std::array sources{Format::bf16, Format::f32, Format::f16};

// ---- Matrices

struct MatrixCase {
    OperandRecipe recipe{};
    Dims shape{};
    Format source = Format::bf16;
    bool special = false;
    bool round_up = false;
    Order from = Order::row_major;
    Order to = Order::row_major;
    Order scales = Order::row_major;
    bool shared = false;  // one tensor scale for all groups
};

/// Rows of every size, from subnormal numbers to the largest; in a row 2^-7 to 1 of it, with zeros of both signs.
void fill_all_sizes(Matrix& matrix, unsigned seed, bool special) {
    std::mt19937 random(seed);
    const bool is_f16 = matrix.tensor().format == Format::f16;
    const int lowest = is_f16 ? -26 : -151, exponents = is_f16 ? 42 : 278;
    int size = 0;
    std::int64_t count = 0;
    matrix.fill([&] {
        if (count++ % matrix.columns() == 0) {
            size = lowest + static_cast<int>(random() % static_cast<unsigned>(exponents));
        }
        // Few bits, so that middles of codes are among the quotients; or many.
        const unsigned bits = random() % 3 == 0 ? 3 : 24;
        const double significand = std::ldexp(1.0 + random() % (1U << (bits - 1)), 1 - static_cast<int>(bits));
        const double number = std::ldexp(significand, size - static_cast<int>(random() % 8));
        return (random() % 9 == 0 ? 0.0 : number) * (random() % 2 == 0 ? 1 : -1);
    });
    for (std::int64_t j = 0; matrix.rows() > 3 && j < matrix.columns(); ++j) matrix.set(0, 3, j, 0);
    if (!special) return;
    for (const double number : {double{NAN}, -double{NAN}, double{INFINITY}, -double{INFINITY}}) {
        matrix.set(0, random() % matrix.rows(), random() % matrix.columns(), number);
    }
}

void expect_cpu_bits(const MatrixCase& c, const Matrix& source) {
    const Dims scales = scale_shape(c.recipe.granularity, c.shape);
    const std::int64_t tensors = c.shape.rank() == 3 && !c.shared ? c.shape[0] : 1;
    const Output given(c.recipe, c.shape, scales, c.to, c.scales, tensors);
    const Output expected(c.recipe, c.shape, scales, c.to, c.scales, tensors);
    quantize(source.tensor(), {.recipe = c.recipe, .round_up = c.round_up}, expected.operand);
    run_on_emulator(launch::lower(source.tensor(), given.operand, c.round_up), 7);
    expect_same(given, expected);
}

void expect_cpu_bits(const MatrixCase& c) {
    SCOPED_TRACE(name(c.recipe) + " " + to_string(c.shape) + " from " + std::string(name(c.source)) + " order " +
                 std::to_string(int(c.from)) + " to " + std::to_string(int(c.to)) + (c.round_up ? " up" : ""));
    Matrix source(c.source, c.shape, c.from);
    const bool is_short = std::ranges::find(short_blocks, c.recipe) != std::end(short_blocks);
    (is_short ? fill_all_sizes : fill)(source, 7, c.special);
    expect_cpu_bits(c, source);
}

TEST(Quantize, MatricesHaveTheCpusBits) {
    const OperandRecipe e5m2{Format::e5m2, blocks, Format::ue8m0};
    const OperandRecipe by_rows{Format::e4m3, row}, by_tensors{Format::e4m3, tensor};
    const auto f32 = Format::f32, f16 = Format::f16, bf16 = Format::bf16;
    const auto transposed = Order::transposed, spread = Order::spread;
    for (const MatrixCase& c : {
             MatrixCase{by_128, {200, 272}, bf16, true},
             {by_squares, {130, 144}, bf16, true},
             {by_128, {129, 160}, f32, true},
             {e5m2, {70, 160}, f32, true},
             {by_rows, {130, 272}, bf16, true},
             {by_tensors, {130, 272}, bf16, true},
             {by_tensors, {3, 20, 144}},
             {by_128, {2, 140, 144}},
             // Any order and size.
             {by_128, {131, 77}, f32},
             {.recipe = by_128, .shape = {40, 130}, .source = f32, .from = spread},
             {.recipe = by_squares, .shape = {30, 150}, .source = f16, .to = spread},
             {.recipe = by_128, .shape = {144, 256}, .from = transposed},
             {.recipe = by_128, .shape = {144, 160}, .from = transposed, .to = transposed},
             {.recipe = by_128, .shape = {144, 272}, .to = transposed},
         }) {
        expect_cpu_bits(c);
    }
}

TEST(ShortBlocks, MatricesHaveTheCpusBits) {
    Sample sample(17);
    for (const OperandRecipe& recipe : short_blocks) {
        for (const Format source : sources) {
            for (const bool round_up : {false, true}) {
                if (sanitizes && round_up) continue;
                expect_cpu_bits({recipe, {300, 560}, source, false, round_up});
                expect_cpu_bits({recipe, {35, 1040}, source, true, round_up});
            }
            expect_cpu_bits({recipe, {37, recipe.values == Format::e2m1 ? 78 : 77}, source, true});
            expect_cpu_bits({recipe, {1, 2}, source});
            for (const Order from : formats::all_orders) {
                for (const Order to : formats::all_orders) {
                    if (!sample.takes_next()) continue;
                    expect_cpu_bits({recipe, {34, 530}, source, true, false, from, to});
                }
            }
            // Pairs of rows share bytes, and k is odd.
            expect_cpu_bits({.recipe = recipe, .shape = {34, 67}, .source = source, .to = Order::transposed});
        }
    }
}

TEST(ShortBlocks, GroupsAndScalesInAnyStridesHaveTheCpusBits) {
    for (const OperandRecipe& recipe : short_blocks) {
        for (const bool up : {false, true}) {
            expect_cpu_bits({.recipe = recipe, .shape = {3, 34, 144}, .round_up = up, .scales = Order::spread});
            expect_cpu_bits({.recipe = recipe, .shape = {3, 20, 32}, .round_up = up, .shared = true});
        }
        expect_cpu_bits({.recipe = recipe, .shape = {2, 6, 70}, .from = Order::spread, .to = Order::transposed});
    }
}

TEST(ShortBlocks, NothingIsWrittenOfNothingButTheTensorScale) {
    for (const OperandRecipe& recipe : short_blocks) {
        const Matrix source(Format::bf16, {4, 32});
        Tensor nothing = source.tensor();
        nothing.shape = {0, 32};
        const Matrix tensor_scale(Format::f32, {1});
        const bool has_scale = recipe == nvfp4;
        const Operand out{nothing, recipe.granularity, nothing, has_scale ? tensor_scale.tensor() : Tensor{}};
        const auto launches = launch::lower(nothing, out, false);
        EXPECT_EQ(launches.size(), has_scale ? 2U : 0U);
        run_on_emulator(launches);
        EXPECT_TRUE(!has_scale || *static_cast<const float*>(tensor_scale.tensor().data) == 1);
    }
}

/// Tensors whose scale differs, with values that are the scales' multiples, where quotients are close to middles.
TEST(ShortBlocks, QuotientsNextToMiddlesOfCodesHaveTheCpusBits) {
    for (int amax = 128; amax < 256; amax += 5) {
        SCOPED_TRACE(amax);
        for (const Format format : {Format::bf16, Format::f32}) {
            Matrix source(format, {32, 512});
            int i = 0;
            source.fill([&] {
                const int at = i++;
                // The first of each block leads it, so that all scales of blocks are among them.
                const double lead = at % 16 == 0 ? amax / (1.0 + at / 16 % 61 / 7.0) : 128 + at * 7 % 128;
                return std::ldexp(lead, at % 16 == 0 ? 0 : -(at * 5 % 7)) * (at % 3 == 0 ? -1 : 1);
            });
            source.set(0, 0, 0, amax);
            expect_cpu_bits({nvfp4, {32, 512}}, source);
        }
    }
}

// ---- Tokens

TokenCase in_groups(TokenCase c, const std::vector<std::int32_t>& ends) {
    c.ends = ends;
    return c;
}
TokenCase scaled_by(TokenCase c, Granularity granularity) {
    c.rows = c.columns = granularity;
    return c;
}

void expect_cpu_bits(const TokenCase& c) {
    SCOPED_TRACE(to_string(Dims{c.tokens, c.features}) + " activation " + std::to_string(int(c.activation)));
    const TokenCall call(c);
    const auto rows = output(c, false), expected_rows = output(c, false);
    const auto columns = output(c, true), expected_columns = output(c, true);
    quantize_tokens(call.source, call.operand(c, expected_rows.get(), false),
                    call.operand(c, expected_columns.get(), true), c.round_up);
    run_on_emulator(launch::lower(call.source, call.operand(c, rows.get(), false), call.operand(c, columns.get(), true),
                                  c.round_up),
                    5);
    if (rows) expect_same(*rows, *expected_rows);
    if (columns) expect_same(*columns, *expected_columns);
}

TEST(Quantize, RowsAndColumnsOfTokensHaveTheCpusBits) {
    std::vector<std::int32_t> many(70);  // more groups than lanes
    for (int group = 0; group < 70; ++group) many[group] = group < 40 ? group / 3 : group * 2;
    const std::vector<std::int32_t> ends{0, 5, 140, 290};
    for (const TokenCase& c : {
             TokenCase{.tokens = 300, .features = 144, .ends = {0, 5, 140, 133, 300}},
             {.tokens = 260, .features = 39, .ends = {129, 256}},
             {.tokens = 256, .features = 144, .rows = squares, .columns = squares},
             scaled_by({.tokens = 140, .features = 144, .ends = {0, 130, 999}, .values = Format::e5m2}, row),
             {.tokens = 138, .features = 16, .ends = many},
             // An index names tokens.
             {.tokens = 300, .features = 272, .x_rows = 37, .ends = ends},
             {.tokens = 300, .features = 39, .x_rows = 37, .ends = ends},  // element by element
             {.tokens = 256, .features = 144, .x_rows = 300, .rows = squares, .columns = squares},
             {.tokens = 150, .features = 288, .ends = {20, 150}, .columns = squares, .folds = true},
         }) {
        expect_cpu_bits(c);
    }
    for (const Format source : {Format::f32, Format::bf16}) {
        for (const Granularity scaled : {blocks, row, tensor}) {
            TokenCase c{.source = source, .tokens = 150, .features = 288, .ends = {20, 150}, .folds_both = true};
            expect_cpu_bits(c = scaled_by(c, scaled));
            c.activation = Activation::swiglu;
            if (scaled != blocks && source == Format::bf16) expect_cpu_bits(c);
            const TokenCase named{.source = source, .tokens = 300, .features = 144, .x_rows = 37, .folds_both = true};
            if (scaled != tensor) expect_cpu_bits(scaled_by(in_groups(named, ends), scaled));
        }
    }
}

TEST(Quantize, SwiGluHasTheCpusBits) {
    constexpr auto swiglu = Activation::swiglu, gradient = Activation::swiglu_gradient;
    constexpr SwiGlu tight{.alpha = 1.702F, .beta = 1, .limit = 0.3F};  // many numbers are beyond it
    const std::vector<std::int32_t> ends{20, 140};
    for (const TokenCase& c : {
             TokenCase{.tokens = 144, .features = 288, .activation = swiglu, .swiglu = gpt_oss},
             {.tokens = 33, .features = 288, .activation = swiglu, .columns = none, .round_up = true},
             {.tokens = 48, .features = 288, .activation = gradient},
             {.tokens = 20, .features = 150, .activation = gradient, .swiglu = gpt_oss},
             // Both operands share factors.
             in_groups({.tokens = 144, .features = 512, .activation = gradient, .swiglu = tight, .shares = true}, ends),
             {.tokens = 144, .features = 150, .activation = gradient, .swiglu = gpt_oss, .shares = true},
             {.tokens = 144, .features = 288, .activation = swiglu, .swiglu = gpt_oss, .shares = true},
             scaled_by(in_groups({.tokens = 144, .features = 288, .activation = swiglu, .shares = true}, ends), row),
         }) {
        expect_cpu_bits(c);
    }
    for (const std::int64_t features : {544, 512}) {  // ups begin within a tile, or with one
        for (const SwiGlu& limits : {SwiGlu{}, tight}) {
            TokenCase c{.tokens = 144, .features = features, .activation = gradient, .swiglu = limits};
            expect_cpu_bits(c);
            c.shares = true;
            expect_cpu_bits(c);
        }
    }
}

TEST(Quantize, MoreTokensThanIndicesAreLeftToTheCpu) {
    const TokenSource source{
        .x = row_major(static_cast<void*>(nullptr), Format::bf16, {2, 16}),
        .index = row_major(static_cast<void*>(nullptr), Format::i32, {(std::int64_t{1} << 30) + 1})};
    EXPECT_NE(launch::unserved(source, 0), "");
    EXPECT_EQ(launch::unserved(TokenSource{.x = source.x}, 0), "");
}

// ---- Codes

/// With scales, or codes of e4m3 without any where `from` is none.
struct Transposition {
    OperandRecipe from{};
    Granularity to = none;
    Dims shape{};
    std::vector<std::int32_t> ends{};
};

TEST(Quantize, TransposedCodesHaveTheCpusBits) {
    const OperandRecipe powers{Format::e4m3, blocks, Format::ue8m0}, e5m2{Format::e5m2, blocks};
    const OperandRecipe codes{Format::e4m3, none};
    for (const Transposition& c : {Transposition{powers, blocks, {200, 144}, {0, 130, 200}},
                                   {e5m2, squares, {144, 272}},
                                   {by_128, blocks, {60, 131}, {60}},
                                   {codes, none, {200, 144}},
                                   {codes, none, {200, 144}, {0, 130, 200}},
                                   {codes, none, {200, 144}, {5, 5, 201}}}) {
        SCOPED_TRACE(name(c.from) + " " + to_string(c.shape));
        const auto groups = static_cast<std::int64_t>(c.ends.size());
        const Tensor ends = groups > 0 ? row_major(c.ends.data(), Format::i32, {groups}) : Tensor{};
        Matrix x(Format::f32, c.shape), unscaled(Format::e4m3, c.shape);
        fill(x, 21, true);
        unscaled.fill_randomly(4);
        const bool scaled = c.to != none;
        const OwnedOperand quantized = quantize(x.tensor(), {.recipe = scaled ? c.from : by_128, .round_up = true});
        const Operand rows = scaled ? quantized : Operand{.values = unscaled.tensor()};
        const Dims wide{c.shape[1], groups > 0 ? column_limit(c.shape[0], groups) : c.shape[0]};
        const Dims shape = scaled ? wide : columns_shape(c.shape[0], c.shape[1], groups);
        const Dims scales = scaled ? scale_shape(c.to, shape) : Dims{1};
        Output given({c.from.values, c.to, c.from.scales}, shape, scales);
        Output expected({c.from.values, c.to, c.from.scales}, shape, scales);
        if (!scaled) given.operand.scales = expected.operand.scales = {};
        transpose_codes(rows, ends, expected.operand);
        run_on_emulator(launch::lower_transposition(rows, ends, given.operand), 9);
        expect_same(given, expected);
    }
}

struct GroupCase {
    std::int64_t tokens = 0;
    std::int64_t columns = 8;  // of D
    std::vector<std::int64_t> ends{};
};

/// The ends of columns and D as the kernel leaves them, and as the CPU does.
void expect_cpu_groups(const GroupCase& c) {
    SCOPED_TRACE(std::to_string(c.tokens) + " tokens, " + std::to_string(c.ends.size()) + " groups");
    const auto groups = std::max<std::int64_t>(std::ssize(c.ends), 1);
    const Tensor ends = c.ends.empty() ? Tensor{} : row_major(c.ends.data(), Format::i64, {groups});
    const Matrix given_ends(Format::i32, {groups}), expected_ends(Format::i32, {groups});
    Matrix given(Format::bf16, {c.tokens, c.columns}), expected(Format::bf16, {c.tokens, c.columns});
    for (Matrix* each : {&given, &expected}) each->fill_randomly(5);
    formats::finish_groups_on_cpu(ends, c.tokens, expected_ends.tensor(), expected.tensor());
    run_on_emulator(launch::lower_groups(ends, c.tokens, given_ends.tensor(), given.tensor()), 6);
    EXPECT_EQ(bytes(given_ends.tensor()), bytes(expected_ends.tensor()));
    EXPECT_EQ(bytes(given.tensor()), bytes(expected.tensor()));
}

TEST(Quantize, GroupsAreFinishedAsOnTheCpu) {
    std::vector<std::int64_t> many;
    for (std::int64_t i = 0; i < 70; ++i) many.push_back(i * i);
    for (const GroupCase& c : {GroupCase{.tokens = 77},
                               {300, 8, {5, 5, 140, 290}},
                               {300, 7, {300, 5, -3}},  // rows of 14 bytes; none is left
                               {40, 520, {-5, 1000}},
                               {40, 3, {0, 0}},
                               {4700, 8, many}}) {
        expect_cpu_groups(c);
    }
    EXPECT_TRUE(launch::lower_groups({}, 8, {}, {}).empty());
}

// ---- Memory that kernels prefetch into L2 while they compute

/// The lines of a matrix in the order of blocks, features fastest. Excluded are the first strips of 128 rows, and the
/// first columns of the next strip.
void add_lines(const Tensor& matrix, std::int64_t strip_before, std::int64_t columns_before,
               std::set<const void*>& lines) {
    const std::int64_t numbers = hopper::prefetched_bytes * 8 / bits(matrix.format);
    for (std::int64_t token = strip_before * 128; token < matrix.shape[0]; ++token) {
        const bool first = token < (strip_before + 1) * 128;
        for (std::int64_t column = first ? columns_before : 0; column < matrix.shape[1]; column += numbers) {
            lines.insert(static_cast<const char*>(matrix.data) +
                         (token * matrix.strides[0] + column) * bits(matrix.format) / 8);
        }
    }
}

/// One group of tokens with 272 features, three tiles of them, to 1x128 rows and folded columns of squares.
struct FoldedCall {
    explicit FoldedCall(std::int32_t tokens)
        : c{.tokens = tokens, .features = 272, .ends = {tokens}, .columns = squares, .folds = true},
          call(c),
          rows(output(c, false)),
          columns(output(c, true)),
          launch(launch::lower(call.source, call.operand(c, rows.get(), false), call.operand(c, columns.get(), true),
                               false)
                     .back()) {}

    TokenCase c;
    TokenCall call;
    decltype(output(TokenCase{}, false)) rows, columns;
    launch::OtherLaunch launch;
};

/// A block asks for the tile that is 128 tokens and `later` features after its own. All tiles except those of the first
/// blocks are asked for, and nothing else.
TEST(QuantizePrefetch, LaterTilesAreAskedFor) {
    constexpr int later = 128;
    const FoldedCall folded(400);
    launch::OtherLaunch launch = folded.launch;
    auto& call = std::get<launch::CallOf<launch::Quantize>>(launch.call);
    call.arguments.later_tokens = 128;
    call.arguments.later_features = later;
    emulator::Counts counts;
    run_on_emulator(launch, 0, &counts);
    std::set<const void*> expected;
    add_lines(folded.call.x.tensor(), 1, later, expected);
    EXPECT_EQ(counts.prefetched, expected);
}

TEST(QuantizePrefetch, TheLaterTileIsOfTheBlockThatStartsWhenThisOneEnds) {
    const FoldedCall folded(130);
    const auto& [kernel, arguments] = folded.launch.of<launch::Quantize>();
    EXPECT_EQ(kernel.spec.grouped, true);
    EXPECT_EQ(arguments.later_tokens / 128 * 3 + arguments.later_features / 128, 2 * 132);
    EXPECT_LT(arguments.later_features, 3 * 128);
}

}  // namespace
}  // namespace tilewright::tests
