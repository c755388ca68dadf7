// Runs gates over an output, and words what they found.
#include "check/gate_classes.h"
#include "cpu/exact/exact.h"
#include "formats/element.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace tilewright::check {
namespace {

constexpr std::int64_t worth_threads = 1 << 18;  // multiply-adds

std::unique_ptr<GateBase> make_gate(Gate gate, Arithmetic arithmetic) {
    switch (gate) {
        case Gate::exact_grid: return std::make_unique<ExactGridGate>();
        case Gate::emulation: return std::make_unique<EmulationGate>();
        case Gate::running_bound: return std::make_unique<RunningBoundGate>(arithmetic);
        case Gate::aggregates: return std::make_unique<AggregateGate>(arithmetic);
        case Gate::damage: break;
    }
    throw std::invalid_argument("damage is known to Case alone");
}

/// Memory from D's first element to its last, in bytes.
std::size_t extent_bytes(const Geometry& g, bool with_groups) {
    const std::int64_t last = (with_groups ? (g.groups - 1) * g.d.group_stride : 0) + (g.m - 1) * g.d.row_stride +
                              (g.n - 1) * g.d.column_stride;
    return static_cast<std::size_t>((last + 1) * bits(g.output) / 8);
}

}  // namespace

std::string_view name(Gate gate) {
    switch (gate) {
        case Gate::exact_grid: return "exact grid";
        case Gate::emulation: return "emulation";
        case Gate::running_bound: return "running bound";
        case Gate::aggregates: return "aggregates";
        case Gate::damage: return "memory";
    }
    return "unknown gate";
}

std::string GateReport::text() const {
    if (gate == Gate::damage) return fmt::format("memory: {}", failed == 0 ? "nothing else was written" : where);
    if (judged == 0) return fmt::format("{}: nothing to judge", name(gate));
    const std::string verdict =
        failed == 0 ? fmt::format("all {} pass", judged) : fmt::format("{} of {} FAILED", failed, judged);
    if (gate == Gate::aggregates) {
        return fmt::format("{}: {}; worst {}: relL2 {:.3g}, limit {:.3g}", name(gate), verdict, where, error, bound);
    }
    if (gate != Gate::running_bound) {
        if (failed == 0) return fmt::format("{}: {}", name(gate), verdict);
        return fmt::format("{}: {}; first {}: got {:.9g}; expected {:.9g}", name(gate), verdict, where, given,
                           expected);
    }
    return fmt::format("{}: {}; worst {}: got {:.9g}, exact {:.9g}, error {:.3g}, bound {:.3g}, ratio {:.3g}",
                       name(gate), verdict, where, given, expected, error, bound, ratio);
}

std::vector<GateReport> run_gates(std::span<const Gate> gates, const Geometry& geometry, const JudgeOptions& options) {
    std::vector<std::unique_ptr<GateBase>> running;
    running.reserve(gates.size());
    for (Gate gate : gates) running.push_back(make_gate(gate, options.arithmetic));
    const bool emulate = options.arithmetic == Arithmetic::bit_exact && std::ranges::any_of(gates, [](Gate gate) {
                             return gate == Gate::emulation || gate == Gate::running_bound;
                         });
    const OracleOptions oracle{.emulate = emulate, .k_splits = options.k_splits};
    const std::vector<Region> list = regions(geometry, options.effort);
    const auto count = static_cast<std::int64_t>(list.size());
    std::int64_t multiply_adds = 0;
    for (const Region& region : list) multiply_adds += region.rows * region.columns * region.gemm.k_count;
    const int wanted = options.threads > 0 ? options.threads : omp_get_max_threads();
    const int threads = multiply_adds < worth_threads ? 1 : wanted;
#pragma omp parallel for schedule(dynamic) num_threads(threads) ordered
    for (std::int64_t i = 0; i < count; ++i) {
        const Region& region = list[static_cast<std::size_t>(i)];
        const Expected values = expected(geometry, region, oracle);
#pragma omp ordered
        for (const auto& gate : running) gate->add(geometry, region, values);
    }
    std::vector<GateReport> reports;
    reports.reserve(running.size());
    for (const auto& gate : running) reports.push_back(gate->report());
    return reports;
}

GateReport run_gate(Gate gate, const Geometry& geometry, const JudgeOptions& options) {
    return run_gates(std::span(&gate, 1), geometry, options).front();
}

GateReport full_emulation_gate(const Geometry& geometry, std::span<const std::int64_t> k_splits, int threads) {
    GateReport report{.gate = Gate::emulation};
    if (geometry.m == 0 || geometry.n == 0 || geometry.groups == 0) return report;
    std::vector<std::byte> memory(extent_bytes(geometry, geometry.d.group_stride != 0));
    Geometry emulated = geometry;
    emulated.d.data = memory.data();
    cpu::run_exact(emulated, {.threads = threads, .k_splits = k_splits});

    EmulationGate gate;
    for (const GroupGemm& gemm : group_gemms(geometry)) {
        for (std::int64_t row = 0; row < gemm.rows; ++row) {
            const Region region{.gemm = gemm, .row = row, .rows = 1, .columns = geometry.n};
            Expected values{.emulated = true};
            for (std::int64_t j = 0; j < geometry.n; ++j) {
                const std::int64_t index = output_index(geometry.d, gemm.group, gemm.row_begin + row, j);
                values.value.push_back(static_cast<float>(formats::load(memory.data(), geometry.output, index)));
            }
            gate.add(geometry, region, values);
        }
    }
    return gate.report();
}

bool Judgement::pass() const { return std::ranges::all_of(reports, &GateReport::pass); }

const GateReport& Judgement::worst() const {
    const auto order = [](const GateReport& a, const GateReport& b) {
        if (a.pass() != b.pass()) return a.pass();
        if (!a.pass()) return a.ratio < b.ratio;
        return a.gate != Gate::running_bound && b.gate == Gate::running_bound;
    };
    return *std::ranges::max_element(reports, order);
}

std::string Judgement::text() const {
    std::string text;
    for (const GateReport& report : reports) text += (text.empty() ? "" : "\n") + report.text();
    return text;
}

Judgement judge(const Case& test_case, const Effort& effort, std::span<const std::int64_t> k_splits) {
    const Problem& problem = test_case.problem();
    const bool bit_exact =
        problem.arithmetic == Arithmetic::bit_exact || problem.reproducibility == Reproducibility::invariant;
    const JudgeOptions options{
        .arithmetic = bit_exact ? Arithmetic::bit_exact : Arithmetic::fast, .effort = effort, .k_splits = k_splits};
    std::vector<Gate> gates;
    if (is_exact(test_case.spec().distribution)) gates.push_back(Gate::exact_grid);
    if (bit_exact) gates.push_back(Gate::emulation);
    for (Gate gate : {Gate::running_bound, Gate::aggregates}) gates.push_back(gate);
    Judgement judgement{.reports = run_gates(gates, test_case.judged_geometry(), options)};

    GateReport damage{.gate = Gate::damage, .judged = 1, .where = test_case.damage()};
    damage.failed = damage.where.empty() ? 0 : 1;
    damage.ratio = static_cast<double>(damage.failed);
    judgement.reports.push_back(damage);
    return judgement;
}

}  // namespace tilewright::check
