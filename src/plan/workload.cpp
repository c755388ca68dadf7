#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "plan/kernel_class.h"
#include "plan/tma.h"
#include "problem/axes.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

/// value / by, rounded up; 0 without groups to divide by.
std::int64_t divide_up(std::int64_t value, std::int64_t by) { return by == 0 ? 0 : ceil_div(value, by); }

/// Groups that begin aligned have half an alignment of padding each, in the mean. Padded or not, the same rows are
/// expected, and the same tile is chosen.
void divide_rows_evenly(const Geometry& g, Workload& work) {
    const std::int64_t alignment = group_alignment(g);
    const std::int64_t rows = g.m - work.products * (alignment - 1) / 2;
    work.rows = divide_up(rows, work.products);
    work.total_rows = static_cast<double>(rows);
    // Rows of no group are computed with their block; rows after an end are not.
    if (work.grouping == Grouping::m_grouped_indices) work.padding = static_cast<double>(alignment - 1) / 2;
}

void expect_sizes(const Geometry& g, Workload& work) {
    const bool one_matrix = groups_share_a_matrix(work.grouping), fewer = expects_fewer_rows(g);
    work.hinted = work.grouping == Grouping::m_grouped_masked && g.expected_m > 0;
    work.products = one_matrix ? std::min(g.groups, divide_up(g.m, group_alignment(g))) : g.groups;
    work.rows = fewer || work.hinted ? std::min(g.expected_m, g.m) : g.m;
    work.columns = g.n;
    work.k = is_k_grouped(work.grouping) ? divide_up(g.k, g.groups) : g.k;
    work.total_rows = static_cast<double>(work.products) * static_cast<double>(work.rows);
    if (one_matrix && !fewer && g.groups != 1) divide_rows_evenly(g, work);
}

/// A tuned row for FP8 weights has no meaning for the bits of expanded weights.
std::string key_of(const Geometry& g, const Workload& work) {
    const std::int64_t rows = expects_fewer_rows(g) ? g.expected_m * g.groups : g.m;
    std::string key = fmt::format("{} {} {} m={} n={} k={}", name(work.grouping), name(Recipe{g.a.recipe, g.b.recipe}),
                                  name(g.output), rows, g.n, g.k);
    if (work.grouping != Grouping::dense) key += fmt::format(" groups={}", g.groups);
    if (work.grouping == Grouping::m_grouped_masked && g.expected_m > 0)
        key += fmt::format(" expected_m={}", g.expected_m);
    const MnMajor order = mn_major(g);  // transposed views in layout nt are the other layouts
    if (order.a || order.b) key += fmt::format(" layout={}{}", order.a ? 't' : 'n', order.b ? 'n' : 't');
    if (g.b.packed.given) key += " packed";
    if (work.before.expand_b) key += " expanded";
    if (g.accumulation != Accumulation::promoted) key += fmt::format(" accumulation={}", name(g.accumulation));
    if (work.sm_limit > 0) key += fmt::format(" sms={}", work.sm_limit);
    return key;
}

hopper::Groups groups_of(Grouping grouping) {
    if (grouping == Grouping::k_grouped_aligned_offsets) return hopper::Groups::k_aligned;
    if (is_k_grouped(grouping)) return hopper::Groups::k_anywhere;
    const bool grouped = groups_share_a_matrix(grouping) || grouping == Grouping::m_grouped_masked;
    return grouped ? hopper::Groups::rows : hopper::Groups::none;
}

}  // namespace

Workload workload(const Problem& problem) { return workload(problem, gpu_call(problem)); }

Workload workload(const Problem& problem, const GpuCall& call) {
    const Geometry& g = call.product;
    Workload work;
    work.geometry = g;
    work.before = call.before;
    work.asked = hopper_call(call.geometry);
    work.grouping = problem.groups.grouping;
    work.reproducibility = problem.reproducibility;
    work.adds_c = problem.c.given();
    work.sm_limit = problem.sm_limit;
    expect_sizes(g, work);
    work.key = key_of(g, work);
    if (call.before.expand_b) {
        work.if_not_expanded = std::make_shared<const Workload>(workload(problem, without_expansion(call)));
    }
    return work;
}

hopper::Kernel shapeless_kernel(const Workload& work) {
    const Geometry& g = work.geometry;
    hopper::Kernel kernel = kernel_class(work.asked.recipe, g.accumulation, g.a.recipe.values, g.b.recipe.values);
    // The tile's candidates swap the operands or not.
    if (g.b.packed.given) kernel = with_packed_weights(kernel);
    kernel.swap_ab = false;
    const MnMajor order = mn_major(g);
    if (order.a) kernel.a.form = hopper::Form::columns;
    if (order.b) kernel.b.form = hopper::Form::columns;
    kernel.groups = groups_of(work.grouping);
    return kernel;
}

}  // namespace tilewright::planner
