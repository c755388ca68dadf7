#include "plan/general_calls.h"

#include <algorithm>

#include <array>
#include <numeric>

#include "check/user_sizes.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::planner {
namespace {

struct Kind {
    const char* name;
    std::vector<const char*> recipes;
    std::vector<Grouping> groupings;
    Layout layout = Layout::nt;
    Accumulation accumulation = Accumulation::promoted;
};

const std::vector<Kind>& kinds() {
    const std::vector<Grouping> dense{Grouping::dense, Grouping::dense, Grouping::batched};
    const std::vector<Grouping> rows{Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets,
                                     Grouping::m_grouped_masked};
    const std::vector<Grouping> aligned{Grouping::k_grouped_aligned_offsets};
    const std::vector<Grouping> anywhere{Grouping::k_grouped, Grouping::k_grouped_flat};
    const std::vector<const char*> row{"row:row", "tensor:tensor"}, blocks{"1x128:128x128"}, both{"1x128:1x128"};
    static const std::vector<Kind> list{
        {"row:row dense", row, dense},
        {"row:row groups", row, rows},
        {"row:row dense unpromoted", row, dense, Layout::nt, Accumulation::unpromoted},
        {"row:row groups unpromoted", row, rows, Layout::nt, Accumulation::unpromoted},
        {"1x128:128x128 dense", blocks, dense},
        {"1x128:128x128 groups", blocks, rows},
        {"1x128:1x128 dense", both, dense},
        {"1x128:1x128 groups", both, rows},
        {"row:row dense nn", row, dense, Layout::nn},
        {"row:row groups nn", row, rows, Layout::nn},
        {"row:row dense nn unpromoted", row, dense, Layout::nn, Accumulation::unpromoted},
        {"row:row groups nn unpromoted", row, rows, Layout::nn, Accumulation::unpromoted},
        {"1x128:128x128 dense nn", blocks, dense, Layout::nn},
        {"1x128:128x128 groups nn", blocks, rows, Layout::nn},
        {"row:row dense tt", row, dense, Layout::tt},
        {"1x128:128x128 dense tt", blocks, dense, Layout::tt},
        {"row:row groups of k", row, aligned},
        {"1x128:128x128 groups of k", blocks, aligned},
        {"1x128:e4m3 groups of k", {"1x128:e4m3"}, aligned},
        {"1x128:1x128 groups of k", both, aligned},
        {"row:row groups of k anywhere", row, anywhere},
        {"1x128:1x128 groups of k anywhere", both, anywhere},
        {"row:mxfp4 dense", {"row:mxfp4"}, {Grouping::dense}},
        {"row:mxfp4 groups", {"row:mxfp4"}, rows},
        {"1x128:mxfp4 dense", {"1x128:mxfp4"}, {Grouping::dense}},
        {"1x128:mxfp4 groups", {"1x128:mxfp4"}, rows},
        {"bf16:mxfp4 dense", {"bf16:mxfp4"}, {Grouping::dense}},
        {"bf16:mxfp4 groups", {"bf16:mxfp4"}, rows},
    };
    return list;
}

class Drawn {
public:
    explicit Drawn(std::uint64_t seed) : numbers_(seed) {}
    template <class List>
    auto pick(const List& list) {
        return list[static_cast<std::size_t>(numbers_.up_to(static_cast<std::int64_t>(std::size(list)) - 1))];
    }

    ProblemSizes sizes(const Kind& kind) {
        ProblemSizes sizes{.grouping = pick(kind.groupings),
                           .recipe = parse_recipe(pick(kind.recipes)).value(),
                           .layout = kind.layout,
                           .accumulation = kind.accumulation};
        const check::UserSizes drawn = check::user_sizes(sizes.grouping, numbers_);
        const std::int64_t all = std::accumulate(drawn.group_sizes.begin(), drawn.group_sizes.end(), std::int64_t{0});
        sizes.groups = drawn.groups;
        sizes.m = drawn.m;
        sizes.n = drawn.n;
        sizes.k = drawn.k;
        if (is_k_grouped(sizes.grouping)) {
            sizes.k = all;
        } else if (sizes.grouping == Grouping::m_grouped_masked) {
            sizes.m = drawn.max_m;
            if (numbers_.up_to(2) > 0) sizes.expected_m = std::max<std::int64_t>(1, drawn.m * 6 / 5);
        } else if (!drawn.group_sizes.empty()) {
            sizes.m = all;
        }
        return sizes;
    }

    /// With one property that the fast variants do not serve.
    Problem call(ProblemSizes sizes) {
        enum class Why { alpha, f16, f32, c, bias, f32_with_c, odd_rows };
        const bool packed = sizes.recipe.b.values == Format::e2m1;
        const Why why =
            pick(std::array{Why::alpha, Why::f16, Why::f32, Why::c, Why::bias, Why::f32_with_c, Why::odd_rows});
        if (why == Why::f16) sizes.output = Format::f16;
        if (why == Why::f32 || why == Why::f32_with_c) sizes.output = Format::f32;
        sizes.with_c = why == Why::c || why == Why::f32_with_c;
        sizes.with_bias = why == Why::bias && !is_k_grouped(sizes.grouping);
        Problem problem = problem_of(sizes);
        if (packed && takes_packed_weights(problem)) problem = with_packed_shape(problem, 0);
        if (why == Why::alpha || (why == Why::bias && !sizes.with_bias)) problem.alpha = 2;
        if (why == Why::odd_rows) {
            const int rank = problem.d.shape.rank();
            problem.d.strides[rank - 2] = problem.d.shape[rank - 1] + 3;
            if (rank == 3) problem.d.strides[0] = problem.d.strides[1] * problem.d.shape[1];
        }
        return problem;
    }

private:
    check::Random numbers_;
};

}  // namespace

std::vector<GeneralCall> general_calls(int count) {
    std::vector<GeneralCall> list;
    for (const Kind& kind : kinds()) {
        Drawn drawn(632);
        for (int found = 0; found < count;) {
            const Problem problem = drawn.call(drawn.sizes(kind));
            if (!validate(problem, Backend::hopper, Check::shapes).empty()) continue;
            list.push_back({kind.name, problem});
            ++found;
        }
    }
    return list;
}

}  // namespace tilewright::planner
