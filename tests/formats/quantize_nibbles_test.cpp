// Two codes of e2m1 share a byte. No code replaces its neighbour's half, and nothing is written between rows. This
// holds whichever dimension is packed, however small the other dimension is, and however many threads write.
#include "formats/matrices.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <string>

namespace tilewright::formats {
namespace {

const OperandRecipe recipes[] = {{Format::e2m1, Granularity::block_1x32, Format::ue8m0},
                                 {Format::e2m1, Granularity::block_1x16, Format::ue4m3}};

/// Where codes are; strides of dimensions of size 1 mean nothing.
struct Place {
    Dims shape;
    Dims strides;
};

/// With one k, odd k, one row; packed along rows and along k; without gaps, with gaps, with groups interleaved.
const Place small_places[] = {{{2, 1}, {1, 1}},       {{2, 1}, {1, 2}},        {{2, 1}, {1, 7}},
                              {{34, 1}, {1, 1}},      {{2, 3}, {1, 2}},        {{2, 3}, {1, 6}},
                              {{34, 31}, {1, 34}},    {{34, 33}, {1, 40}},     {{130, 257}, {1, 130}},
                              {{2, 2}, {1, 2}},       {{3, 4, 1}, {4, 1, 1}},  {{3, 4, 1}, {6, 1, 5}},
                              {{1, 4, 3}, {7, 1, 4}}, {{3, 4, 5}, {4, 1, 12}}, {{1, 2}, {1, 1}},
                              {{1, 2}, {5, 1}},       {{3, 2}, {2, 1}},        {{3, 2}, {6, 1}},
                              {{2, 2}, {2, 1}},       {{33, 258}, {260, 1}},   {{3, 4, 2}, {2, 6, 1}}};

/// As many elements as eight threads share.
const Place large_places[] = {{{262144, 1}, {1, 1}},     {{87382, 3}, {1, 87382}},   {{514, 513}, {1, 514}},
                              {{514, 513}, {1, 520}},    {{131073, 2}, {2, 1}},      {{131073, 2}, {4, 1}},
                              {{2, 131075}, {1, 4}},     {{3, 2, 65537}, {2, 1, 6}}, {{3, 87382, 1}, {87382, 1, 1}},
                              {{65538, 2, 2}, {4, 2, 1}}};

/// The expected codes: those of the matrix in row-major order, with a column of zeros after an odd k. The column
/// changes no scale.
OwnedOperand expected_codes(const Matrix& source, const OperandRecipe& recipe) {
    Dims shape = source.shape();
    shape[shape.rank() - 1] += source.columns() % 2;
    Matrix padded(Format::f32, shape);
    padded.fill([] { return 0.0; });
    for (std::int64_t g = 0; g < source.groups(); ++g) {
        for (std::int64_t i = 0; i < source.rows(); ++i) {
            for (std::int64_t j = 0; j < source.columns(); ++j) padded.set(g, i, j, source.get(g, i, j));
        }
    }
    return quantize(padded.tensor(), {.recipe = recipe}, {.threads = 1});
}

void expect_codes_alone(const Place& place, const OperandRecipe& recipe, int threads) {
    SCOPED_TRACE(name(recipe) + " " + to_string(place.shape) + " strides " + to_string(place.strides) + " threads " +
                 std::to_string(threads));
    Matrix source(Format::f32, place.shape);
    source.fill_randomly(1);
    const OwnedOperand expected = expected_codes(source, recipe);
    constexpr std::int64_t guard = 64;
    std::int64_t last = 0;
    for (int i = 0; i < place.shape.rank(); ++i) last += (place.shape[i] - 1) * place.strides[i];
    std::vector<std::byte> memory(static_cast<std::size_t>(last / 2 + 1 + 2 * guard), std::byte{0xCD});
    std::vector<std::byte> wanted = memory;
    Matrix scales(recipe.scales, scale_shape(recipe.granularity, place.shape));
    Matrix tensor_scale(Format::f32, scale_shape(Granularity::tensor, place.shape));
    Operand out{.values = {memory.data() + guard, Format::e2m1, place.shape, place.strides},
                .granularity = recipe.granularity,
                .scales = scales.tensor()};
    if (recipe.granularity == Granularity::block_1x16) out.tensor_scale = tensor_scale.tensor();
    quantize(source.tensor(), {.recipe = recipe}, out, {.threads = threads});

    Operand there = out;
    there.values.data = wanted.data() + guard;
    const int rank = place.shape.rank();
    for (std::int64_t g = 0; g < source.groups(); ++g) {
        for (std::int64_t i = 0; i < source.rows(); ++i) {
            for (std::int64_t j = 0; j < source.columns(); ++j) {
                const std::int64_t index =
                    (rank == 3 ? g * place.strides[0] : 0) + i * place.strides[rank - 2] + j * place.strides[rank - 1];
                store(there.values.data, Format::e2m1, index, value_of(expected.operand().values, g, i, j));
                ASSERT_EQ(scale_of(out, g, i, j), scale_of(expected, g, i, j));
            }
        }
    }
    ASSERT_EQ(memory, wanted);
    Matrix back(Format::f32, place.shape);
    dequantize(out, back.tensor(), {.threads = threads});
    for (std::int64_t g = 0; g < source.groups(); ++g) {
        for (std::int64_t i = 0; i < source.rows(); ++i) {
            for (std::int64_t j = 0; j < source.columns(); ++j) {
                const double number = value_of(expected.operand().values, g, i, j) * scale_of(expected, g, i, j);
                ASSERT_TRUE(same_number(back.get(g, i, j), static_cast<float>(number))) << g << ", " << i << ", " << j;
            }
        }
    }
}

TEST(QuantizeNibbles, OfFewRowsOrColumnsAreAllWrittenAndNothingElse) {
    for (const OperandRecipe& recipe : recipes) {
        for (const Place& place : small_places) {
            for (const int threads : {1, 8}) expect_codes_alone(place, recipe, threads);
        }
    }
}

TEST(QuantizeNibbles, AreTheSameByManyThreads) {
    tests::Sample sample(11);
    for (const OperandRecipe& recipe : recipes) {
        for (const Place& place : large_places) {
            for (const int threads : {1, 8}) {
                if (sample.takes_next()) expect_codes_alone(place, recipe, threads);
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::formats
