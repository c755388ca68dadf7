// The number of bits that the tensor core's adder keeps, measured on an H200 (tests/data/README.md). Constants only,
// because sources that are compiled for several instruction levels must not include functions.
#pragma once

namespace tilewright::cpu {

struct Adder {
    // Addends are truncated to multiples of 2^(largest exponent - kept_below).
    int kept_below;
    int kept_of_result;  // significant bits of the sum
};
inline constexpr Adder fp8_adder{.kept_below = 13, .kept_of_result = 14};
inline constexpr Adder bf16_adder{.kept_below = 25, .kept_of_result = 24};

/// Even if all addends are smaller, they are truncated as if the largest had this exponent. Only bf16 products are that
/// small.
inline constexpr int smallest_largest_exponent = -133;

}  // namespace tilewright::cpu
