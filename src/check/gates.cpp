// The gates, one class each; judge.cpp runs them over an output.
#include "check/gate_classes.h"

#include "check/limits.h"
#include "formats/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tilewright::check {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::uint32_t load_bits(const void* data, Format format, std::int64_t index) {
    const auto bytes = static_cast<std::size_t>(bits(format) / 8);
    std::uint32_t code = 0;
    std::memcpy(&code, static_cast<const std::byte*>(data) + static_cast<std::size_t>(index) * bytes, bytes);
    return code;
}

std::uint32_t rounded(Format output, double value) {
    return formats::encode(formats::fields(output), value, formats::Overflow::propagate);
}

std::int64_t d_index(const Geometry& g, const Region& region, std::int64_t i, std::int64_t j) {
    return output_index(g.d, region.gemm.group, region.gemm.row_begin + region.row + i, region.column + j);
}

/// Every element of a region, with its place in the arrays of `Expected`.
template <class Function>
void for_each(const Region& region, Function function) {
    for (std::int64_t i = 0; i < region.rows; ++i) {
        for (std::int64_t j = 0; j < region.columns; ++j) {
            function(i, j, static_cast<std::size_t>(i * region.columns + j));
        }
    }
}

std::string place(const Region& region, std::int64_t i, std::int64_t j) {
    return fmt::format("group {}, row {}, column {}", region.gemm.group, region.gemm.row_begin + region.row + i,
                       region.column + j);
}

}  // namespace

void GateBase::count(const Finding& finding) {
    ++report_.judged;
    if (finding.failed) ++report_.failed;
    if (report_.judged > 1 && !(finding.ratio > report_.ratio)) return;
    report_.given = finding.given;
    report_.expected = finding.expected;
    report_.error = finding.error;
    report_.bound = finding.bound;
    report_.ratio = finding.ratio;
    report_.where = finding.where();
}

void ExactGridGate::add(const Geometry& g, const Region& region, const Expected& expected) {
    const formats::Fields& fields = formats::fields(g.output);
    for_each(region, [&](std::int64_t i, std::int64_t j, std::size_t at) {
        const std::uint32_t want = rounded(g.output, expected.exact[at]);
        const std::uint32_t have = load_bits(g.d.data, g.output, d_index(g, region, i, j));
        const bool zeros = ((want | have) & fields.all_ones()) == 0;  // float64 does not define a zero's sign
        count_bits({.fields = fields,
                    .want = want,
                    .have = have,
                    .same = want == have || zeros,
                    .region = region,
                    .i = i,
                    .j = j});
    });
}

void EmulationGate::add(const Geometry& g, const Region& region, const Expected& expected) {
    if (!expected.emulated) return;
    const formats::Fields& fields = formats::fields(g.output);
    for_each(region, [&](std::int64_t i, std::int64_t j, std::size_t at) {
        const std::uint32_t want = rounded(g.output, expected.value[at]);
        const std::uint32_t have = load_bits(g.d.data, g.output, d_index(g, region, i, j));
        count_bits(
            {.fields = fields, .want = want, .have = have, .same = want == have, .region = region, .i = i, .j = j});
    });
}

void GateBase::count_bits(const BitFinding& finding) {
    const double have = formats::decode(finding.fields, finding.have);
    const double want = formats::decode(finding.fields, finding.want);
    count({.failed = !finding.same,
           .given = have,
           .expected = want,
           .error = std::fabs(have - want),
           .ratio = finding.same ? 0.0 : 1.0,
           .where = [&] { return place(finding.region, finding.i, finding.j); }});
}

void RunningBoundGate::add(const Geometry& g, const Region& region, const Expected& expected) {
    const bool emulated = arithmetic_ == Arithmetic::bit_exact && expected.emulated;
    for_each(region, [&](std::int64_t i, std::int64_t j, std::size_t at) {
        const double exact = expected.exact[at];
        const double given = formats::load(g.d.data, g.output, d_index(g, region, i, j));
        const double sum_bound =
            emulated ? expected.bound[at] : fast_bound(expected.magnitude[at], region.gemm.k_count);
        const double bound = output_bound(g.output, exact, sum_bound);
        const double error = given_error(g.output, given, exact, bound);
        const double ratio = error == 0 ? 0 : error / bound;
        count({.failed = !(error <= bound),
               .given = given,
               .expected = exact,
               .error = error,
               .bound = bound,
               .ratio = std::isnan(ratio) ? infinity : ratio,
               .where = [&] { return place(region, i, j); }});
    });
}

/// Any order of k fp32 multiplications and additions, with each factor scaled first or each sum scaled after, and two
/// products at the end. At most k + 7 roundings touch a product on its way (Higham, Accuracy and Stability, 4.2).
double RunningBoundGate::fast_bound(double magnitude, std::int64_t k) {
    if (k == 0) return 0;
    const double roundings = static_cast<double>(k + 7) * 0x1p-24;
    return roundings / (1 - roundings) * magnitude + static_cast<double>(k + 7) * 0x1p-149;
}

/// The error that rounding to the output adds; a narrow output is rounded to fp32 first.
double RunningBoundGate::output_bound(Format output, double exact, double sum_bound) {
    if (!std::isfinite(exact)) return 0;
    const double roundoff = unit_roundoff(output) + (output == Format::f32 ? 0 : 0x1p-24);
    return roundoff * (std::fabs(exact) + sum_bound) + sum_bound + smallest_number(output);
}

/// The distance that the bound is to limit; infinite where D and the exact value are not finite in the same way.
double RunningBoundGate::given_error(Format output, double given, double exact, double bound) {
    if (!std::isfinite(exact)) return std::isfinite(given) ? infinity : 0;
    if (std::isfinite(given)) return std::fabs(given - exact);
    // An infinity is right where a value within the bound rounds to it.
    const double largest = std::copysign(std::fabs(exact) + bound, exact);
    const bool overflows = std::isinf(formats::decode(formats::fields(output), rounded(output, largest)));
    return overflows && std::isinf(given) && std::signbit(given) == std::signbit(exact) ? 0 : infinity;
}

void AggregateGate::Score::add(Format output, double given, double exact, double magnitude_of_sum) {
    const double rounded_exact = formats::decode(formats::fields(output), rounded(output, exact));
    if (!std::isfinite(rounded_exact)) return;  // gate 3 judges these
    ++elements;
    const double error = given - exact;
    errors += std::isfinite(error) ? error * error : infinity;
    squares += exact * exact;
    roundings += (rounded_exact - exact) * (rounded_exact - exact);
    sizes += std::fabs(exact);
    magnitudes += magnitude_of_sum;
}

void AggregateGate::Score::add(const Score& other) {
    elements += other.elements;
    errors += other.errors;
    squares += other.squares;
    roundings += other.roundings;
    sizes += other.sizes;
    magnitudes += other.magnitudes;
    k = std::max(k, other.k);
}

double AggregateGate::Score::relative() const { return errors == 0 ? 0 : std::sqrt(errors / squares); }

void AggregateGate::add(const Geometry& g, const Region& region, const Expected& expected) {
    output_ = g.output;
    class_ = error_class({g.a.recipe, g.b.recipe}, g.accumulation, arithmetic_);
    for (std::int64_t i = 0; i < region.rows; ++i) {
        Score row{.k = region.gemm.k_count};
        for (std::int64_t j = 0; j < region.columns; ++j) {
            const auto at = static_cast<std::size_t>(i * region.columns + j);
            row.add(g.output, formats::load(g.d.data, g.output, d_index(g, region, i, j)), expected.exact[at],
                    expected.magnitude[at]);
        }
        groups_[region.gemm.group].add(row);
        if (region.columns < shortest_scored_row) continue;
        judge(row, true,
              [&] { return fmt::format("{}..{}", place(region, i, 0), region.column + region.columns - 1); });
    }
}

GateReport AggregateGate::report() {
    Score whole;
    for (const auto& [group, score] : groups_) {
        whole.add(score);
        if (groups_.size() > 1)
            judge(score, score.elements < full_score, [group = group] { return fmt::format("group {}", group); });
    }
    judge(whole, whole.elements < full_score, [] { return std::string("the whole"); });
    return GateBase::report();
}

void AggregateGate::judge(const Score& score, bool as_row, const std::function<std::string()>& where) {
    if (score.elements < shortest_scored_row) return;
    const bool same_sign = score.sizes >= score.magnitudes / 4;
    // Data of few different values may round in the same unlucky way everywhere.
    const double rounding = 1.3 * std::sqrt(score.squares == 0 ? 0 : score.roundings / score.squares);
    const double limit = std::max(relative_limit(limits(class_, score.k), output_, same_sign, as_row), rounding);
    if (std::isinf(limit)) return;
    const double relative = score.relative();
    count(
        {.failed = !(relative <= limit), .error = relative, .bound = limit, .ratio = relative / limit, .where = where});
}

}  // namespace tilewright::check
