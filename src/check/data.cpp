#include "check/data.h"

#include "base/math.h"
#include "check/random.h"
#include "formats/codec.h"
#include "formats/element.h"
#include "problem/canonical_order.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <set>

namespace tilewright::check {
namespace {

constexpr std::int64_t chunk_rows = 128;         // even, so that no two threads share a byte of packed e2m1
constexpr std::int64_t worth_threads = 1 << 16;  // elements

enum Stream : std::uint64_t { values_of_a = 1, values_of_b, scales_of_a, scales_of_b, tensor_scales, values_of_c };

std::uint64_t stream(const CaseSpec& spec, Stream which) { return mix(spec.seed * 16 + which); }

/// The part of an operand that one GEMM reads.
struct Span {
    std::int64_t group = 0;
    std::int64_t row_begin = 0;
    std::int64_t row_end = 0;
    std::int64_t k_begin = 0;
    std::int64_t k_count = 0;
    Origin origin{};
};

std::vector<Span> spans(const Geometry& g, const std::vector<GroupGemm>& gemms, Side side) {
    std::vector<Span> list;
    std::set<std::int64_t> seen;
    for (const GroupGemm& gemm : gemms) {
        Span span{.group = gemm.group, .k_begin = gemm.k_begin, .k_count = gemm.k_count};
        if (side == Side::a) {
            span.row_begin = gemm.row_begin;
            span.row_end = gemm.row_begin + gemm.rows;
            span.origin = gemm.a;
        } else {
            if (!seen.insert(gemm.group).second) continue;
            span.row_end = g.n;
            span.origin = gemm.b;
        }
        list.push_back(span);
    }
    return list;
}

/// Exact distributions have the scales that keep them so.
bool has_far_scales(const CaseSpec& spec, const OperandGeometry& operand, Side side) {
    return side == Side::b && is_mxfp4(operand.recipe) && !is_exact(spec.distribution);
}

constexpr std::array e2m1_numbers{0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

/// One operand while it is filled. Scale slots count elements from the scales' address, as scale_index does.
class Filler {
public:
    Filler(const CaseSpec& spec, const Geometry& geometry, Side side)
        : spec_(spec),
          operand_(side == Side::a ? geometry.a : geometry.b),
          groups_(geometry.groups),
          value_stream_(stream(spec, side == Side::a ? values_of_a : values_of_b)),
          scale_stream_(stream(spec, side == Side::a ? scales_of_a : scales_of_b)),
          tensor_scale_stream_(mix(stream(spec, tensor_scales) + static_cast<std::uint64_t>(side))),
          amplitude_(grid_amplitude(spec)),
          far_(has_far_scales(spec, operand_, side) ? spec.far_scales : FarScales{}, scale_stream_) {
        if (!is_exact(spec.distribution)) draws_ = draws(spec.distribution).data();
    }

    void fill(const std::vector<Span>& list) {
        if (operand_.tensor_scale != nullptr) fill_tensor_scales();
        if (operand_.scales != nullptr) {
            std::int64_t slots = 0;
            for (const Span& span : list) slots = std::max(slots, last_slot(span) + 1);
            largest_.assign(static_cast<std::size_t>(slots), 0);
            divisor_.assign(static_cast<std::size_t>(slots), 1);
            for (const Span& span : list) over_chunks(span, &Filler::find_largest);
            for (const Span& span : list) fill_scales(span);
        }
        for (const Span& span : list) over_chunks(span, &Filler::fill_values);
    }

private:
    std::int64_t k_blocks(const Span& span) const {
        const int block = operand_.k_block();
        return block == 0 ? 1 : ceil_div<std::int64_t>(span.k_count, block);
    }
    std::int64_t slot(const Span& span, std::int64_t row, std::int64_t block) const {
        return scale_index(operand_, span.group, row, operand_.k_block() == 0 ? 0 : span.origin.block + block);
    }
    std::int64_t last_slot(const Span& span) const {
        if (span.row_end == 0) return -1;
        return slot(span, span.row_end - 1, std::max<std::int64_t>(0, k_blocks(span) - 1));
    }

    template <class Function>
    void over_chunks(const Span& span, Function function) {
        const std::int64_t first = span.row_begin / chunk_rows;
        const std::int64_t last = ceil_div(span.row_end, chunk_rows);
        // Rows of a flat group may begin in the middle of a byte of e2m1.
        const bool large = !operand_.flat && (span.row_end - span.row_begin) * span.k_count >= worth_threads;
#pragma omp parallel for schedule(static) if (large)
        for (std::int64_t chunk = first; chunk < last; ++chunk) {
            const std::int64_t end = std::min(span.row_end, (chunk + 1) * chunk_rows);
            for (std::int64_t row = std::max(span.row_begin, chunk * chunk_rows); row < end; ++row) {
                (this->*function)(span, row);
            }
        }
    }

    /// The number before scaling. A pure function of the logical position: strides and layouts do not change it.
    double number(std::int64_t group, std::int64_t row, std::int64_t k) const {
        const std::uint64_t random = random_bits(value_stream_, operand_.value_strides.group == 0 ? 0 : group, row, k);
        if (far_.is_zero(operand_.value_strides.group == 0 ? 0 : group, row, k / 32)) return 0;
        if (draws_ != nullptr) return draws_[random >> (64 - draw_bits)];
        if (spec_.distribution == Distribution::distinct_scales) return 1;
        if (operand_.recipe.values == Format::e2m1) {
            const double magnitude = e2m1_numbers[random >> 61];
            return (random & 1) != 0 ? -magnitude : magnitude;
        }
        return static_cast<double>((random >> 32) % static_cast<std::uint64_t>(2 * amplitude_ + 1)) - amplitude_;
    }

    void find_largest(const Span& span, std::int64_t row) {
        const std::int64_t step = operand_.k_block() == 0 ? span.k_count : operand_.k_block();
        for (std::int64_t block = 0; block < k_blocks(span); ++block) {
            float largest = 0;
            const std::int64_t end = std::min(span.k_count, (block + 1) * step);
            for (std::int64_t k = block * step; k < end; ++k) {
                largest = std::max(largest, static_cast<float>(std::fabs(number(span.group, row, span.k_begin + k))));
            }
            std::atomic_ref<float> shared(largest_[static_cast<std::size_t>(slot(span, row, block))]);
            for (float seen = shared.load(); seen < largest && !shared.compare_exchange_weak(seen, largest);) {
            }
        }
    }

    void fill_scales(const Span& span) {
        const std::int64_t step = operand_.row_block() == 0 ? span.row_end : operand_.row_block();
        const std::int64_t group = operand_.scale_strides.group == 0 ? 0 : span.group;
        for (std::int64_t row = span.row_begin; row < span.row_end; row += step) {
            for (std::int64_t block = 0; block < k_blocks(span); ++block) {
                const std::int64_t row_block = operand_.row_block() == 0 ? 0 : row / operand_.row_block();
                const std::int64_t column = operand_.k_block() == 0 ? 0 : span.origin.block + block;
                if (is_exact(spec_.distribution)) {
                    write_scale(slot(span, row, block), exact_scale(group, row_block, column));
                } else {
                    const std::uint64_t random = random_bits(scale_stream_, group, row_block, column);
                    write_random_scale(slot(span, row, block), span.group, random);
                }
                if (far_.any()) far_.change(operand_.scales, slot(span, row, block), group, row, column);
            }
        }
    }

    double exact_scale(std::int64_t group, std::int64_t row_block, std::int64_t column) const {
        if (spec_.distribution == Distribution::exact_grid) {
            return std::exp2(static_cast<double>(random_bits(scale_stream_, group, row_block, column) % 3) - 1);
        }
        // Neighbours in every direction differ; over 4096 products the range must shrink to stay exact.
        const std::int64_t range = spec_.k > 4096 ? 3 : 7;
        const std::int64_t middle = range / 2;
        const std::int64_t step = (group * 2 + row_block * 5 + column * 4) % range;
        return std::exp2(static_cast<double>(step - middle));
    }

    /// Fits the block, then is off by a random factor from 1/2 to 2, so that no two scales are alike.
    void write_random_scale(std::int64_t index, std::int64_t group, std::uint64_t random) {
        const auto at = static_cast<std::size_t>(index);
        const double top =
            formats::decode(formats::fields(operand_.recipe.values), formats::fields(operand_.recipe.values).largest());
        const double fit = largest_[at] == 0 ? 1 : largest_[at] / top;
        switch (operand_.recipe.scales) {
            case Format::ue8m0:
                divisor_[at] = std::exp2(std::ceil(std::log2(fit)));
                return write_scale(index, divisor_[at] * std::exp2(static_cast<double>(random % 3) - 1));
            case Format::ue4m3: {
                divisor_[at] = fit;
                const double factor = 0.5 + 1.5 * static_cast<double>(random >> 11) * 0x1p-53;
                return write_scale(index, std::min(448.0, fit / tensor_scale(group) * factor));
            }
            default:
                divisor_[at] = fit;
                return write_scale(index, fit * (0.5 + 1.5 * static_cast<double>(random >> 11) * 0x1p-53));
        }
    }

    void write_scale(std::int64_t index, double scale) const {
        auto* const scales = static_cast<std::uint8_t*>(const_cast<void*>(operand_.scales));
        if (operand_.recipe.scales == Format::ue8m0) {
            scales[index] = static_cast<std::uint8_t>(std::clamp(std::ilogb(scale) + 127, 0, 254));
        } else if (operand_.recipe.scales == Format::ue4m3) {
            scales[index] = static_cast<std::uint8_t>(formats::encode(formats::e4m3_fields, scale));
        } else {
            formats::store(scales, Format::f32, index, scale);
        }
    }

    double tensor_scale(std::int64_t group) const {
        if (operand_.tensor_scale == nullptr) return 1;
        return formats::load(operand_.tensor_scale, Format::f32, group * operand_.tensor_scale_stride);
    }

    void fill_tensor_scales() const {
        for (std::int64_t group = 0; group < (operand_.tensor_scale_stride == 0 ? 1 : groups_); ++group) {
            const std::uint64_t random = random_bits(tensor_scale_stream_, group);
            double scale = std::exp2(static_cast<double>(random % 5) - 2);
            if (!is_exact(spec_.distribution)) {
                const float largest = *std::max_element(draws_, draws_ + (std::ptrdiff_t{1} << draw_bits));
                scale = largest / (6 * 448) * (0.5 + 0.5 * static_cast<double>(random >> 11) * 0x1p-53);
            }
            formats::store(const_cast<void*>(operand_.tensor_scale), Format::f32, group * operand_.tensor_scale_stride,
                           scale);
        }
    }

    void fill_values(const Span& span, std::int64_t row) {
        using formats::encode, formats::e4m3_fields, formats::e5m2_fields;
        auto* const codes = static_cast<std::uint8_t*>(const_cast<void*>(operand_.values));
        const Format format = operand_.recipe.values;
        // Most of a test's time would go to the choice of a format for each number.
        switch (format) {
            case Format::e4m3:
                return fill_row(span, row, [=](std::int64_t i, double x) {
                    codes[i] = static_cast<std::uint8_t>(encode(e4m3_fields, x));
                });
            case Format::e5m2:
                return fill_row(span, row, [=](std::int64_t i, double x) {
                    codes[i] = static_cast<std::uint8_t>(encode(e5m2_fields, x));
                });
            default: return fill_row(span, row, [=](std::int64_t i, double x) { formats::store(codes, format, i, x); });
        }
    }

    /// `store` puts a number at an index.
    template <class Store>
    void fill_row(const Span& span, std::int64_t row, Store store) {
        const std::int64_t step = operand_.k_block() == 0 ? span.k_count : operand_.k_block();
        for (std::int64_t begin = 0; begin < span.k_count; begin += step) {
            const std::int64_t end = std::min(span.k_count, begin + step);
            const double divisor =
                operand_.scales == nullptr ? 1 : divisor_[static_cast<std::size_t>(slot(span, row, begin / step))];
            for (std::int64_t k = begin; k < end; ++k) {
                store(value_index(operand_, span.origin, row, k), number(span.group, row, span.k_begin + k) / divisor);
            }
        }
    }

    const CaseSpec& spec_;
    OperandGeometry operand_;
    std::int64_t groups_;
    std::uint64_t value_stream_;
    std::uint64_t scale_stream_;
    std::uint64_t tensor_scale_stream_;
    int amplitude_;
    FarScalePlaces far_;
    const float* draws_ = nullptr;
    std::vector<float> largest_;   // of each scale slot
    std::vector<double> divisor_;  // divisor of values before they are encoded
};

}  // namespace

double c_value(const CaseSpec& spec, std::int64_t group, std::int64_t row, std::int64_t column) {
    const std::uint64_t random = random_bits(stream(spec, values_of_c), group, row, column);
    if (is_exact(spec.distribution)) return static_cast<double>((random >> 32) % 33) - 16;
    return draws(Distribution::normal)[random >> (64 - draw_bits)] * std::sqrt(static_cast<double>(spec.k) + 1);
}

void fill_operand(const CaseSpec& spec, const Geometry& geometry, const std::vector<GroupGemm>& gemms, Side side) {
    Filler(spec, geometry, side).fill(spans(geometry, gemms, side));
}

}  // namespace tilewright::check
