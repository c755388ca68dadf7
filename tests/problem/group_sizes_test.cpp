// Check::contents: sizes of groups that a call would clamp, in host memory.
#include "problem/sample.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::test {
namespace {

/// What is found in a call of 64 rows and a k of 512 in four groups.
template <class Number>
std::string found(Grouping grouping, std::vector<Number> sizes, Check check = Check::contents) {
    Problem p = sample({.grouping = grouping, .recipe = "row:row", .groups = std::ssize(sizes)});
    const Format format = sizeof(Number) == 4 ? Format::i32 : Format::i64;
    p.groups.sizes = row_major(static_cast<void*>(sizes.data()), format, {std::ssize(sizes)});
    std::string text;
    for (const Finding& finding : validate(p, Backend::cpu, check)) text += finding.message() + "\n";
    return text;
}

constexpr Grouping groupings_of_ends[] = {Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets,
                                          Grouping::k_grouped, Grouping::k_grouped_aligned_offsets};

TEST(GroupSizes, EndsThatDescend) {
    for (Grouping grouping : groupings_of_ends) {
        const std::string expected =
            "groups.sizes: got end 2 for group 2 after end 5 for group 1; expected ends that do not decrease. Did you "
            "pass sizes? Use their running sum.\n";
        EXPECT_EQ(found<std::int32_t>(grouping, {3, 5, 2, 7}), expected) << name(grouping);
        EXPECT_EQ(found<std::int64_t>(grouping, {3, 5, 2, 1}), expected) << name(grouping);
        EXPECT_EQ(found<std::int64_t>(grouping, {3, 5, 2, 1}, Check::call), "") << name(grouping);
    }
}

TEST(GroupSizes, EndsBeyondTheOperand) {
    EXPECT_EQ(found<std::int32_t>(Grouping::m_grouped_offsets, {3, 65, 2}),
              "groups.sizes: got end 65 for group 1; expected 0 to 64 (m of a.values). The call would clamp it.\n");
    EXPECT_EQ(found<std::int64_t>(Grouping::k_grouped, {-1, 512}),
              "groups.sizes: got end -1 for group 0; expected 0 to 512 (k of a.values). The call would clamp it.\n");
}

TEST(GroupSizes, Counts) {
    EXPECT_EQ(found<std::int32_t>(Grouping::m_grouped_masked, {64, 0, 65}),
              "groups.sizes: got size 65 for group 2; expected 0 to 64 (m of a.values). The call would clamp it.\n");
    EXPECT_EQ(
        found<std::int32_t>(Grouping::k_grouped_flat, {512, -1}),
        "groups.sizes: got size -1 for group 1 after 512 in the groups before; expected sizes of 0 or more with a "
        "sum of at most 512 (k of a.values). The call would clamp it.\n");
    EXPECT_NE(found<std::int64_t>(Grouping::k_grouped_flat, {500, 1LL << 62, 1LL << 62}), "");
}

TEST(GroupSizes, SizesThatAreRight) {
    for (Grouping grouping : groupings_of_ends) {
        EXPECT_EQ(found<std::int32_t>(grouping, {0, 0, 40, 64}), "") << name(grouping);
        EXPECT_EQ(found<std::int64_t>(grouping, {1, 7, 7, 8}), "") << name(grouping);  // rows behind the last
    }
    EXPECT_EQ(found<std::int64_t>(Grouping::m_grouped_masked, {64, 0, 64}), "");
    EXPECT_EQ(found<std::int64_t>(Grouping::k_grouped_flat, {500, 0, 12}), "");
}

TEST(GroupSizes, IndicesOfNoGroupSkipTheirRows) {
    Problem p = sample({.grouping = Grouping::m_grouped_indices});
    std::vector<std::int32_t> indices(64, -7);
    p.groups.sizes = row_major(static_cast<void*>(indices.data()), Format::i32, {64});
    EXPECT_TRUE(validate(p, Backend::cpu, Check::contents).empty());
}

TEST(GroupSizes, AreNotReadBehindOtherMistakesNorOnAGpu) {
    Problem p = sample({.grouping = Grouping::m_grouped_aligned_offsets});  // at addresses that cannot be read
    p.groups.alignment = 0;
    EXPECT_FALSE(validate(p, Backend::cpu, Check::contents).empty());
    p.groups.alignment = 128;
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d, &p.groups.sizes}) {
        tensor->device = {.kind = DeviceId::Kind::cuda, .index = 0};
    }
    EXPECT_TRUE(validate(p, Backend::hopper, Check::contents).empty());
}

}  // namespace
}  // namespace tilewright::test
