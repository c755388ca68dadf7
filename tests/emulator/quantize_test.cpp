// The quantizers' kernels on the emulator against the CPU's quantizers, bit for bit: codes and scales. Neither writes
// the bytes between and after them.
#include "emulator/other_kernels.h"

#include "emulator/quantize_case.h"
#include "formats/quantize_cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace tilewright::tests {
namespace {

std::vector<std::uint8_t> bytes(const Tensor& tensor) {
    std::int64_t elements = 1;
    for (int i = 0; i < tensor.shape.rank(); ++i) elements += (tensor.shape[i] - 1) * tensor.strides[i];
    const auto* data = static_cast<const std::uint8_t*>(tensor.data);
    return {data, data + elements * bits(tensor.format) / 8};
}

void expect_same(const Output& given, const Output& expected) {
    EXPECT_EQ(bytes(given.scales.tensor()), bytes(expected.scales.tensor()));
    const std::vector<std::uint8_t> a = bytes(given.values.tensor());
    const std::vector<std::uint8_t> b = bytes(expected.values.tensor());
    ASSERT_EQ(a.size(), b.size());
    int wrong = 0;
    for (std::size_t i = 0; i < a.size() && wrong < 5; ++i) {
        if (a[i] == b[i]) continue;
        ADD_FAILURE() << "byte " << i << " is " << int(a[i]) << ", the CPU's " << int(b[i]);
        ++wrong;
    }
}

struct MatrixCase {
    Format source = Format::bf16;
    OperandRecipe recipe{};
    Dims shape{};
    Order from = Order::row_major;
    Order to = Order::row_major;
    bool special = false;
};

void expect_cpu_bits(const MatrixCase& c) {
    SCOPED_TRACE(name(c.recipe) + " " + to_string(c.shape) + " from " + std::string(name(c.source)));
    Matrix source(c.source, c.shape, c.from);
    fill(source, 7, c.special);
    const Dims scales = scale_shape(c.recipe.granularity, c.shape);
    const Output given(c.recipe, c.shape, scales, c.to);
    const Output expected(c.recipe, c.shape, scales, c.to);
    quantize(source.tensor(), {.recipe = c.recipe}, expected.operand);
    run_on_emulator(launch::lower(source.tensor(), given.operand, false), 3);
    expect_same(given, expected);
}

constexpr OperandRecipe by_128{Format::e4m3, Granularity::block_1x128};
constexpr OperandRecipe by_squares{Format::e4m3, Granularity::block_128x128};

TEST(Quantize, MatricesHaveTheCpusBits) {
    expect_cpu_bits({.recipe = by_128, .shape = {200, 272}, .special = true});
    expect_cpu_bits({.recipe = by_squares, .shape = {130, 144}, .special = true});
    expect_cpu_bits({.source = Format::f32, .recipe = by_128, .shape = {129, 160}, .special = true});
    expect_cpu_bits({.source = Format::f32,
                     .recipe = {Format::e5m2, Granularity::block_1x128, Format::ue8m0},
                     .shape = {70, 160},
                     .special = true});
    expect_cpu_bits({.recipe = {Format::e4m3, Granularity::row}, .shape = {130, 272}, .special = true});
    expect_cpu_bits({.recipe = {Format::e4m3, Granularity::tensor}, .shape = {130, 272}, .special = true});
    expect_cpu_bits({.recipe = {Format::e4m3, Granularity::tensor}, .shape = {3, 20, 144}});
    expect_cpu_bits({.recipe = by_128, .shape = {2, 140, 144}});
}

TEST(Quantize, MatricesOfAnyOrderAndSizeHaveTheCpusBits) {
    expect_cpu_bits({.source = Format::f32, .recipe = by_128, .shape = {131, 77}});
    expect_cpu_bits({.source = Format::f32, .recipe = by_128, .shape = {40, 130}, .from = Order::spread});
    expect_cpu_bits({.source = Format::f16, .recipe = by_squares, .shape = {30, 150}, .to = Order::spread});
    expect_cpu_bits({.recipe = by_128, .shape = {144, 256}, .from = Order::transposed});
    expect_cpu_bits({.recipe = by_128, .shape = {144, 160}, .from = Order::transposed, .to = Order::transposed});
    expect_cpu_bits({.recipe = by_128, .shape = {144, 272}, .to = Order::transposed});
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

constexpr SwiGlu tight{.alpha = 1.702F, .beta = 1, .limit = 0.3F};  // many numbers are beyond it

TEST(Quantize, RowsAndColumnsOfTokensHaveTheCpusBits) {
    expect_cpu_bits(
        TokenCase{.tokens = 300, .features = 144, .ends = {0, 5, 140, 133, 300}, .rows = blocks, .columns = blocks});
    expect_cpu_bits(TokenCase{.tokens = 260, .features = 39, .ends = {129, 256}, .rows = blocks, .columns = blocks});
    expect_cpu_bits(TokenCase{
        .tokens = 256, .features = 144, .rows = Granularity::block_128x128, .columns = Granularity::block_128x128});
    expect_cpu_bits(TokenCase{.tokens = 140,
                              .features = 144,
                              .ends = {0, 130, 999},
                              .rows = Granularity::row,
                              .columns = Granularity::row,
                              .values = Format::e5m2});
}

TEST(Quantize, TokensThatAnIndexNamesHaveTheCpusBits) {
    TokenCase c{
        .tokens = 300, .features = 272, .x_rows = 37, .ends = {0, 5, 140, 290}, .rows = blocks, .columns = blocks};
    expect_cpu_bits(c);
    c.features = 39;  // element by element
    expect_cpu_bits(c);
    c.features = 144;
    c.folds_both = true;
    for (const Format source : {Format::f32, Format::bf16}) {
        c.source = source;
        for (const Granularity granularity : {blocks, Granularity::row}) {
            c.rows = c.columns = granularity;
            expect_cpu_bits(c);
        }
    }
    expect_cpu_bits(TokenCase{.tokens = 256,
                              .features = 144,
                              .x_rows = 300,
                              .rows = Granularity::block_128x128,
                              .columns = Granularity::block_128x128});
}

TEST(Quantize, MoreTokensThanIndicesAreLeftToTheCpu) {
    const TokenSource source{
        .x = row_major(static_cast<void*>(nullptr), Format::bf16, {2, 16}),
        .index = row_major(static_cast<void*>(nullptr), Format::i32, {(std::int64_t{1} << 30) + 1})};
    EXPECT_NE(launch::unserved(source, 0), "");
    EXPECT_EQ(launch::unserved(TokenSource{.x = source.x}, 0), "");
}

TEST(Quantize, MoreGroupsThanLanesAreFound) {
    std::vector<std::int32_t> ends(70);
    for (int group = 0; group < 70; ++group) ends[group] = group < 40 ? group / 3 : group * 2;
    expect_cpu_bits(TokenCase{.tokens = 138, .features = 16, .ends = ends, .rows = blocks, .columns = blocks});
}

TEST(Quantize, FoldedOperandsHaveTheCpusBits) {
    TokenCase c{.tokens = 150, .features = 288, .ends = {20, 150}, .rows = blocks, .folds = true};
    c.columns = Granularity::block_128x128;
    expect_cpu_bits(c);
    c.folds_both = true;
    for (const Granularity granularity : {blocks, Granularity::row, Granularity::tensor}) {
        c.rows = c.columns = granularity;
        for (const Format source : {Format::f32, Format::bf16}) {
            c.source = source;
            expect_cpu_bits(c);
        }
        c.activation = Activation::swiglu;
        if (granularity != blocks) expect_cpu_bits(c);
        c.activation = Activation::none;
    }
}

TEST(Quantize, SwiGluHasTheCpusBits) {
    expect_cpu_bits(TokenCase{.tokens = 144,
                              .features = 288,
                              .activation = Activation::swiglu,
                              .swiglu = gpt_oss,
                              .rows = blocks,
                              .columns = blocks});
    expect_cpu_bits(
        TokenCase{.tokens = 33, .features = 288, .activation = Activation::swiglu, .rows = blocks, .round_up = true});
    expect_cpu_bits(TokenCase{
        .tokens = 48, .features = 288, .activation = Activation::swiglu_gradient, .rows = blocks, .columns = blocks});
    for (const SwiGlu& rule : {SwiGlu{}, tight}) {
        for (const std::int64_t features : {544, 512}) {  // ups begin within a tile, or with one
            expect_cpu_bits(TokenCase{.tokens = 144,
                                      .features = features,
                                      .activation = Activation::swiglu_gradient,
                                      .swiglu = rule,
                                      .rows = blocks,
                                      .columns = blocks});
        }
    }
    expect_cpu_bits(TokenCase{.tokens = 20,
                              .features = 150,
                              .activation = Activation::swiglu_gradient,
                              .swiglu = gpt_oss,
                              .rows = blocks,
                              .columns = blocks});
}

TEST(Quantize, FactorsThatBothOperandsShareHaveTheCpusBits) {
    TokenCase c{.tokens = 144, .features = 512, .rows = blocks, .columns = blocks, .shares = true};
    c.activation = Activation::swiglu_gradient;
    for (const SwiGlu& rule : {SwiGlu{}, tight}) {
        c.swiglu = rule;
        for (const std::int64_t features : {544, 512}) {  // ups begin within a tile, or with one
            c.features = features;
            expect_cpu_bits(c);
        }
    }
    c.ends = {20, 140};
    expect_cpu_bits(c);
    c.ends = {};
    c.swiglu = gpt_oss;
    c.features = 150;  // element by element
    expect_cpu_bits(c);
    c.activation = Activation::swiglu;
    c.features = 288;
    expect_cpu_bits(c);
    c.swiglu = {};
    c.ends = {20, 140};
    c.rows = c.columns = Granularity::row;
    expect_cpu_bits(c);
}

struct Transposition {
    OperandRecipe from{};
    Granularity to = Granularity::block_1x128;
    Dims shape{};
    std::vector<std::int32_t> ends{};
};

void expect_cpu_bits(const Transposition& c) {
    Matrix x(Format::f32, c.shape);
    fill(x, 21, true);
    const OwnedOperand rows = quantize(x.tensor(), {.recipe = c.from, .round_up = true});
    const auto groups = static_cast<std::int64_t>(c.ends.size());
    const Dims shape{c.shape[1], groups > 0 ? column_limit(c.shape[0], groups) : c.shape[0]};
    const OperandRecipe recipe{c.from.values, c.to, c.from.scales};
    const Output given(recipe, shape, scale_shape(c.to, shape), Order::row_major);
    const Output expected(recipe, shape, scale_shape(c.to, shape), Order::row_major);
    const Tensor ends = groups > 0 ? row_major(c.ends.data(), Format::i32, {groups}) : Tensor{};
    transpose_codes(rows, ends, expected.operand);
    run_on_emulator(launch::lower_transposition(rows, ends, given.operand), 9);
    expect_same(given, expected);
}

TEST(Quantize, TransposedCodesHaveTheCpusBits) {
    const OperandRecipe bytes{Format::e4m3, Granularity::block_1x128, Format::ue8m0};
    expect_cpu_bits(Transposition{.from = bytes, .shape = {200, 144}, .ends = {0, 130, 200}});
    const OperandRecipe e5m2{Format::e5m2, Granularity::block_1x128};
    expect_cpu_bits(Transposition{.from = e5m2, .to = Granularity::block_128x128, .shape = {144, 272}});
    expect_cpu_bits(Transposition{.from = by_128, .shape = {60, 131}, .ends = {60}});
}

TEST(Quantize, ValuesWithoutScalesAreMovedAsOnTheCpu) {
    for (const std::vector<std::int32_t>& ends : {std::vector<std::int32_t>{}, {0, 130, 200}, {5, 5, 201}}) {
        const Dims shape{200, 144};
        Matrix codes(Format::e4m3, shape);
        codes.fill_randomly(4);
        const auto groups = static_cast<std::int64_t>(ends.size());
        const Dims turned = columns_shape(shape[0], shape[1], groups);
        Matrix given(Format::e4m3, turned);
        Matrix expected(Format::e4m3, turned);
        const Tensor of_groups = groups > 0 ? row_major(ends.data(), Format::i32, {groups}) : Tensor{};
        transpose_codes({.values = codes.tensor()}, of_groups, {.values = expected.tensor()});
        run_on_emulator(launch::lower_transposition({.values = codes.tensor()}, of_groups, {.values = given.tensor()}),
                        2);
        EXPECT_EQ(bytes(given.tensor()), bytes(expected.tensor()));
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
    std::vector<std::vector<std::int32_t>> column_ends(2,
                                                       std::vector<std::int32_t>(static_cast<std::size_t>(groups), -1));
    std::array<Matrix, 2> d{Matrix(Format::bf16, {c.tokens, c.columns}), Matrix(Format::bf16, {c.tokens, c.columns})};
    for (Matrix& each : d) each.fill_randomly(5);
    const auto out = [&](std::size_t i) { return row_major(column_ends[i].data(), Format::i32, {groups}); };
    formats::finish_groups_on_cpu(ends, c.tokens, out(0), d[0].tensor());
    run_on_emulator(launch::lower_groups(ends, c.tokens, out(1), d[1].tensor()), 6);
    EXPECT_EQ(column_ends[1], column_ends[0]);
    EXPECT_EQ(bytes(d[1].tensor()), bytes(d[0].tensor()));
}

TEST(Quantize, GroupsAreFinishedAsOnTheCpu) {
    expect_cpu_groups({.tokens = 77});
    expect_cpu_groups({.tokens = 300, .ends = {5, 5, 140, 290}});
    expect_cpu_groups({.tokens = 300, .columns = 7, .ends = {300, 5, -3}});  // rows of 14 bytes; none is left
    expect_cpu_groups({.tokens = 40, .columns = 520, .ends = {-5, 1000}});
    expect_cpu_groups({.tokens = 40, .columns = 3, .ends = {0, 0}});
    std::vector<std::int64_t> many;
    for (std::int64_t i = 0; i < 70; ++i) many.push_back(i * i);
    expect_cpu_groups({.tokens = 4700, .ends = many});
    EXPECT_TRUE(launch::lower_groups({}, 8, {}, {}).empty());
}

}  // namespace
}  // namespace tilewright::tests
