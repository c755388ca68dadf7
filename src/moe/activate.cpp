// The function between the products on the CPU.
#include <vector>

#include "formats/quantize_cpu.h"
#include "formats/recipe_of.h"
#include "formats/runner.h"
#include "moe/rows.h"
#include "moe/unit_rows.h"
#include "moe/unit_rule.h"

namespace tilewright::moe {
void run_on_cpu(const ActivateStep& step, const ConversionOptions& how) {
    const Rows gate_up(step.gate_up);
    const RowNumbers factors = RowNumbers::by_row(step.factors);
    const std::vector<char> exists = existing(step.existing, gate_up.count(), room_of(step.gate_up));
    const formats::GatedRule rule = rule_of(step.unit);
    const UnitFunction function = unit_function(unit_of(step.unit.kind));
    StagedRows staged(step.out.values.shape);
    const std::int64_t count = Rows(step.out.values).columns();
    formats::Runner runner({.rows = gate_up.count(), .columns = gate_up.columns()}, how);
    runner.for_each<std::vector<float>>(gate_up.count(), [&](std::int64_t row, std::vector<float>& numbers) {
        if (exists[static_cast<std::size_t>(row)] == 0) return;
        numbers.resize(static_cast<std::size_t>(gate_up.columns()));
        gate_up.load(row, numbers.data());
        float* const h = staged.row(row);
        function(numbers.data(), step.unit.swiglu.interleaved, rule, count, h);
        if (!factors.given()) return;
        const float factor = factors.factor(row);
        for (std::int64_t i = 0; i < count; ++i) h[i] *= factor;
    });
    formats::quantize_on_cpu(staged.tensor(), {.recipe = recipe_of(step.out), .round_up = step.round_up}, step.out,
                             how);
}

}  // namespace tilewright::moe
