#include "check/moe_composition.h"

#include <fmt/format.h>
#include <tilewright/quantize.h>

#include <cmath>
#include <cstring>

#include "check/moe_rows.h"
#include "formats/element.h"
#include "formats/gated_unit.h"

namespace tilewright::check {
namespace {

using formats::Unit;

formats::GatedRule rule_of(const GatedUnit& unit) {
    formats::GatedRule rule;
    rule.swiglu = {unit.swiglu.alpha, unit.swiglu.beta, formats::limit_of(unit.swiglu.limit)};
    rule.gate_bound = unit.gate_bound;
    rule.gate_inverse = 1 / unit.gate_bound;
    rule.up_bound = unit.up_bound;
    rule.up_inverse = 1 / unit.up_bound;
    rule.bounds_up = std::isfinite(unit.up_bound);
    return rule;
}

float unit_of(const GatedUnit& unit, const formats::GatedRule& rule, float gate, float up) {
    switch (unit.kind) {
        case GatedUnit::Kind::swiglu: return formats::gated<Unit::swiglu>(gate, up, rule);
        case GatedUnit::Kind::situ: return formats::gated<Unit::situ>(gate, up, rule);
        case GatedUnit::Kind::geglu: return formats::gated<Unit::geglu>(gate, up, rule);
        case GatedUnit::Kind::relu_squared: return formats::gated<Unit::relu_squared>(gate, up, rule);
    }
    return 0;
}

/// The bytes of one row of values, or of its scales.
std::int64_t row_bytes(const Tensor& rows, int row_dimensions) {
    std::int64_t elements = 1;
    for (int i = row_dimensions; i < rows.shape.rank(); ++i) elements *= rows.shape[i];
    return (elements * bits(rows.format) + 7) / 8;
}

class Composition {
public:
    Composition(const Moe& layer, const std::vector<float>& addend)
        : layer_(layer), addend_(addend), shape_(moe_shape(layer)), rows_(moe_rows(layer)) {}

    std::vector<float> result() {
        prepare_groups();
        const OwnedOperand a = rows_of_x();
        const std::vector<float> gate_up = multiplied(a, layer_.up, layer_.up_bias, shape_.up_rows);
        const OwnedOperand h = activated(gate_up);
        return summed(multiplied(h, layer_.down, layer_.down_bias, shape_.hidden));
    }

private:
    QuantizeOptions options() const { return {.recipe = layer_.activations, .round_up = layer_.round_up}; }
    bool has_routing() const { return layer_.routing.experts.given(); }

    void prepare_groups() {
        groups_ = layer_.groups;
        if (!has_routing()) return;
        ends_.assign(static_cast<std::size_t>(shape_.experts), 0);
        for (const MoeRow& row : rows_) {
            for (std::int64_t expert = std::max<std::int64_t>(row.expert, 0);
                 row.expert >= 0 && expert < shape_.experts; ++expert) {
                ++ends_[static_cast<std::size_t>(expert)];
            }
        }
        groups_ = {.grouping = Grouping::m_grouped_offsets,
                   .sizes = row_major(static_cast<const void*>(ends_.data()), Format::i32, {shape_.experts})};
    }

    /// Numbers of existing rows, others zeros, quantized as one matrix.
    OwnedOperand quantized(const std::vector<float>& numbers, std::int64_t columns) const {
        return quantize(row_major(numbers.data(), Format::f32, shape_.matrix(columns)), options());
    }

    OwnedOperand rows_of_x() const {
        if (layer_.quantized.values.given()) return gathered(layer_.quantized);
        const bool weighted = layer_.weights_at == WeightsAt::input;
        if (has_routing() && !weighted) {
            const OwnedOperand codes = quantize(layer_.x, options());
            return gathered(codes);
        }
        const std::vector<float> x = numbers_of(layer_.x);
        std::vector<float> numbers(rows_.size() * static_cast<std::size_t>(shape_.hidden));
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            for (std::int64_t j = 0; j < shape_.hidden; ++j) {
                const float number = x[static_cast<std::size_t>(rows_[i].source * shape_.hidden + j)];
                const std::size_t at = i * static_cast<std::size_t>(shape_.hidden) + static_cast<std::size_t>(j);
                numbers[at] = weighted ? number * rows_[i].weight : number;
            }
        }
        return quantized(numbers, shape_.hidden);
    }

    /// Codes and scales of each row's source. Those of no expert are zeros of scale 1.
    OwnedOperand gathered(const Operand& codes) const {
        const std::vector<float> zeros(rows_.size() * static_cast<std::size_t>(shape_.hidden));
        OwnedOperand owner = quantized(zeros, shape_.hidden);  // not const, to be moved
        const Operand& made = owner.operand();
        copy_rows(codes.values, made.values);
        if (row_block(codes.granularity) == 1) {
            copy_rows(codes.scales, made.scales);
        } else if (codes.scales.given()) {
            copy_all(codes.scales, made.scales);
        }
        if (codes.tensor_scale.given()) copy_all(codes.tensor_scale, made.tensor_scale);
        return owner;
    }

    void copy_rows(const Tensor& from, const Tensor& to) const {
        const std::int64_t bytes = row_bytes(from, shape_.rows.rank());
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::int64_t>(i) * bytes,
                        static_cast<const std::byte*>(from.data) + rows_[i].source * bytes,
                        static_cast<std::size_t>(bytes));
        }
    }

    static void copy_all(const Tensor& from, const Tensor& to) {
        std::memcpy(to.data, from.data, static_cast<std::size_t>(row_major_bytes(from.format, from.shape)));
    }

    /// bf16(a b^T + bias) as f32.
    std::vector<float> multiplied(const Operand& a, const Operand& b, const Tensor& bias, std::int64_t columns) const {
        const Dims shape = shape_.matrix(columns);
        std::vector<std::byte> bytes(static_cast<std::size_t>(row_major_bytes(Format::bf16, shape)) + 1);
        const Tensor d = row_major(static_cast<void*>(bytes.data()), Format::bf16, shape);
        run({.a = a,
             .b = b,
             .d = d,
             .bias = bias,
             .groups = groups_,
             .accumulation = layer_.accumulation,
             .arithmetic = layer_.arithmetic,
             .reproducibility = layer_.reproducibility,
             .expected_m = shape_.rows.rank() == 2 ? layer_.expected_m : 0});
        return numbers_of(d);
    }

    OwnedOperand activated(const std::vector<float>& gate_up) const {
        const formats::GatedRule rule = rule_of(layer_.unit);
        const bool has_up = layer_.unit.kind != GatedUnit::Kind::relu_squared;
        const bool interleaved = has_up && layer_.unit.swiglu.interleaved;
        std::vector<float> h(rows_.size() * static_cast<std::size_t>(shape_.inner));
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].expert < 0) continue;
            const float* const row = gate_up.data() + i * static_cast<std::size_t>(shape_.up_rows);
            for (std::int64_t j = 0; j < shape_.inner; ++j) {
                const float gate = row[interleaved ? 2 * j : j];
                const float up = !has_up ? 0 : row[interleaved ? 2 * j + 1 : shape_.inner + j];
                float number = unit_of(layer_.unit, rule, gate, up);
                if (layer_.weights_at == WeightsAt::activation) number *= rows_[i].weight;
                h[i * static_cast<std::size_t>(shape_.inner) + static_cast<std::size_t>(j)] = number;
            }
        }
        return quantized(h, shape_.inner);
    }

    std::vector<float> summed(const std::vector<float>& y) const {
        std::vector<float> sums = addend_;
        sums.resize(static_cast<std::size_t>(shape_.sources * shape_.hidden));
        for (std::int64_t choice = 0; choice < shape_.choices; ++choice) {
            for (std::size_t i = 0; i < rows_.size(); ++i) {
                if (rows_[i].expert < 0 || rows_[i].choice != choice) continue;
                const float weight = layer_.weights_at == WeightsAt::combine ? rows_[i].weight : 1.0F;
                for (std::int64_t j = 0; j < shape_.hidden; ++j) {
                    float& sum = sums[static_cast<std::size_t>(rows_[i].source * shape_.hidden + j)];
                    sum = std::fma(weight, y[i * static_cast<std::size_t>(shape_.hidden) + static_cast<std::size_t>(j)],
                                   sum);
                }
            }
        }
        std::vector<std::byte> bytes(sums.size() * 4 + 1);
        const Tensor out =
            row_major(static_cast<void*>(bytes.data()), layer_.out.format, {shape_.sources, shape_.hidden});
        encode(row_major(sums.data(), Format::f32, out.shape), out);
        return numbers_of(out);
    }

    const Moe& layer_;
    const std::vector<float>& addend_;
    MoeShape shape_;
    std::vector<MoeRow> rows_;
    Groups groups_{};
    std::vector<std::int32_t> ends_;
};

bool same(float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }

}  // namespace

std::vector<float> composed(const Moe& layer, const std::vector<float>& addend) {
    return Composition(layer, addend).result();
}

std::string difference_from_parts(const MoeCase& test_case) {
    const std::vector<float> expected = composed(test_case.layer(), test_case.addend());
    const std::vector<float> out = numbers_of(test_case.layer().out);
    const std::vector<char> written = test_case.written_rows();
    const std::int64_t hidden = test_case.spec().hidden;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / hidden;
        if (written[static_cast<std::size_t>(row)] == 0 || same(out[i], expected[i])) continue;
        return fmt::format("row {}, column {}: {} instead of {}", row, static_cast<std::int64_t>(i) % hidden, out[i],
                           expected[i]);
    }
    return "";
}

}  // namespace tilewright::check
