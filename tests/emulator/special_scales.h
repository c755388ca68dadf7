// Scales of an operand some of which are special, for tests of what kernels do with them.
#pragma once

#include "check/random.h"

#include <tilewright/problem.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace tilewright::tests {

/// A copy of the operand's scales, some of which are `special`. The operand reads them from here.
template <class Scale, std::size_t count>
std::vector<std::byte> with_special(Tensor& scales, std::uint64_t seed, const Scale (&special)[count]) {
    std::int64_t last = 0;
    for (int i = 0; i < scales.shape.rank(); ++i) last += (scales.shape[i] - 1) * scales.strides[i];
    const auto* const given = static_cast<const std::byte*>(scales.data);
    const auto size = static_cast<std::size_t>(last + 1);
    std::vector<std::byte> copy(given, given + size * sizeof(Scale));
    for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t random = check::mix(seed * size + i);
        if (random % 61 == 0) std::memcpy(&copy[i * sizeof(Scale)], &special[(random >> 32) % count], sizeof(Scale));
    }
    scales.data = copy.data();
    return copy;
}

/// No normal numbers, and those that overflow or underflow fp32 next to some of the other side's.
inline std::vector<std::byte> with_special_scales(Tensor& scales, std::uint64_t seed) {
    if (scales.format == Format::ue8m0) return with_special<std::uint8_t>(scales, seed, {0, 1, 254, 255});
    return with_special<float>(scales, seed,
                               {0.0F, -0.0F, 0x1p-149F, 0x1.8p-130F, -0x1p-126F, 0x1.fp127F, -2.5F,
                                std::numeric_limits<float>::infinity(), std::nanf("")});
}

}  // namespace tilewright::tests
