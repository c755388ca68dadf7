#include "plan/random_problems.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>

#include "check/user_sizes.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

/// The choices among a problem's options.
class Random {
public:
    std::int64_t below(std::int64_t end) { return numbers_.up_to(end - 1); }
    bool one_in(int count) { return below(count) == 0; }
    template <class List>
    auto pick(const List& list) {
        return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(list))))];
    }
    check::Random& numbers() { return numbers_; }

private:
    check::Random numbers_{632};
};

constexpr std::array groupings{Grouping::dense,
                               Grouping::dense,
                               Grouping::dense,
                               Grouping::batched,
                               Grouping::m_grouped_indices,
                               Grouping::m_grouped_offsets,
                               Grouping::m_grouped_aligned_offsets,
                               Grouping::m_grouped_masked};
constexpr std::array recipes{"1x128:128x128", "1x128:128x128", "1x128:1x128",       "row:row",
                             "tensor:tensor", "tensor:row",    "e5m2.row:e4m3.row", "1x128.ue8m0:128x128.ue8m0"};

/// As users have them, and now and then an n that no row of bf16 can have for TMA, or no k at all.
ProblemSizes random_sizes(Random& random) {
    ProblemSizes sizes;
    sizes.grouping = random.pick(groupings);
    sizes.recipe = parse_recipe(random.pick(recipes)).value();
    sizes.output = random.one_in(8) ? random.pick(std::array{Format::f16, Format::f32}) : Format::bf16;
    const check::UserSizes drawn = check::user_sizes(sizes.grouping, random.numbers());
    sizes.groups = drawn.groups;
    sizes.n = random.one_in(12) ? 1 + random.below(drawn.n) : drawn.n;
    sizes.k = random.one_in(40) ? 0 : drawn.k;
    sizes.m = drawn.m;
    if (sizes.grouping == Grouping::m_grouped_masked) {
        sizes.m = drawn.max_m;
        if (!random.one_in(3)) sizes.expected_m = std::max<std::int64_t>(1, drawn.m * 6 / 5);
    } else if (!drawn.group_sizes.empty()) {
        sizes.m = std::accumulate(drawn.group_sizes.begin(), drawn.group_sizes.end(), std::int64_t{0});
    }
    if (random.one_in(10)) sizes.sm_limit = static_cast<int>(1 + random.below(140));
    sizes.with_c = random.one_in(12);
    const bool block = k_block(sizes.recipe.a.granularity) != 0;
    if (!block && random.one_in(3)) sizes.accumulation = Accumulation::unpromoted;
    if (random.one_in(10)) sizes.reproducibility = Reproducibility::invariant;
    return sizes;
}

/// Scales of neighbouring rows or k-blocks next to each other, at a pitch that TMA can or cannot step by.
void reorder(Tensor& scales, Random& random) {
    const int rank = scales.shape.rank();
    if (rank < 2) return;
    const bool rows_first = random.one_in(2);
    const int fast = rows_first ? rank - 2 : rank - 1;
    const int slow = rows_first ? rank - 1 : rank - 2;
    const std::int64_t count = std::max<std::int64_t>(scales.shape[fast], 1);
    const std::int64_t pitch = random.one_in(6) ? count + random.below(3) : (count + 3) / 4 * 4;
    scales.strides[fast] = 1;
    scales.strides[slow] = pitch;
    if (rank == 3) scales.strides[0] = pitch * std::max<std::int64_t>(scales.shape[slow], 1);
}

void place(Problem& p, Random& random) {
    std::uintptr_t address = 0x100000000000;
    for (Tensor* tensor : {&p.a.values, &p.b.values, &p.a.scales, &p.b.scales, &p.d, &p.c, &p.groups.sizes}) {
        address += 0x10000000000;
        if (tensor->shape.rank() == 0) continue;
        tensor->data = std::bit_cast<void*>(address);
        tensor->device = {.kind = DeviceId::Kind::cuda, .index = 0};
    }
    const auto move = [](Tensor& tensor, std::uintptr_t bytes) {
        tensor.data = std::bit_cast<void*>(std::bit_cast<std::uintptr_t>(tensor.data) + bytes);
    };
    if (p.a.granularity == Granularity::block_1x128) reorder(p.a.scales, random);
    if (p.b.granularity == Granularity::block_1x128) reorder(p.b.scales, random);
    if (random.one_in(16)) move(p.a.scales, 4);
    if (random.one_in(16)) move(p.d, 4);
    if (random.one_in(8)) {  // D in rows of a wider matrix
        const int rank = p.d.shape.rank();
        const std::int64_t pitch = p.d.shape[rank - 1] + random.pick(std::array<std::int64_t, 3>{1, 4, 8});
        p.d.strides[rank - 2] = pitch;
        if (rank == 3) p.d.strides[0] = pitch * p.d.shape[1];
        if (p.c.given()) p.c.strides = p.d.strides;
    }
    if (random.one_in(12)) p.alpha = 2;
    if (random.one_in(2)) p.groups.alignment = random.pick(std::array<std::int64_t, 4>{1, 2, 8, 64});
}

}  // namespace

std::vector<Problem> random_problems(int count) {
    Random random;
    std::vector<Problem> list;
    while (static_cast<int>(list.size()) < count) {
        Problem problem = problem_of(random_sizes(random));
        place(problem, random);
        if (validate(problem, Backend::hopper).empty()) list.push_back(problem);
    }
    return list;
}

}  // namespace tilewright::planner
