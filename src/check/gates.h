// The gates that a result must pass; docs/numerics.md says why these. All compare with the operands as they are,
// decoded; quantisation is not judged here.
//
//     1 exact grid      small integers, power-of-two scales: D is the float64 result, rounded once
//     2 emulation       D has the bits of the canonical order
//     3 running bound   each |D - exact| is within what the cuts of its own sum can have taken
//     4 aggregates      relL2 of rows, groups and the whole
//
// A geometry has the address of D; `Case` knows what C was if D was written over it.
#pragma once

#include "check/case.h"
#include "check/oracle.h"
#include "check/region.h"

#include <span>
#include <string>
#include <vector>

namespace tilewright::check {

enum class Gate : std::uint8_t { exact_grid, emulation, running_bound, aggregates, damage };
std::string_view name(Gate gate);

/// What a gate found. The worst is what comes closest to its bound, or farthest beyond.
struct GateReport {
    Gate gate = Gate::exact_grid;
    std::int64_t judged = 0;  // elements; aggregates: rows, groups and the whole
    std::int64_t failed = 0;
    std::string where{};  // "group 0, row 3, column 17"; aggregates: "group 0, row 3, columns 0..255", "the whole"
    double given = 0;     // of that element
    double expected = 0;
    double error = 0;  // aggregates: relL2
    double bound = 0;
    double ratio = 0;  // error / bound; gates 1 and 2: 1 if bits differ

    bool pass() const { return failed == 0; }
    /// "running bound: 27 of 16384 failed; worst group 0, row 3, column 17: got 1.25, exact 1.5, error ..."
    std::string text() const;
};

struct JudgeOptions {
    Arithmetic arithmetic = Arithmetic::bit_exact;  // which one D claims to be of
    Effort effort{};
    std::span<const std::int64_t> k_splits{};  // bit_exact: where a plan split k
    int threads = 0;
};

/// The given gates, in the given order; each element's expectation is computed once. Emulation without a canonical
/// order (f16, f32 operands; arithmetic `fast`) judges nothing.
std::vector<GateReport> run_gates(std::span<const Gate> gates, const Geometry& geometry, const JudgeOptions& options);
GateReport run_gate(Gate gate, const Geometry& geometry, const JudgeOptions& options);

/// Gate 2 for every element, whatever the size, by the vectorised CPU backend.
GateReport full_emulation_gate(const Geometry& geometry, std::span<const std::int64_t> k_splits = {}, int threads = 0);

struct Judgement {
    std::vector<GateReport> reports;

    bool pass() const;
    /// The report with the largest ratio among those that failed, or of gate 3 if all passed.
    const GateReport& worst() const;
    /// A line for each report.
    std::string text() const;
};

/// All gates that a case's data and arithmetic allow, and whether anything else was written. `k_splits` as in
/// JudgeOptions.
Judgement judge(const Case& test_case, const Effort& effort = {}, std::span<const std::int64_t> k_splits = {});

}  // namespace tilewright::check
