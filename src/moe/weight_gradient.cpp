// The gradient of the weights of choices on the CPU. The order of its sum is that of a warp: 32 lanes have eight
// features each in turn and add their products one by one. Then lanes that are 16, 8, 4, 2 and 1 apart add their sums.
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "formats/runner.h"
#include "moe/rows.h"
#include "moe/unit_rows.h"
#include "moe/unit_rule.h"

namespace tilewright::moe {
namespace {

constexpr std::int64_t lanes = 32, lane_features = 8;

struct Dot {
    std::vector<float> gate_up;
    std::vector<float> gradient;
    std::vector<float> h;
};

float dot(const std::vector<float>& h, const std::vector<float>& gradient) {
    std::array<float, lanes> sums{};
    for (std::int64_t i = 0; i < std::ssize(h); ++i) {
        float& sum = sums[static_cast<std::size_t>(i / lane_features % lanes)];
        sum = std::fma(h[static_cast<std::size_t>(i)], gradient[static_cast<std::size_t>(i)], sum);
    }
    for (std::size_t step = lanes / 2; step > 0; step /= 2) {
        for (std::size_t i = 0; i < step; ++i) sums[i] += sums[i + step];
    }
    // One NaN, as the kernel stores it.
    return std::isnan(sums[0]) ? std::bit_cast<float>(0x7FFF'FFFFU) : sums[0];
}

}  // namespace

void run_on_cpu(const WeightGradientStep& step, const ConversionOptions& how) {
    const Rows gate_up(step.gate_up), gradient(step.gradient), out(step.out);
    const RowNumbers places = RowNumbers::by_choice(step.places);
    const UnitFunction function = unit_function(unit_of(step.unit.kind));
    const formats::GatedRule rule = rule_of(step.unit);
    const std::int64_t inner = gradient.columns();
    formats::Runner runner({.rows = out.count(), .columns = gate_up.columns()}, how);
    runner.for_each<Dot>(out.count(), [&](std::int64_t token, Dot& numbers) {
        numbers.gate_up.resize(static_cast<std::size_t>(gate_up.columns()));
        numbers.gradient.resize(static_cast<std::size_t>(inner));
        numbers.h.resize(static_cast<std::size_t>(inner));
        for (std::int64_t choice = 0; choice < out.columns(); ++choice) {
            const std::int64_t row = places.integer(token, choice);
            float sum = 0;
            if (row >= 0 && row < gate_up.count()) {
                gate_up.load(row, numbers.gate_up.data());
                gradient.load(row, numbers.gradient.data());
                function(numbers.gate_up.data(), step.unit.swiglu.interleaved, rule, inner, numbers.h.data());
                sum = dot(numbers.h, numbers.gradient);
            }
            *reinterpret_cast<float*>(out.at(token, choice)) = sum;
        }
    });
}

}  // namespace tilewright::moe
