// encode and decode as the public API has them; matrices with nothing or next to nothing in them, in every recipe.
#include "formats/element.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {
namespace {

template <class Call>
std::string message(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// Two f32 [2, 3] in row-major order, one for codes of e4m3.
struct Arrays {
    std::vector<float> numbers{1, -2, 3, 0.5F, 448, 1000};
    std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(6);
    Tensor source = row_major(numbers.data(), Format::f32, {2, 3});
    Tensor out = row_major(codes.data(), Format::e4m3, {2, 3});
};

TEST(Encode, AndBack) {
    Arrays arrays;
    encode(arrays.source, arrays.out, true);
    std::vector<float> back(6);
    decode(arrays.out, row_major(back.data(), Format::f32, {2, 3}));
    EXPECT_EQ(back, (std::vector<float>{1, -2, 3, 0.5F, 448, 448}));
}

TEST(Encode, RowsOfFp4BeginAtWholeBytes) {
    Arrays arrays;
    encode(arrays.source, row_major(arrays.codes.data(), Format::e2m1, {2, 3}));
    EXPECT_EQ(arrays.codes, (std::vector<std::uint8_t>{0xC2, 0x05, 0x71, 0x07, 0, 0}));
    std::vector<float> back(6);
    decode(row_major(arrays.codes.data(), Format::e2m1, {2, 3}), row_major(back.data(), Format::f32, {2, 3}));
    EXPECT_EQ(back, (std::vector<float>{1, -2, 3, 0.5F, 6, 6}));
}

TEST(Encode, NeverTouchesWhatItCannotReach) {
    struct Misuse {
        void (*spoil)(Arrays&);
        const char* encode_message;
        const char* decode_message;
    };
    const std::vector<Misuse> misuses{
        {[](Arrays& a) { a.source.data = nullptr; }, "source: got a null pointer; expected memory for [2, 3].",
         "out: got a null pointer; expected memory for [2, 3]."},
        {[](Arrays& a) { a.out.data = nullptr; }, "out: got a null pointer; expected memory for [2, 3].",
         "source: got a null pointer; expected memory for [2, 3]."},
        {[](Arrays& a) {
             a.source.device = {DeviceId::Kind::cuda, 0};
         },
         "source: got memory of cuda:0; expected host memory. Copy it to the host.",
         "out: got memory of cuda:0; expected host memory. Copy it to the host."},
        {[](Arrays& a) {
             a.out.device = {DeviceId::Kind::cuda, 0};
         },
         "out: got memory of cuda:0; expected host memory. Copy it to the host.",
         "source: got memory of cuda:0; expected host memory. Copy it to the host."},
        {[](Arrays& a) {
             a.source.strides = {1, 2};
         },
         "source: got strides [1, 2]; expected [3, 1], rows without gaps. Pass a contiguous copy.",
         "out: got strides [1, 2]; expected [3, 1], rows without gaps. Pass a contiguous copy."},
        {[](Arrays& a) { a.out.format = Format::i32; }, "out: got i32; expected a floating-point format.",
         "source: got i32; expected a floating-point format."},
        {[](Arrays& a) { a.source.format = Format::bf16; }, "source: got bf16; expected f32.",
         "out: got bf16; expected f32."},
        {[](Arrays& a) { a.source = {}; }, "source: got nothing; expected one to three dimensions of size 0 or more.",
         "out: got nothing; expected one to three dimensions of size 0 or more."},
        {[](Arrays& a) {
             a.source.shape = {2, -3};
         },
         "source: got [2, -3]; expected one to three dimensions of size 0 or more.",
         "out: got [2, -3]; expected one to three dimensions of size 0 or more."},
        {[](Arrays& a) {
             a.out = row_major(a.codes.data(), Format::e4m3, {3, 2});
         },
         "out: got [3, 2]; expected [2, 3], the shape of source.",
         "out: got [2, 3]; expected [3, 2], the shape of source."}};
    for (const Misuse& misuse : misuses) {
        Arrays arrays;
        misuse.spoil(arrays);
        const std::vector<std::uint8_t> before = arrays.codes;
        EXPECT_EQ(message([&] { encode(arrays.source, arrays.out); }), misuse.encode_message);
        EXPECT_EQ(message([&] { decode(arrays.out, arrays.source); }), misuse.decode_message);
        EXPECT_EQ(arrays.codes, before);
    }
}

/// As numpy and torch give them: any strides, and no address.
TEST(Encode, OfNothing) {
    for (const Format format : {Format::e4m3, Format::e2m1, Format::bf16, Format::f32}) {
        for (const Dims& shape : {Dims{0}, Dims{0, 3}, Dims{3, 0}, Dims{2, 0, 4}, Dims{0, 0}}) {
            Dims zeros;
            for (int i = 0; i < shape.rank(); ++i) zeros.push_back(0);
            const Tensor numbers{.format = Format::f32, .shape = shape, .strides = zeros};
            const Tensor codes{.format = format, .shape = shape, .strides = zeros};
            EXPECT_EQ(message([&] { encode(numbers, codes); }), "") << to_string(shape);
            EXPECT_EQ(message([&] { decode(codes, numbers); }), "") << to_string(shape);
        }
    }
}

/// Every recipe with as little as it can take: no rows, no k, two k, one row.
TEST(SmallShapes, AreQuantizedMultipliedAndDequantized) {
    int products = 0;
    for (const Recipe& recipe : all_recipes()) {
        for (const Dims& shape : {Dims{4, 2}, Dims{1, 2}, Dims{4, 0}, Dims{0, 4}, Dims{0, 0}, Dims{2, 4}}) {
            const auto elements = static_cast<std::size_t>(shape[0] * shape[1]);
            std::vector<float> ones(elements, 1.0F);
            const Tensor x = row_major(ones.data(), Format::f32, shape);
            const OwnedOperand a = quantize(x, {.recipe = recipe.a});
            const OwnedOperand b = quantize(x, {.recipe = recipe.b});
            std::vector<float> back(elements, -1.0F);
            dequantize(a, row_major(back.data(), Format::f32, shape));
            for (const float number : back) EXPECT_NEAR(number, 1, 1e-6) << name(recipe) << to_string(shape);
            std::vector<float> d(static_cast<std::size_t>(shape[0] * shape[0]), -1.0F);
            Problem problem{.a = a, .b = b, .d = row_major(d.data(), Format::f32, {shape[0], shape[0]})};
            ASSERT_EQ(message([&] { run(problem, {.backend = Backend::cpu}); }), "")
                << name(recipe) << to_string(shape);
            for (const float sum : d) EXPECT_NEAR(sum, shape[1], 1e-5) << name(recipe) << to_string(shape);
            ++products;
        }
    }
    EXPECT_GE(products, 6 * 30);
}

}  // namespace
}  // namespace tilewright
