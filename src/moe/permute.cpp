// Rows for the first product on the CPU: quantized as `quantize` does, and by token if all copies of a token are alike.
#include <cstring>
#include <vector>

#include "formats/quantize_cpu.h"
#include "formats/recipe_of.h"
#include "moe/rows.h"

namespace tilewright::moe {
namespace {

/// use(row of x, choice, row of out) for each copy.
template <class Use>
void for_each_copy(const PermuteStep& step, Use use) {
    if (!step.places.given()) {
        const std::int64_t rows = Rows(step.out.values).count();
        const std::vector<char> exists = existing(step.existing, rows, room_of(step.out.values));
        for (std::int64_t row = 0; row < rows; ++row) {
            if (exists[static_cast<std::size_t>(row)] != 0) use(row, std::int64_t{0}, row);
        }
        return;
    }
    const RowNumbers places = RowNumbers::by_choice(step.places);
    const std::int64_t tokens = step.places.shape[0];
    const std::vector<char> exists = existing(step.existing, tokens, tokens);
    for (std::int64_t token = 0; token < tokens; ++token) {
        if (exists[static_cast<std::size_t>(token)] == 0) continue;
        for (std::int64_t choice = 0; choice < places.choices(); ++choice) {
            const std::int64_t row = places.integer(token, choice);
            if (row >= 0) use(token, choice, row);
        }
    }
}

void copy_scales(const Rows& from, std::int64_t row, const Rows& to, std::int64_t place) {
    for (std::int64_t i = 0; i < to.columns(); ++i) {
        std::memcpy(to.at(place, i), from.at(row, i), static_cast<std::size_t>(to.element_bytes()));
    }
}

/// Values and the scales of rows. Scales of a whole tensor are not copied.
void copy_codes(const PermuteStep& step, const Operand& from) {
    const Rows values(from.values, step.ranks), to(step.out.values);
    const auto bytes = static_cast<std::size_t>(to.row_bytes());
    if (row_block(from.granularity) != 1) {
        return for_each_copy(step, [&](std::int64_t row, std::int64_t, std::int64_t place) {
            std::memcpy(to.at(place), values.at(row), bytes);
        });
    }
    const Rows scales = Rows::of_scales(from.scales, from.values, step.ranks);
    const Rows scales_to = Rows::of_scales(step.out.scales, step.out.values);
    for_each_copy(step, [&](std::int64_t row, std::int64_t, std::int64_t place) {
        std::memcpy(to.at(place), values.at(row), bytes);
        copy_scales(scales, row, scales_to, place);
    });
}

/// Each copy of x times its factor, in f32. Rows that do not exist stay zeros.
void stage(const PermuteStep& step, StagedRows& staged) {
    const Rows x(step.x, step.ranks);
    const RowNumbers factors =
        step.places.given() ? RowNumbers::by_choice(step.factors) : RowNumbers::by_row(step.factors);
    for_each_copy(step, [&](std::int64_t row, std::int64_t choice, std::int64_t place) {
        float* const numbers = staged.row(place);
        x.load(row, numbers);
        if (!factors.given()) return;
        const float factor = step.places.given() ? factors.factor(row, choice) : factors.factor(row);
        for (std::int64_t i = 0; i < x.columns(); ++i) numbers[i] *= factor;
    });
}

}  // namespace

void run_on_cpu(const PermuteStep& step, const ConversionOptions& how) {
    if (step.quantized.values.given()) return copy_codes(step, step.quantized);
    const QuantizeOptions options{.recipe = recipe_of(step.out), .round_up = step.round_up};
    if (step.places.given() && !step.factors.given() && !step.ranks.given() && !step.existing.ends.given()) {
        const OwnedOperand codes = quantize(step.x, options, how);
        return copy_codes(step, codes);
    }
    StagedRows staged(step.out.values.shape);
    stage(step, staged);
    formats::quantize_on_cpu(staged.tensor(), options, step.out, how);
}

}  // namespace tilewright::moe
