// The sum of the rows of each token on the CPU.
#include <cmath>
#include <vector>

#include "formats/runner.h"
#include "moe/rows.h"

namespace tilewright::moe {
namespace {

struct Sums {
    std::vector<float> total;
    std::vector<float> row;
};

void add(const Rows& y, std::int64_t row, float weight, Sums& sums) {
    y.load(row, sums.row.data());
    for (std::size_t i = 0; i < sums.row.size(); ++i) sums.total[i] = std::fma(weight, sums.row[i], sums.total[i]);
}

bool has_row(const RowNumbers& places, std::int64_t token, std::int64_t rows) {
    for (std::int64_t choice = 0; choice < places.choices(); ++choice) {
        const std::int64_t row = places.integer(token, choice);
        if (row >= 0 && row < rows) return true;
    }
    return false;
}

}  // namespace

void run_on_cpu(const CombineStep& step, const ConversionOptions& how) {
    const Rows y(step.y, step.y_ranks), out(step.out, step.out_ranks);
    const bool gathers = step.places.given();
    const RowNumbers places = RowNumbers::by_choice(step.places);
    const RowNumbers weights = gathers ? RowNumbers::by_choice(step.weights) : RowNumbers::by_row(step.weights);
    const std::vector<char> exists =
        gathers ? std::vector<char>{} : existing(step.existing, out.count(), room_of(step.out));
    formats::Runner runner({.rows = out.count(), .columns = out.columns()}, how);
    runner.for_each<Sums>(out.count(), [&](std::int64_t token, Sums& sums) {
        if (!gathers && exists[static_cast<std::size_t>(token)] == 0) return;
        if (step.skips && !has_row(places, token, y.count())) return;
        sums.row.resize(static_cast<std::size_t>(out.columns()));
        sums.total.assign(sums.row.size(), 0.0F);
        if (step.addend.given()) Rows(step.addend).load(token, sums.total.data());
        if (!gathers) add(y, token, weights.factor(token), sums);
        for (std::int64_t choice = 0; choice < places.choices(); ++choice) {
            const std::int64_t row = places.integer(token, choice);
            if (row >= 0 && row < y.count()) add(y, row, weights.factor(token, choice), sums);
        }
        out.store(sums.total.data(), token);
    });
}

}  // namespace tilewright::moe
