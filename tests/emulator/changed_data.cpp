#include "emulator/changed_data.h"

#include "emulator/special_scales.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>

namespace tilewright::tests {
namespace {

/// NaN, infinities, zeros of both signs, subnormal numbers, the largest and one.
constexpr std::array special_bits{0x7FC12345U, 0xFF800001U, 0x7F800000U, 0xFF800000U, 0x80000000U, 0x00000000U,
                                  0x00000001U, 0x807FFFFFU, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x3F800000U, 0x00800000U};

std::int64_t last_element(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    return last;
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

template <class Element>
Element* DataChange::copied(Tensor& tensor) {
    const auto* const given = static_cast<const std::byte*>(tensor.data);
    const auto size = static_cast<std::size_t>(last_element(tensor) + 1) * sizeof(Element);
    memory_.emplace_back(given, given + size);
    tensor.data = memory_.back().data();
    return static_cast<Element*>(tensor.data);
}

DataChange::DataChange(check::Case& test, const ChangedData& changed) : test_(test), changed_(changed) {
    Problem& p = test.problem();
    if (changed.special_scales) {
        for (Tensor* scales : {&p.a.scales, &p.b.scales}) {
            if (scales->given() && (scales->format == Format::f32 || scales->format == Format::ue8m0))
                memory_.push_back(with_special_scales(*scales, memory_.size() + 1));
        }
    }
    if (changed.any_tokens != 0) draw_tokens(copied<std::uint16_t>(p.a.values), p.a.values, changed.any_tokens);
    if (changed.special_bias) fill(copied<float>(p.bias), last_element(p.bias) + 1);
    if (!changed.special_c) return;
    zero_rows(copied<std::uint8_t>(p.a.values), p.a.values);
    if (!test.spec().in_place) copied<float>(p.c);
}

void DataChange::fill_c() {
    if (!changed_.special_c) return;
    const Tensor& c = test_.problem().c;
    fill(static_cast<float*>(c.data), last_element(c) + 1);
}

}  // namespace tilewright::tests
