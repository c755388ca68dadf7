// Random numbers as a pure function of seed and position, so that data can be made in any order, in parallel, and
// again.
#pragma once

#include <cstdint>

namespace tilewright::check {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    return x ^ x >> 31;
}

/// 64 random bits for a position of up to three coordinates.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::int64_t i, std::int64_t j = 0, std::int64_t l = 0) {
    return mix(mix(mix(seed + static_cast<std::uint64_t>(i)) + static_cast<std::uint64_t>(j)) +
               static_cast<std::uint64_t>(l));
}

/// A stream of numbers for things made one after another.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

    std::uint64_t bits() { return mix(state_++); }
    /// 0 .. limit, both included.
    std::int64_t up_to(std::int64_t limit) {
        return limit <= 0 ? 0 : static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(limit + 1));
    }
    /// [0, 1)
    double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_;
};

}  // namespace tilewright::check
