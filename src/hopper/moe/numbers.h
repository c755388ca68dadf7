// 16 numbers of a row in a lane's registers: x as it is in memory, or h.
#pragma once

#include "hopper/moe/existing_rows.h"
#include "hopper/moe/spec.h"
#include "hopper/quantize/numbers.h"

namespace tilewright::hopper {

template <RowSpec spec>
struct RowNumbers {
    static constexpr Quantizer q = held_as(spec);
    static constexpr int words = Numbers<q>::words;
    u32 held[words];
    float factor;  // of x

    TILEWRIGHT_DEVICE float at(int i) const {
        const float number = number_of<q>(held, i);
        return spec.has_factors ? number * factor : number;
    }
    TILEWRIGHT_DEVICE void clear() {
#pragma unroll
        for (u32& word : held) word = 0;
    }
};

/// The bits of a result in f32. All NaNs are one, as on the CPU.
TILEWRIGHT_DEVICE u32 f32_of(float number) { return number == number ? __builtin_bit_cast(u32, number) : 0x7FFF'FFFFU; }

/// One number of a row.
template <Number format>
TILEWRIGHT_DEVICE float load_number_as(const void* data, i64 index) {
    return load_number<Quantizer{.source = format}>(data, index);
}

TILEWRIGHT_DEVICE float load_number_of(Number format, const void* data, i64 index) {
    if (format == Number::f32) return load_number_as<Number::f32>(data, index);
    return format == Number::bf16 ? load_number_as<Number::bf16>(data, index)
                                  : load_number_as<Number::f16>(data, index);
}

TILEWRIGHT_DEVICE float factor_at(const FactorArguments& factors, const RowPlace& place, int choice) {
    if (factors.data == nullptr || choice >= factors.choices) return 1;
    const i64 index =
        place.group * factors.group_stride + place.row * factors.row_stride + choice * factors.choice_stride;
    return load_number_of(factors.format, factors.data, index);
}

/// Elements that this kernel's block may have met other ranks for (`fresh`).
template <bool fresh, class Element>
TILEWRIGHT_DEVICE Element load_element(const Element* from) {
    if constexpr (fresh) return load_fresh(from);
    return load_global(from);
}

/// As `load_words` of the quantizers.
template <bool fresh, Quantizer q, int words>
TILEWRIGHT_DEVICE void load_row_words(const SourceMatrix& matrix, i64 first, u32 (&to)[words]) {
    if constexpr (!fresh) {
        load_words<q>(matrix, first, to);
    } else {
        constexpr int bytes = q.source == Number::f32 ? 4 : 2;
        const auto* from = reinterpret_cast<const IntQuad*>(static_cast<const u8*>(matrix.data) + first * bytes);
#pragma unroll
        for (int i = 0; i < words; i += 4) {
            const IntQuad quad = load_fresh(from + i / 4);
#pragma unroll
            for (int j = 0; j < 4; ++j) to[i + j] = u32(quad.values[j]);
        }
    }
}

/// Loads x of a row; 0 for features that do not exist.
template <RowSpec spec>
TILEWRIGHT_DEVICE void load_numbers(const SourceMatrix& x, const RowPlace& place, int feature, int end,
                                    RowNumbers<spec>& to) {
    constexpr Quantizer q = RowNumbers<spec>::q;
    const i64 first = row_of(x, place.group, place.row) + feature;
    to.clear();
    if constexpr (spec.vectors) {
        if (feature < end) load_row_words<spec.meets, q>(x, first, to.held);
        return;
    }
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        if (feature + i >= end) continue;
        if constexpr (q.source == Number::f32) {
            to.held[i] = load_element<spec.meets>(static_cast<const u32*>(x.data) + first + i);
        } else {
            to.held[i / 2] |= u32(load_element<spec.meets>(static_cast<const u16*>(x.data) + first + i)) << i % 2 * 16;
        }
    }
}

/// The gates and ups of a lane in memory order. `halves`: gates, then ups, or both alternating.
template <RowSpec spec>
using GateUp = u32[formats::has_up(spec.unit) ? lane_features : lane_features / 2];

template <RowSpec spec>
TILEWRIGHT_DEVICE void load_gate_up(const ActivateArguments& a, const RowPlace& place, int feature,
                                    GateUp<spec>& halves) {
    constexpr Quantizer q{.source = Number::bf16};
    constexpr int gates = lane_features / 2;  // words
    const i64 row = row_of(a.gate_up, place.group, place.row);
    if constexpr (spec.interleaved || !formats::has_up(spec.unit)) {
        load_words<q>(a.gate_up, row + (spec.interleaved ? 2 : 1) * feature, halves);
    } else {
        using Words = u32(&)[gates];
        load_words<q>(a.gate_up, row + feature, reinterpret_cast<Words>(halves));
        load_words<q>(a.gate_up, row + a.up + feature, reinterpret_cast<Words>(halves[gates]));
    }
}

/// The same element by element.
template <RowSpec spec>
TILEWRIGHT_DEVICE void load_any_gate_up(const ActivateArguments& a, const RowPlace& place, int feature, int end,
                                        GateUp<spec>& halves) {
    constexpr bool alternate = spec.interleaved && formats::has_up(spec.unit);
    constexpr int gates = lane_features / 2;  // words
    const u16* const row = static_cast<const u16*>(a.gate_up.data) + row_of(a.gate_up, place.group, place.row);
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        const bool exists = feature + i < end;
        const int gate = alternate ? 2 * (feature + i) : feature + i;
        const u32 first = exists ? load_global(row + gate) : 0U;
        u32 second = 0;
        if constexpr (formats::has_up(spec.unit)) second = exists ? load_global(row + gate + a.up) : 0U;
        if constexpr (alternate) {
            halves[i] = first | second << 16;
        } else {
            halves[i / 2] = i % 2 == 0 ? first : halves[i / 2] | first << 16;
            if constexpr (formats::has_up(spec.unit)) {
                u32& up = halves[gates + i / 2];
                up = i % 2 == 0 ? second : up | second << 16;
            }
        }
    }
}

template <RowSpec spec>
TILEWRIGHT_DEVICE void activate_numbers(const GateUp<spec>& halves, const formats::GatedRule& rule, float factor,
                                        RowNumbers<spec>& h) {
    constexpr Quantizer q{.source = Number::bf16};
    constexpr bool alternate = spec.interleaved && formats::has_up(spec.unit);
#pragma unroll
    for (int i = 0; i < lane_features; ++i) {
        const float gate = number_of<q>(halves, alternate ? 2 * i : i);
        float up = 0;
        if constexpr (formats::has_up(spec.unit)) {
            up = number_of<q>(halves, alternate ? 2 * i + 1 : lane_features + i);
        }
        h.held[i] = __builtin_bit_cast(u32, formats::gated<spec.unit>(gate, up, rule) * factor);
    }
}

/// Computes h of a row; 0 for features that do not exist.
template <RowSpec spec>
TILEWRIGHT_DEVICE void load_activated(const ActivateArguments& a, const RowPlace& place, int feature, int end,
                                      float factor, RowNumbers<spec>& h) {
    h.clear();
    if (feature >= end) return;
    GateUp<spec> halves;
    if constexpr (spec.vectors) {
        load_gate_up<spec>(a, place, feature, halves);
    } else {
        load_any_gate_up<spec>(a, place, feature, end, halves);
    }
    // Most rules of SwiGLU have no limit, and then alpha is 1, which saves a fifth of the instructions.
    const formats::SwiGluRule& any = a.rule.swiglu;
    if (spec.unit == Unit::swiglu && any.alpha == 1 && any.limit == __builtin_bit_cast(float, 0x7F80'0000U)) {
        const formats::GatedRule usual{.swiglu = {.alpha = 1, .beta = any.beta, .limit = 0, .has_limit = false}};
        activate_numbers<spec>(halves, usual, factor, h);
    } else {
        activate_numbers<spec>(halves, a.rule, factor, h);
    }
    if constexpr (spec.vectors) return;
#pragma unroll
    for (int i = 0; i < lane_features; ++i) h.held[i] = feature + i < end ? h.held[i] : 0U;
}

}  // namespace tilewright::hopper
