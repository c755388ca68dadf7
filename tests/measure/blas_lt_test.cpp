// Plans of cuBLASLt's products against a fake library: what it is told of a product and of groups of them.
#include "measure/blas_lt.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda/library_search.h"
#include "measure/fake_blas_lt.h"

namespace tilewright::measure {
namespace {

using test::FakeBlas;
using test::FakeLayout;

constexpr int e4m3 = 28, bf16 = 14;

/// `driver()` and the plans then find the fakes: libraries of these names are open.
FakeBlas& fake() {
    static const cuda::OpenLibrary driver({TILEWRIGHT_FAKE_CUDA});
    static const cuda::OpenLibrary opened({TILEWRIGHT_FAKE_BLAS_LT});
    return *opened.function<FakeBlas*()>("tilewright_fake_blas")();
}

template <typename Value>
Value value_of(const std::vector<std::byte>& bytes) {
    Value value{};
    EXPECT_EQ(bytes.size(), sizeof(Value));
    if (bytes.size() == sizeof(Value)) std::memcpy(&value, bytes.data(), sizeof(Value));
    return value;
}

class BlasTest : public testing::Test {
protected:
    BlasTest() : blas(fake()) { blas = {}; }
    ~BlasTest() override { EXPECT_EQ(blas.live, 0); }

    FakeBlas& blas;
    std::byte memory[8]{};
};

TEST_F(BlasTest, AProductIsItsTranspose) {
    const auto plan =
        plan_blas({.m = 3, .n = 5, .k = 7, .a = &memory[0], .b = &memory[1], .d = &memory[2]}, BlasScaling::blocks);
    plan->enqueue(nullptr);
    EXPECT_EQ(blas.calls, 1);
    EXPECT_EQ(blas.a, &memory[1]);
    EXPECT_EQ(blas.b, &memory[0]);
    EXPECT_EQ(blas.d, &memory[2]);
    EXPECT_EQ(blas.layout_of_a.type, e4m3);
    EXPECT_EQ(blas.layout_of_a.columns, 5);
    EXPECT_EQ(blas.layout_of_b.columns, 3);
    EXPECT_EQ(blas.layout_of_b.pitch, 7);
    EXPECT_EQ(blas.layout_of_d.type, bf16);
    EXPECT_EQ(blas.layout_of_d.rows, 5);
    EXPECT_EQ(value_of<std::int32_t>(blas.attributes[31]), 5);  // 128x128 for its A, our B
    EXPECT_EQ(value_of<std::int32_t>(blas.attributes[32]), 4);
    EXPECT_EQ(value_of<std::int8_t>(blas.attributes[25]), 0);
}

#ifdef FAKE_GROUPS

BlasGroups two_groups(std::byte* memory) {
    return {.groups = {{.m = 3,
                        .n = 8,
                        .k = 16,
                        .a = memory,
                        .b = memory + 1,
                        .d = memory + 2,
                        .pitch_of_a = 48,
                        .pitch_of_b = 32},
                       {.m = 5,
                        .n = 8,
                        .k = 64,
                        .a = memory + 3,
                        .b = memory + 4,
                        .d = memory + 5,
                        .pitch_of_a = 49,
                        .pitch_of_b = 33}},
            .a_scale = memory + 6,
            .b_scale = memory + 7};
}

std::vector<std::int32_t> both(const std::int32_t* counts) { return {counts[0], counts[1]}; }

/// Aligned as cuBLASLt wants them.
std::vector<const void*> pointers(const void* array) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array) % 16, 0U);
    const auto* const entries = static_cast<const void* const*>(array);
    return {entries[0], entries[1]};
}

TEST_F(BlasTest, GroupsAreArraysOnTheGpu) {
    const auto plan = plan_blas(two_groups(memory));
    plan->enqueue(nullptr);
    EXPECT_EQ(pointers(blas.a), (std::vector<const void*>{&memory[1], &memory[4]}));
    EXPECT_EQ(pointers(blas.b), (std::vector<const void*>{&memory[0], &memory[3]}));
    EXPECT_EQ(pointers(blas.d), (std::vector<const void*>{&memory[2], &memory[5]}));
    const FakeLayout &a = blas.layout_of_a, &b = blas.layout_of_b, &d = blas.layout_of_d;
    EXPECT_EQ(a.groups, 2);
    EXPECT_EQ(a.type, e4m3);
    EXPECT_EQ(both(a.rows_of_groups), (std::vector<std::int32_t>{16, 64}));
    EXPECT_EQ(both(a.columns_of_groups), (std::vector<std::int32_t>{8, 8}));
    EXPECT_EQ(both(a.pitches_of_groups), (std::vector<std::int32_t>{32, 33}));
    EXPECT_EQ(both(b.rows_of_groups), (std::vector<std::int32_t>{16, 64}));
    EXPECT_EQ(both(b.columns_of_groups), (std::vector<std::int32_t>{3, 5}));
    EXPECT_EQ(both(b.pitches_of_groups), (std::vector<std::int32_t>{48, 49}));
    EXPECT_EQ(d.type, bf16);
    EXPECT_EQ(both(d.rows_of_groups), (std::vector<std::int32_t>{8, 8}));
    EXPECT_EQ(both(d.columns_of_groups), (std::vector<std::int32_t>{3, 5}));
    EXPECT_EQ(both(d.pitches_of_groups), (std::vector<std::int32_t>{8, 8}));
}

TEST_F(BlasTest, ScalesOfGroupsAreOneOfEachOperand) {
    const auto plan = plan_blas(two_groups(memory));
    EXPECT_EQ(value_of<std::int32_t>(blas.attributes[3]), 1);  // A transposed
    EXPECT_EQ(value_of<std::int32_t>(blas.attributes[31]), 6);
    EXPECT_EQ(value_of<std::int32_t>(blas.attributes[32]), 6);
    EXPECT_EQ(value_of<std::int8_t>(blas.attributes[25]), 1);
    EXPECT_EQ(pointers(value_of<const void*>(blas.attributes[17])), (std::vector<const void*>{&memory[7], &memory[7]}));
    EXPECT_EQ(pointers(value_of<const void*>(blas.attributes[18])), (std::vector<const void*>{&memory[6], &memory[6]}));
    EXPECT_EQ(value_of<std::int64_t>(blas.preferences[13]), 40);  // k
    EXPECT_EQ(value_of<std::int64_t>(blas.preferences[14]), 8);   // rows of its D: n
    EXPECT_EQ(value_of<std::int64_t>(blas.preferences[15]), 4);
}

TEST_F(BlasTest, GroupsOfBf16HaveNoScales) {
    BlasGroups product = two_groups(memory);
    product.values = Format::bf16;
    const auto plan = plan_blas(product);
    plan->enqueue(nullptr);
    EXPECT_EQ(blas.layout_of_a.type, bf16);
    EXPECT_EQ(blas.attributes.count(17) + blas.attributes.count(31) + blas.attributes.count(25), 0U);
}

TEST_F(BlasTest, AGroupedProductThatIsRefusedIsSaid) {
    const auto message = [&] {
        try {
            plan_blas(two_groups(memory));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    blas.algorithms = 0;
    EXPECT_EQ(message(), "cuBLASLt has no algorithm for this grouped product");
    blas.refused = 15;
    EXPECT_EQ(message(), "cublasLtMatmulAlgoGetHeuristic failed: cublasStatus_t 15");
}

#else

TEST_F(BlasTest, ALibraryWithoutGroupedProductsIsNamed) {
    try {
        plan_blas(BlasGroups{.groups = {{.m = 1, .n = 16, .k = 16}}});
        FAIL() << "there is none";
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).rfind("cuBLASLt 13.1.0 has no grouped product", 0), 0U) << error.what();
    }
    EXPECT_EQ(blas.calls, 0);
}

#endif

}  // namespace
}  // namespace tilewright::measure
