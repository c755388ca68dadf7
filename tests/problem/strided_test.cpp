// "Do they share memory" against an enumeration of every byte.
#include "problem/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

namespace tilewright::test {
using validation::overlap;
using validation::overlaps_itself;
namespace {

alignas(8) std::array<char, 4096> memory{};

/// Half bytes that each element occupies, element by element.
std::multiset<std::int64_t> half_bytes(const Tensor& tensor) {
    const std::int64_t begin = (static_cast<char*>(tensor.data) - memory.data()) * 2;
    const int length = bits(tensor.format) / 4;
    std::multiset<std::int64_t> result;
    const auto size = [&](int i) { return i < tensor.shape.rank() ? tensor.shape[i] : 1; };
    const auto stride = [&](int i) { return i < tensor.strides.rank() ? tensor.strides[i] : 0; };
    for (std::int64_t x = 0; x < size(0); ++x) {
        for (std::int64_t y = 0; y < size(1); ++y) {
            for (std::int64_t z = 0; z < size(2); ++z) {
                const std::int64_t element = x * stride(0) + y * stride(1) + z * stride(2);
                for (int i = 0; i < length; ++i) result.insert(begin + element * length + i);
            }
        }
    }
    return result;
}

Tensor random_tensor(std::mt19937& random, Format format) {
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    Tensor tensor{.data = memory.data() + pick(0, 20) * bits(format) / 8 * 2, .format = format};
    const int rank = pick(1, 3);
    for (int i = 0; i < rank; ++i) {
        tensor.shape.push_back(pick(1, 5));
        tensor.strides.push_back(pick(0, 12));
    }
    return tensor;
}

TEST(Strided, OverlapOfTwoTensors) {
    std::mt19937 random(1);
    int overlapping = 0;
    for (int i = 0; i < 6000; ++i) {
        const Tensor x = random_tensor(random, i % 3 == 0 ? Format::f32 : Format::bf16);
        const Tensor y = random_tensor(random, i % 2 == 0 ? Format::e2m1 : Format::bf16);
        const std::multiset<std::int64_t> of_x = half_bytes(x);
        const std::multiset<std::int64_t> of_y = half_bytes(y);
        const bool expected = std::any_of(of_x.begin(), of_x.end(), [&](auto place) { return of_y.count(place) > 0; });
        overlapping += expected ? 1 : 0;
        ASSERT_EQ(overlap(x, y), expected) << i;
        ASSERT_EQ(overlap(y, x), expected) << i;
    }
    EXPECT_GT(overlapping, 600);
    EXPECT_LT(overlapping, 5400);
}

TEST(Strided, OverlapOfATensorWithItself) {
    std::mt19937 random(2);
    int overlapping = 0;
    for (int i = 0; i < 6000; ++i) {
        const Tensor x = random_tensor(random, i % 2 == 0 ? Format::f32 : Format::bf16);
        const std::multiset<std::int64_t> places = half_bytes(x);
        const bool expected = std::set<std::int64_t>(places.begin(), places.end()).size() != places.size();
        overlapping += expected ? 1 : 0;
        ASSERT_EQ(overlaps_itself(x), expected) << to_string(x.shape) << " " << to_string(x.strides);
    }
    EXPECT_GT(overlapping, 600);
    EXPECT_LT(overlapping, 5400);
}

TEST(Strided, InterleavedViewsOfAHugeBufferAreToldApartAtOnce) {
    Tensor x{
        .data = memory.data(), .format = Format::bf16, .shape = {512, 65536, 128}, .strides = {1 << 30, 1 << 14, 1}};
    Tensor y = x;
    y.data = memory.data() + 256;
    EXPECT_FALSE(overlap(x, y));
    y.shape = {256, 1024, 129};
    EXPECT_FALSE(overlap(x, y));
    y.data = memory.data() + 254;
    EXPECT_TRUE(overlap(x, y));
}

}  // namespace
}  // namespace tilewright::test
