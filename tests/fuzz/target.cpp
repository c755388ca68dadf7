#include "fuzz/target.h"

#include "check/gates.h"
#include "cpu/reference.h"
#include "fuzz/random_case.h"
#include "plan/choose.h"

#include <tilewright/error.h>
#include <tilewright/run.h>

#include <fmt/format.h>

#include <cmath>

namespace tilewright::fuzz {
namespace {

// Large results are judged in part: corners of every GEMM and a few tiles.
constexpr check::Effort effort{.elements = 8192, .multiply_adds = std::int64_t{1} << 20, .tiles = 4};

std::string messages(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += finding.message() + "\n";
    return text;
}

bool has_canonical_order(const Problem& p) {
    const auto wide = [](Format format) { return format == Format::f16 || format == Format::f32; };
    return !wide(p.a.values.format) && !wide(p.b.values.format);
}

/// The gates' float64 against the definition of every operation, element by element.
std::string compare_with_reference(const Geometry& g) {
    std::int64_t left = 64;
    for (const check::Region& region : check::regions(g, effort)) {
        const check::Expected expected = check::expected(g, region, {.emulate = false});
        for (std::int64_t at = 0; at < region.rows * region.columns && left > 0; ++at, --left) {
            const std::int64_t row = region.row + at / region.columns;
            const std::int64_t column = region.column + at % region.columns;
            const double reference = cpu::reference_element(g, region.gemm, row, column);
            const double exact = expected.exact[static_cast<std::size_t>(at)];
            const double slack = 1e-12 * (expected.magnitude[static_cast<std::size_t>(at)] + std::fabs(reference));
            const bool both_odd = !std::isfinite(reference) && !std::isfinite(exact);
            if (both_odd || std::fabs(reference - exact) <= slack) continue;
            return fmt::format("oracle and reference differ: group {}, row {}, column {}: {} and {}\n",
                               region.gemm.group, region.gemm.row_begin + row, column, exact, reference);
        }
    }
    return {};
}

std::vector<check::Gate> gates_for(const RandomCase& random, bool exact, bool bit_exact) {
    std::vector<check::Gate> gates;
    if (exact) gates.push_back(check::Gate::exact_grid);
    if (bit_exact) gates.push_back(check::Gate::emulation);
    if (random.is_bounded()) gates.push_back(check::Gate::running_bound);
    return gates;
}

std::string run_and_judge(RandomCase& random, Arithmetic arithmetic, int threads) {
    check::Case& c = random.test_case();
    Problem& p = c.problem();
    p.arithmetic = arithmetic;
    const bool bit_exact = arithmetic == Arithmetic::bit_exact || p.reproducibility == Reproducibility::invariant;
    std::string failure;
    std::vector<std::byte> first;
    for (int repetition = 0; repetition < 2; ++repetition) {
        c.reset_output();
        run(p, {.backend = Backend::cpu, .threads = threads, .device = &h200()});
        if (const std::string damage = c.damage(); !damage.empty()) failure += damage + "\n";
        if (repetition == 0) first = c.output();
    }
    if (c.output() != first) failure += "the same call gave other bits\n";

    const std::vector<check::Gate> gates = gates_for(random, random.is_exact(), bit_exact);
    const std::vector<std::int64_t> k_splits = planner::planned_k_splits(p, h200());
    const check::JudgeOptions options{.arithmetic = bit_exact ? Arithmetic::bit_exact : Arithmetic::fast,
                                      .effort = effort,
                                      .k_splits = k_splits,
                                      .threads = 1};
    for (const check::GateReport& report : check::run_gates(gates, c.judged_geometry(), options)) {
        if (!report.pass()) failure += report.text() + "\n";
    }
    if (!failure.empty()) failure = fmt::format("arithmetic {}, {} threads: {}", name(arithmetic), threads, failure);
    return failure;
}

std::string run_well_formed(RandomCase& random, int threads) {
    const Problem& p = random.test_case().problem();
    if (const std::string found = messages(validate(p)); !found.empty()) return "a well-formed call: " + found;
    std::string failure = compare_with_reference(random.test_case().judged_geometry());
    failure += run_and_judge(random, Arithmetic::fast, threads);
    if (has_canonical_order(p)) failure += run_and_judge(random, Arithmetic::bit_exact, threads);
    return failure;
}

std::string run_malformed(RandomCase& random, const Problem& malformed) {
    const std::vector<Finding> findings = validate(malformed);
    if (findings.empty()) return "no finding";
    const std::vector<std::byte> before = random.test_case().output();
    try {
        run(malformed);
        return "run accepted what validate does not: " + messages(findings);
    } catch (const Error& error) {
        if (error.findings().size() != findings.size()) return "run and validate differ: " + messages(findings);
    }
    const std::string damage = random.test_case().damage();
    if (!damage.empty() || random.test_case().output() != before) return "something was written: " + damage;
    return {};
}

Outcome fuzz_garbage(Bytes& bytes) {
    const Problem p = random_garbage(bytes);
    for (Backend backend : {Backend::automatic, Backend::cpu, Backend::hopper}) {
        for (const Finding& finding : validate(p, backend)) {
            if (finding.message().empty()) return {.kind = Kind::garbage, .call = "noise", .failure = "no message"};
        }
        validate(p, backend, Check::shapes);
    }
    if (workspace_bytes(p) < 0) return {.kind = Kind::garbage, .call = "noise", .failure = "a workspace below zero"};
    return {.kind = Kind::garbage, .call = "noise", .failure = {}};
}

}  // namespace

Outcome fuzz(std::span<const std::uint8_t> data) {
    Bytes bytes(data);
    const std::int64_t kind = bytes.up_to(7);
    if (kind == 0) return fuzz_garbage(bytes);
    const int threads = static_cast<int>(bytes.between(1, 3));
    const check::CaseSpec spec = random_spec(bytes);
    if (const std::string reason = check::impossible(spec); !reason.empty()) {
        return {.kind = Kind::well_formed, .call = check::describe(spec), .failure = "the generator: " + reason};
    }
    RandomCase random(spec, bytes);
    try {
        if (kind > 2) {
            return {.kind = Kind::well_formed, .call = random.describe(), .failure = run_well_formed(random, threads)};
        }
        Problem malformed = random.test_case().problem();
        const std::string how = spoil(malformed, bytes);
        return {.kind = Kind::malformed,
                .call = random.describe() + ", spoiled: " + how,
                .failure = run_malformed(random, malformed)};
    } catch (const std::exception& error) {
        return {.kind = Kind::well_formed,
                .call = random.describe(),
                .failure = std::string("unexpected exception: ") + error.what()};
    }
}

}  // namespace tilewright::fuzz
