#include "check/general_calls.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "check/random.h"
#include "problem/packed_problem.h"

namespace tilewright::check {
namespace {

struct KindOfCalls {
    const char* name;
    std::vector<const char*> recipes;
    std::vector<Grouping> groupings;
    Layout layout = Layout::nt;
    Accumulation accumulation = Accumulation::promoted;
};

const std::vector<KindOfCalls>& kinds_of_calls() {
    const std::vector<Grouping> dense{Grouping::dense, Grouping::dense, Grouping::batched};
    const std::vector<Grouping> rows{Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets,
                                     Grouping::m_grouped_masked};
    const std::vector<Grouping> aligned{Grouping::k_grouped_aligned_offsets};
    const std::vector<Grouping> anywhere{Grouping::k_grouped, Grouping::k_grouped_flat};
    const std::vector<const char*> row{"row:row", "tensor:tensor"}, blocks{"1x128:128x128"}, both{"1x128:1x128"};
    static const std::vector<KindOfCalls> list{
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

constexpr std::array all_needs{Need::alpha, Need::f16,        Need::f32,     Need::c,
                               Need::bias,  Need::f32_with_c, Need::odd_rows};

class DrawnCalls {
public:
    explicit DrawnCalls(std::uint64_t seed) : numbers_(seed) {}

    /// With one property that the kernels for one output do not serve.
    GeneralCall call(const KindOfCalls& kind) {
        GeneralCall call{.kind = kind.name};
        draw_sizes(kind, call);
        draw_need(call);
        return call;
    }

private:
    template <class List>
    auto pick(const List& list) {
        return list[static_cast<std::size_t>(numbers_.up_to(static_cast<std::int64_t>(std::size(list)) - 1))];
    }

    void draw_sizes(const KindOfCalls& kind, GeneralCall& call) {
        ProblemSizes& sizes = call.sizes;
        sizes = ProblemSizes{.grouping = pick(kind.groupings),
                             .recipe = parse_recipe(pick(kind.recipes)).value(),
                             .layout = kind.layout,
                             .accumulation = kind.accumulation};
        call.drawn = user_sizes(sizes.grouping, numbers_);
        const UserSizes& drawn = call.drawn;
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
    }

    void draw_need(GeneralCall& call) {
        ProblemSizes& sizes = call.sizes;
        Need& need = call.need;
        need = pick(all_needs);
        if (need == Need::bias && is_k_grouped(sizes.grouping)) need = Need::alpha;
        if (need == Need::f16) sizes.output = Format::f16;
        if (need == Need::f32 || need == Need::f32_with_c) sizes.output = Format::f32;
        sizes.with_c = need == Need::c || need == Need::f32_with_c;
        sizes.with_bias = need == Need::bias;
        const bool packed = sizes.recipe.b.values == Format::e2m1;
        Problem& problem = call.problem;
        problem = problem_of(sizes);
        if (packed && takes_packed_weights(problem)) problem = with_packed_shape(problem, 0);
        if (need == Need::alpha) problem.alpha = 2;
        if (need == Need::odd_rows) {
            const int rank = problem.d.shape.rank();
            problem.d.strides[rank - 2] = problem.d.shape[rank - 1] + 3;
            if (rank == 3) problem.d.strides[0] = problem.d.strides[1] * problem.d.shape[1];
        }
    }

    Random numbers_;
};

}  // namespace

std::string_view name(Need need) {
    switch (need) {
        case Need::alpha: return "alpha";
        case Need::f16: return "f16";
        case Need::f32: return "f32";
        case Need::c: return "c";
        case Need::bias: return "bias";
        case Need::f32_with_c: return "f32, c";
        case Need::odd_rows: return "odd rows";
    }
    return "?";
}

std::vector<GeneralCall> general_calls(int count, std::uint64_t seed) {
    std::vector<GeneralCall> list;
    for (const KindOfCalls& kind : kinds_of_calls()) {
        DrawnCalls drawn(seed);
        for (int found = 0; found < count;) {
            GeneralCall call = drawn.call(kind);
            if (!validate(call.problem, Backend::hopper, Check::shapes).empty()) continue;
            list.push_back(std::move(call));
            ++found;
        }
    }
    return list;
}

Losses losses(std::vector<double> each) {
    if (each.empty()) return {};
    std::ranges::sort(each);
    const std::size_t exceeding = each.size() / 100;
    return {.mean = std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size()),
            .of_99_in_100 = each[each.size() - 1 - exceeding],
            .worst = each.back()};
}

}  // namespace tilewright::check
