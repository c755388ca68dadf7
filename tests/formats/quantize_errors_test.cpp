// Malformed calls of quantize and dequantize, each against its exact message.
#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tilewright {
namespace {

OperandRecipe side(const std::string& text) { return *parse_operand_recipe(text); }

/// A correct call, for a case to spoil.
struct Call {
    explicit Call(const std::string& recipe = "1x128", const Dims& shape = {64, 256})
        : options{.recipe = side(recipe)}, owned(shape, options.recipe), out(owned), memory(1U << 20) {
        source = row_major(memory.data(), Format::f32, shape);
    }
    std::string quantize_message() const {
        return message([&] { quantize(source, options, out); });
    }
    std::string dequantize_message() const {
        return message([&] { dequantize(out, source); });
    }
    static std::string message(const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            EXPECT_FALSE(error.findings().empty());
            return error.what();
        }
        return "";
    }

    QuantizeOptions options;
    OwnedOperand owned;
    Operand out;
    std::vector<std::byte> memory;
    Tensor source;
};

struct Case {
    const char* recipe;
    void (*spoil)(Call&);
    const char* message;
};

void expect_messages(const std::vector<Case>& cases, std::string (Call::*run)() const) {
    for (const Case& c : cases) {
        Call call(c.recipe);
        ASSERT_EQ((call.*run)(), "") << c.recipe;
        c.spoil(call);
        EXPECT_EQ((call.*run)(), c.message);
    }
}

TEST(QuantizeErrors, NameTheOperandAndWhatItShouldBe) {
    expect_messages(
        {
            {"1x128", [](Call& c) { c.source = {}; }, "source: got nothing; expected [rows, k] or [groups, rows, k]."},
            {"1x128", [](Call& c) { c.source.shape = c.source.strides = {256}; },
             "source: got [256]; expected [rows, k] or [groups, rows, k]. Reshape a vector to [1, k]."},
            {"1x128",
             [](Call& c) {
                 c.source.shape = {64, -256};
             },
             "source: got [64, -256]; expected [rows, k] or [groups, rows, k] with sizes of at least 0."},
            {"1x128",
             [](Call& c) {
                 c.source.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
             },
             "source: got [1099511627776, 1099511627776]; expected at most 2^56 elements."},
            {"1x128", [](Call& c) { c.source.format = Format::e4m3; }, "source: got e4m3; expected f32, bf16 or f16."},
            {"1x128", [](Call& c) { c.source.data = nullptr; },
             "source: got a null pointer; expected memory for [64, 256]."},
            {"1x128", [](Call& c) { c.source.data = static_cast<std::byte*>(c.source.data) + 2; },
             "source: got an address that is not a multiple of 4; expected elements of f32 aligned to their size."},
            {"1x128", [](Call& c) { c.source.strides = {256}; },
             "source.strides: got [256]; expected 2 strides, one per dimension."},
            {"1x128",
             [](Call& c) {
                 c.source.device = {DeviceId::Kind::cuda, 1};
             },
             "out.values: got host memory; expected memory of cuda:1. Copy it there.\nout.scales: got host memory; "
             "expected memory of cuda:1. Copy it there."},
            {"1x128", [](Call& c) { c.out.granularity = Granularity::row; },
             "out.granularity: got row; expected 1x128. Set it to options.recipe.granularity."},
            {"1x128", [](Call& c) { c.out.values.format = Format::e5m2; }, "out.values: got e5m2; expected e4m3."},
            {"1x128",
             [](Call& c) {
                 c.out.values.shape = {256, 64};
             },
             "out.values: got [256, 64]; expected [64, 256], the shape of source."},
            {"1x128",
             [](Call& c) {
                 c.out.values.strides = {0, 1};
             },
             "out.values: got [64, 256] with strides [0, 1]; expected strides that give each element its own address."},
            {"1x128",
             [](Call& c) {
                 c.out.values.strides = {255, 1};
             },
             "out.values: got [64, 256] with strides [255, 1]; expected strides that give each element its own "
             "address."},
            {"1x128",
             [](Call& c) {
                 c.out.scales.shape = {2, 64};
             },
             "out.scales: got [2, 64]; expected [64, 2] for 1x128 scales of out.values [64, 256]."},
            {"128x128", [](Call& c) { c.out.scales.shape = {1}; },
             "out.scales: got [1]; expected [1, 2] for 128x128 scales of out.values [64, 256]."},
            {"row", [](Call& c) { c.out.scales = {}; },
             "out.scales: got nothing; expected f32 [64] for row scales of out.values [64, 256]."},
            {"row", [](Call& c) { c.out.scales.format = Format::ue8m0; }, "out.scales: got ue8m0; expected f32."},
            {"row", [](Call& c) { c.out.scales.data = nullptr; },
             "out.scales: got a null pointer; expected memory for [64]."},
            {"row", [](Call& c) { c.out.tensor_scale = c.out.scales; },
             "out.tensor_scale: got [64]; expected nothing. Only NVFP4 (1x16) has a tensor scale."},
            {"bf16", [](Call& c) { c.out.scales = c.source; }, "out.scales: got [64, 256]; expected nothing."},
            {"nvfp4", [](Call& c) { c.out.tensor_scale = {}; },
             "out.tensor_scale: got nothing; expected f32 [1] for NVFP4, 1x16 scales of out.values [64, 256]."},
            {"nvfp4",
             [](Call& c) {
                 c.out.values.strides = {257, 1};
             },
             "out.values: got e2m1 with strides [257, 1]; expected even strides except in the packed dimension. Start "
             "every row on a whole byte."},
            {"nvfp4",
             [](Call& c) {
                 c.out.values.strides = {512, 2};
             },
             "out.values: got e2m1 [64, 256] with strides [512, 2]; expected a stride of 1 and an even size along rows "
             "or k, because two elements share a byte. Strides and sizes count elements, not bytes."},
            {"1x128",
             [](Call& c) {
                 c.options.recipe.scales = Format::ue4m3;
                 c.out.scales = {};
             },
             "options.recipe: got e4m3 values with 1x128 scales in ue4m3; expected fp8 with tensor, row, 1x128 or "
             "128x128 scales in f32 (1x128 and 128x128 also in ue8m0), fp8 or e2m1 with 1x32 scales in ue8m0, e2m1 "
             "with 1x16 scales in ue4m3, or fp8, bf16, f16 or f32 without scales."},
            {"e5m2.1x128", [](Call& c) { c.options.deep_gemm = true; },
             "options.deep_gemm: got a DeepGEMM cast to e5m2.1x128; expected e4m3 or e2m1 values with scales other "
             "than 1x16. DeepGEMM has no such cast. Omit the option."},
            {"nvfp4", [](Call& c) { c.options.deep_gemm = true; },
             "options.deep_gemm: got a DeepGEMM cast to nvfp4; expected e4m3 or e2m1 values with scales other than "
             "1x16. DeepGEMM has no such cast. Omit the option."},
        },
        &Call::quantize_message);
}

TEST(QuantizeErrors, AreAllReportedAtOnce) {
    Call call("nvfp4");
    call.source.format = Format::i32;
    call.out.values.shape = {32, 256};
    call.out.scales.format = Format::f32;
    call.out.tensor_scale.data = nullptr;
    EXPECT_EQ(call.quantize_message(),
              "source: got i32; expected f32, bf16 or f16.\nout.values: got [32, 256]; expected [64, 256], the shape "
              "of source.\nout.scales: got f32; expected ue4m3.\nout.tensor_scale: got a null pointer; expected memory "
              "for [1].");
}

TEST(DequantizeErrors, NameTheOperandAndWhatItShouldBe) {
    expect_messages(
        {
            {"1x128", [](Call& c) { c.source = {}; }, "out: got nothing; expected [rows, k] or [groups, rows, k]."},
            {"1x128", [](Call& c) { c.source.format = Format::e2m1; }, "out: got e2m1; expected f32, bf16 or f16."},
            {"1x128",
             [](Call& c) {
                 c.source.shape = {32, 256};
             },
             "out: got [32, 256]; expected [64, 256], the shape of operand.values."},
            {"1x128",
             [](Call& c) {
                 c.source.strides = {0, 1};
             },
             "out: got [64, 256] with strides [0, 1]; expected strides that give each element its own address."},
            {"1x128",
             [](Call& c) {
                 c.out.scales.shape = {64, 3};
             },
             "operand.scales: got [64, 3]; expected [64, 2] for 1x128 scales of operand.values [64, 256]."},
            {"1x128", [](Call& c) { c.out.values.data = nullptr; },
             "operand.values: got a null pointer; expected memory for [64, 256]."},
            {"mxfp4", [](Call& c) { c.out.scales.format = Format::f32; },
             "operand: got e2m1 values with 1x32 scales in f32; expected fp8 with tensor, row, 1x128 or 128x128 scales "
             "in f32 (1x128 and 128x128 also in ue8m0), fp8 or e2m1 with 1x32 scales in ue8m0, e2m1 with 1x16 scales "
             "in ue4m3, or fp8, bf16, f16 or f32 without scales."},
        },
        &Call::dequantize_message);
}

TEST(DequantizeErrors, ScalesThatAreReadMayRepeat) {
    Call call("128x128");
    call.out.scales.strides = {0, 0};
    EXPECT_EQ(call.dequantize_message(), "");
}

TEST(OwnedOperandErrors, NameShapeAndRecipe) {
    EXPECT_EQ(Call::message([] {
                  OwnedOperand({4, 5}, side("nvfp4"));
              }),
              "shape: got [4, 5]; expected an even k, because e2m1 stores two elements per byte. Pad k with a zero.");
    EXPECT_EQ(Call::message([] {
                  OwnedOperand({3, std::int64_t{1} << 55, 16}, side("row"));
              }),
              "shape: got [3, 36028797018963968, 16]; expected at most 2^56 elements.");
    EXPECT_EQ(Call::message([] { OwnedOperand({4}, side("row")); }),
              "shape: got [4]; expected [rows, k] or [groups, rows, k]. Reshape a vector to [1, k].");
    std::vector<float> numbers(20);
    EXPECT_EQ(Call::message([&] {
                  quantize(row_major(numbers.data(), Format::f32, {4, 5}), {.recipe = side("mxfp4")});
              }),
              "source: got [4, 5]; expected an even k, because e2m1 stores two elements per byte. Pad k with a zero.");
}

}  // namespace
}  // namespace tilewright
