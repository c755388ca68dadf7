// The gradient of gate_up on the CPU.
#include <vector>

#include "formats/runner.h"
#include "moe/rows.h"
#include "moe/unit_rows.h"
#include "moe/unit_rule.h"

namespace tilewright::moe {
namespace {

struct Numbers {
    std::vector<float> gate_up;
    std::vector<float> gradient;
    std::vector<float> out;
};

}  // namespace

void run_on_cpu(const UnitGradientStep& step, const ConversionOptions& how) {
    const Rows gate_up(step.gate_up), gradient(step.gradient), out(step.out);
    const std::vector<char> exists = existing(step.existing, gate_up.count(), room_of(step.gate_up));
    const GradientFunction function = gradient_function(unit_of(step.unit.kind));
    const formats::GatedRule rule = rule_of(step.unit);
    const std::int64_t inner = gradient.columns();
    formats::Runner runner({.rows = gate_up.count(), .columns = gate_up.columns()}, how);
    runner.for_each<Numbers>(gate_up.count(), [&](std::int64_t row, Numbers& numbers) {
        if (exists[static_cast<std::size_t>(row)] == 0) return;
        numbers.gate_up.resize(static_cast<std::size_t>(gate_up.columns()));
        numbers.gradient.resize(static_cast<std::size_t>(inner));
        numbers.out.resize(numbers.gate_up.size());
        gate_up.load(row, numbers.gate_up.data());
        gradient.load(row, numbers.gradient.data());
        function(numbers.gate_up.data(), numbers.gradient.data(), step.unit.swiglu.interleaved, rule, inner,
                 numbers.out.data());
        out.store(numbers.out.data(), row);
    });
}

}  // namespace tilewright::moe
