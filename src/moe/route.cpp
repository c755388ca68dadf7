// Routing on the CPU: a counting sort of the choices by expert.
#include <cstdint>
#include <vector>

#include "moe/rows.h"

namespace tilewright::moe {
namespace {

/// The local expert of each choice of a call; -1 where there is none.
class Choices {
public:
    Choices(const Routing& routing, std::int64_t first, std::int64_t experts)
        : chosen_(RowNumbers::by_choice(routing.experts)),
          first_(routing.map.given() ? 0 : first),
          map_(routing.map),
          experts_(experts),
          first_shared_(experts - routing.shared),
          tokens(routing.experts.shape[0]),
          per_token(chosen_.choices() + routing.shared) {}

    std::int64_t expert(std::int64_t token, std::int64_t choice) const {
        if (choice >= chosen_.choices()) return first_shared_ + choice - chosen_.choices();
        std::int64_t number = chosen_.integer(token, choice);
        if (map_.given()) {
            if (number < 0 || number >= map_.shape[0]) return -1;
            number = static_cast<const std::int32_t*>(map_.data)[number * map_.strides[0]];
        } else if (number >= 0) {
            number -= first_;
        }
        return number < 0 || number >= experts_ ? -1 : number;
    }

private:
    RowNumbers chosen_;
    std::int64_t first_;
    const Tensor& map_;
    std::int64_t experts_;
    std::int64_t first_shared_;

public:
    std::int64_t tokens;
    std::int64_t per_token;
};

void set(const Tensor& numbers, std::int64_t index, std::int64_t value) {
    static_cast<std::int32_t*>(numbers.data)[index] = static_cast<std::int32_t>(value);
}

}  // namespace

void run_on_cpu(const RouteStep& step) {
    const Choices choices(step.routing, step.first, step.experts);
    std::vector<std::int64_t> next(static_cast<std::size_t>(step.experts) + 1);  // counts, then the next row of each
    const auto for_each = [&](auto use) {
        for (std::int64_t token = 0; token < choices.tokens; ++token) {
            for (std::int64_t choice = 0; choice < choices.per_token; ++choice) {
                use(token, choice, choices.expert(token, choice));
            }
        }
    };
    for_each([&](std::int64_t, std::int64_t, std::int64_t expert) {
        if (expert >= 0) ++next[static_cast<std::size_t>(expert) + 1];
    });
    for (std::size_t expert = 1; expert < next.size(); ++expert) {
        next[expert] += next[expert - 1];
        if (step.out.ends.given()) set(step.out.ends, static_cast<std::int64_t>(expert) - 1, next[expert]);
    }
    const RowNumbers weights = RowNumbers::by_choice(step.routing.weights);
    for_each([&](std::int64_t token, std::int64_t choice, std::int64_t expert) {
        const std::int64_t index = token * choices.per_token + choice;
        const std::int64_t row = expert < 0 ? -1 : next[static_cast<std::size_t>(expert)]++;
        if (step.out.rows.given()) set(step.out.rows, index, row);
        if (row < 0) return;
        if (step.owners.given()) {
            const std::int64_t owner = token / step.owners.room,
                               own = index - owner * step.owners.room * choices.per_token;
            Tensor rows = step.owner_rows;
            rows.data = static_cast<std::byte*>(rows.data) + step.owners.shifts[owner];
            set(rows, own, row);
        }
        if (step.out.sources.given()) set(step.out.sources, row, index);
        if (!step.out.weights.given()) return;
        static_cast<float*>(step.out.weights.data)[row] = weights.factor(token, choice);
    });
}

}  // namespace tilewright::moe
