// The groups that cuBLASLt is given are those of the benchmark's product: where they begin, how large they are, how far
// rows are apart.
#include "bench/blas_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tilewright::bench {
namespace {

using Numbers = std::array<std::int64_t, 8>;

constexpr std::int64_t a_at = 1 << 20, b_at = 2 << 20, d_at = 3 << 20;

/// m, n, k, where A, B and D begin in elements, and the pitches.
std::vector<Numbers> numbers(const ProblemSizes& sizes, const std::vector<std::int64_t>& group_sizes, Format values) {
    std::vector<std::byte> memory(4 << 20);
    const BlasMatrices at{.a = &memory[a_at], .b = &memory[b_at], .d = &memory[d_at]};
    const std::int64_t bytes = bits(values) / 8;
    std::vector<Numbers> found;
    for (const measure::BlasGroup& each : blas_groups(sizes, group_sizes, at, values)) {
        found.push_back({each.m, each.n, each.k, (static_cast<const std::byte*>(each.a) - at.a) / bytes,
                         (static_cast<const std::byte*>(each.b) - at.b) / bytes,
                         (static_cast<std::byte*>(each.d) - at.d) / 2, each.pitch_of_a, each.pitch_of_b});
    }
    return found;
}

TEST(BlasGroups, OfRowsHaveAMatrixOfBEach) {
    const ProblemSizes sizes{.grouping = Grouping::m_grouped_offsets, .m = 12, .n = 16, .k = 32, .groups = 2};
    for (const Format values : {Format::e4m3, Format::bf16}) {
        EXPECT_EQ(numbers(sizes, {5, 7}, values),
                  (std::vector<Numbers>{{5, 16, 32, 0, 0, 0, 32, 32}, {7, 16, 32, 5 * 32, 16 * 32, 5 * 16, 32, 32}}));
    }
    EXPECT_EQ(blas_output_bytes(sizes), std::size_t{12 * 16 * 2});
}

TEST(BlasGroups, OfKHaveAMatrixOfDEach) {
    ProblemSizes sizes{.grouping = Grouping::k_grouped, .m = 4, .n = 16, .k = 224, .groups = 2};
    EXPECT_EQ(numbers(sizes, {96, 128}, Format::bf16),
              (std::vector<Numbers>{{4, 16, 96, 0, 0, 0, 224, 224}, {4, 16, 128, 96, 96, 4 * 16, 224, 224}}));
    sizes.grouping = Grouping::k_grouped_flat;
    EXPECT_EQ(numbers(sizes, {96, 128}, Format::e4m3),
              (std::vector<Numbers>{{4, 16, 96, 0, 0, 0, 96, 96}, {4, 16, 128, 96 * 4, 96 * 16, 4 * 16, 128, 128}}));
    sizes.grouping = Grouping::k_grouped_aligned_offsets;
    sizes.k = 256;
    EXPECT_EQ(numbers(sizes, {96, 128}, Format::e4m3),
              (std::vector<Numbers>{{4, 16, 96, 0, 0, 0, 256, 256}, {4, 16, 128, 128, 128, 4 * 16, 256, 256}}));
    EXPECT_EQ(blas_output_bytes(sizes), std::size_t{2 * 4 * 16 * 2});
}

TEST(BlasGroups, AreOfGroupingsWithoutGapsInTheirRows) {
    EXPECT_TRUE(has_blas_groups(Grouping::m_grouped_offsets));
    EXPECT_TRUE(has_blas_groups(Grouping::k_grouped_flat));
    for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_indices,
                                    Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_masked}) {
        EXPECT_FALSE(has_blas_groups(grouping)) << name(grouping);
    }
}

}  // namespace
}  // namespace tilewright::bench
