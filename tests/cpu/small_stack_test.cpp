// Everything that runs on the CPU does so in a thread whose stack has 64 KiB: musl's and many servers' threads have
// 128, of which the caller has used some. CMakeLists.txt gives OpenMP's threads as little.
#include "check/case.h"

#include <tilewright/error.h>
#include <tilewright/quantize_tokens.h>
#include <tilewright/tilewright.h>

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tilewright {
namespace {

constexpr std::size_t stack_bytes = 65536;

/// Runs it in such a thread; what it throws is a failure of the test.
void in_small_thread(const std::function<void()>& work) {
    const auto run = [](void* argument) -> void* {
        try {
            (*static_cast<const std::function<void()>*>(argument))();
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
        return nullptr;
    };
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

/// A product that is made here and run there.
bool multiplies(const check::CaseSpec& spec) {
    if (!check::impossible(spec).empty()) return false;
    check::Case test_case(spec);
    if (!validate(test_case.problem(), Backend::cpu).empty()) return false;
    in_small_thread([&] { run(test_case.problem(), {.backend = Backend::cpu, .threads = 2}); });
    return true;
}

TEST(SmallStack, ProductsOfEveryRecipe) {
    int count = 0;
    for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
        for (const Recipe& recipe : all_recipes()) {
            count += multiplies({.recipe = recipe, .m = 40, .n = 66, .k = 256, .arithmetic = arithmetic}) ? 1 : 0;
        }
    }
    EXPECT_GT(count, 100);
}

TEST(SmallStack, ProductsOfEveryGroupingAndLayout) {
    int count = 0;
    for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
        for (const Grouping grouping : all_groupings) {
            for (const Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
                for (const char* recipe : {"row:row", "1x128:1x128", "mxfp8:mxfp4", "nvfp4:nvfp4"}) {
                    const check::CaseSpec spec{.grouping = grouping,
                                               .recipe = recipe_named(recipe),
                                               .layout = layout,
                                               .output = Format::f32,
                                               .m = 70,
                                               .n = 40,
                                               .k = 256,
                                               .groups = 3,
                                               .with_c = true,
                                               .arithmetic = arithmetic};
                    count += multiplies(spec) ? 1 : 0;
                }
            }
        }
    }
    EXPECT_GT(count, 40);
}

/// Sums that overflow are computed again in double.
TEST(SmallStack, ProductsInDouble) {
    std::vector<float> a(64 * 128, 3e38F);
    std::vector<float> d(64 * 64);
    const Tensor x = row_major(a.data(), Format::f32, {64, 128});
    in_small_thread([&] {
        run({.a = {.values = x}, .b = {.values = x}, .d = row_major(d.data(), Format::f32, {64, 64})});
    });
}

/// The sides of all recipes that have scales.
std::map<std::string, OperandRecipe> operand_recipes() {
    std::map<std::string, OperandRecipe> all;
    for (const Recipe& recipe : all_recipes()) {
        for (const OperandRecipe& side : {recipe.a, recipe.b}) {
            if (side.granularity != Granularity::none) all.emplace(name(side), side);
        }
    }
    return all;
}

std::vector<float> numbers(std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i % 251) - 125;
    return all;
}

TEST(SmallStack, QuantisersOfEveryRecipe) {
    std::vector<float> source = numbers(2 * 300 * 512);
    std::vector<float> back(source.size());
    const Dims shape{2, 300, 512};
    const Tensor x = row_major(source.data(), Format::f32, shape);
    const Tensor out = row_major(back.data(), Format::f32, shape);
    for (const auto& [name_of_side, recipe] : operand_recipes()) {
        const OperandRecipe side = recipe;
        for (const int threads : {1, 2}) {
            in_small_thread([&] {
                const OwnedOperand q = quantize(x, {.recipe = side}, {.threads = threads});
                dequantize(q, out, {.threads = threads});
                if (side.values != Format::e2m1) return;
                for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
                    const OwnedPackedWeights packed = pack_weights(q, activations, {.threads = threads});
                    unpack_weights(packed);
                }
            });
        }
    }
}

TEST(SmallStack, Codes) {
    std::vector<float> source = numbers(300 * 512);
    std::vector<std::byte> codes(source.size() * 4);
    for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::ue8m0, Format::bf16, Format::f16}) {
        in_small_thread([&] {
            const Tensor x = row_major(source.data(), Format::f32, {300, 512});
            const Tensor y = row_major(codes.data(), format, {300, 512});
            encode(x, y, true);
            decode(y, x);
        });
    }
}

/// An operand of 1x128, codes and scales, with memory for it.
struct Codes {
    explicit Codes(std::int64_t rows, std::int64_t k)
        : values(static_cast<std::size_t>(rows * k)), scales(values.size()) {
        operand = {.values = row_major(values.data(), Format::e4m3, {rows, k}),
                   .granularity = Granularity::block_1x128,
                   .scales = row_major(scales.data(), Format::f32, {rows, (k + 127) / 128})};
    }

    std::vector<std::byte> values;
    std::vector<float> scales;
    Operand operand;
};

TEST(SmallStack, QuantisersOfTokens) {
    constexpr std::int64_t tokens = 300, features = 256;
    std::vector<float> x = numbers(tokens * 2 * features), gradient = numbers(tokens * features);
    std::vector<std::int32_t> ends{5, 140, 300};
    for (const Activation activation : {Activation::none, Activation::swiglu, Activation::swiglu_gradient}) {
        const bool two = activation == Activation::swiglu_gradient;
        TokenSource source{
            .x = row_major(x.data(), Format::f32, {tokens, activation == Activation::none ? features : 2 * features}),
            .activation = activation,
            .ends = row_major(ends.data(), Format::i32, {3})};
        if (two) source.gradient = row_major(gradient.data(), Format::f32, {tokens, features});
        const std::int64_t width = two ? 2 * features : features;
        Codes rows(tokens, width), columns(width, column_limit(tokens, 3)), turned(width, column_limit(tokens, 3));
        for (const int threads : {1, 2}) {
            in_small_thread([&] {
                quantize_tokens(source, {.operand = rows.operand}, {.operand = columns.operand}, true,
                                {.threads = threads});
                transpose_codes(rows.operand, source.ends, turned.operand, {.threads = threads});
            });
        }
    }
}

/// What callers get wrong, and what the planner says.
TEST(SmallStack, ErrorsAndExplanations) {
    in_small_thread([] {
        std::vector<float> a(64 * 128);
        const Tensor x = row_major(a.data(), Format::f32, {64, 128});
        const Tensor wrong = row_major(a.data(), Format::f32, {128, 64});
        EXPECT_THROW(run({.a = {.values = x}, .b = {.values = wrong}, .d = x}), Error);
        EXPECT_TRUE(explain({.a = {.values = x}, .b = {.values = x}, .d = x}).chosen == std::nullopt);
    });
}

}  // namespace
}  // namespace tilewright
