#include "emulator/changed_data.h"

#include "check/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

namespace tilewright::tests {
namespace {

/// NaN, infinities, zeros of both signs, subnormal numbers, the largest and one.
constexpr std::array special_bits{0x7FC12345U, 0xFF800001U, 0x7F800000U, 0xFF800000U, 0x80000000U, 0x00000000U,
                                  0x00000001U, 0x807FFFFFU, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x3F800000U, 0x00800000U};

/// Some scales are `special`.
template <class Scale>
std::vector<Scale> with_special(Tensor& scales, std::uint64_t seed, const std::vector<Scale>& special) {
    std::vector<Scale> copy = own_copy<Scale>(scales);
    for (std::size_t i = 0; i < copy.size(); ++i) {
        const std::uint64_t random = check::mix(seed * copy.size() + i);
        if (random % 61 == 0) copy[i] = special[(random >> 32) % special.size()];
    }
    return copy;
}

void fill(float* values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        values[i] = std::bit_cast<float>(special_bits[static_cast<std::size_t>(i) % special_bits.size()]);
    }
}

/// Sums of the first half of A's rows are zeros, and those of a row after them NaN.
void zero_rows(std::uint8_t* values, const Tensor& a) {
    const int rank = a.shape.rank();
    const std::int64_t rows = a.shape[rank - 2], stride = a.strides[rank - 2];
    if (a.shape[rank - 1] == 0) return;
    std::memset(values, 0, static_cast<std::size_t>(rows / 2 * stride));
    values[rows / 2 * stride] = 0x7F;
}

/// Bits of bf16 that `mask` has are random: subnormal numbers, infinities and NaN too.
void draw_tokens(std::uint16_t* tokens, const Tensor& a, unsigned mask) {
    std::mt19937 random(mask);
    const int rank = a.shape.rank();
    for (std::int64_t group = 0; group < (rank == 3 ? a.shape[0] : 1); ++group) {
        for (std::int64_t row = 0; row < a.shape[rank - 2]; ++row) {
            std::uint16_t* const line = tokens + (rank == 3 ? group * a.strides[0] : 0) + row * a.strides[rank - 2];
            for (std::int64_t k = 0; k < a.shape[rank - 1]; ++k)
                line[k] = static_cast<std::uint16_t>(random() & (mask | 0x8000U));
        }
    }
}

}  // namespace

DataChange::DataChange(check::Case& test, const ChangedData& changed) : test_(test), changed_(changed) {
    Problem& p = test.problem();
    if (changed.special_scales) {
        // Numbers that are not normal, and numbers that overflow or underflow fp32 with some of the other side's.
        const std::vector<float> special{0.0F,         -0.0F,      0x1p-149F, 0x1.8p-130F,
                                         -0x1p-126F,   0x1.fp127F, -2.5F,     std::numeric_limits<float>::infinity(),
                                         std::nanf("")};
        std::uint64_t seed = 0;
        for (Tensor* scales : {&p.a.scales, &p.b.scales}) {
            if (scales->given() && scales->format == Format::f32)
                floats_.push_back(with_special(*scales, ++seed, special));
            if (scales->given() && scales->format == Format::ue8m0)
                codes_.push_back(with_special<std::uint8_t>(*scales, ++seed, {0, 1, 254, 255}));
        }
    }
    if (changed.any_tokens != 0) {
        tokens_ = own_copy<std::uint16_t>(p.a.values);
        draw_tokens(tokens_.data(), p.a.values, changed.any_tokens);
    }
    if (changed.special_bias) {
        floats_.push_back(own_copy<float>(p.bias));
        fill(floats_.back().data(), last_element(p.bias) + 1);
    }
    if (!changed.special_c) return;
    codes_.push_back(own_copy<std::uint8_t>(p.a.values));
    zero_rows(codes_.back().data(), p.a.values);
    if (!test.spec().in_place) floats_.push_back(own_copy<float>(p.c));
}

void DataChange::fill_c() {
    if (!changed_.special_c) return;
    const Tensor& c = test_.problem().c;
    fill(static_cast<float*>(c.data), last_element(c) + 1);
}

}  // namespace tilewright::tests
