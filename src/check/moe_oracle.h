// The result of a layer of experts in float64, and how far a result may be from it (docs/numerics.md, "Layers of
// experts"). The layer's roundings are modelled as ranges: a number between two ties has one rounding.
#pragma once

#include <tilewright/moe.h>

#include <cstdint>
#include <string>
#include <vector>

#include "check/moe_case.h"

namespace tilewright::check {

/// Arrays [rows of out, hidden]. Rows that are not written are zeros.
struct MoeExpected {
    std::vector<double> exact{};
    std::vector<double> bound{};  // ahead of the last rounding
};

/// For a layer of one chunk with finite numbers, in host memory. `addend`: its numbers, or empty.
MoeExpected expected(const Moe& layer, const std::vector<float>& addend);

/// The largest relL2 of a right result over all rows. It follows from the format of h, and from the relL2 that the
/// bounds of all elements have together. Where a sum of fp8 products is cut, h may be coded as its neighbour; those of
/// e5m2 are twice as far. Where the largest number of a block may be two, all of its codes may be others. Sums in
/// another order do that, so that it differs from CPU to CPU.
double moe_relative_limit(Format activations, double of_bounds);

struct MoeReport {
    std::int64_t judged = 0;
    std::int64_t failed = 0;
    std::string where{};  // of the element that is closest to its bound, or farthest beyond
    double error = 0;
    double bound = 0;
    double ratio = 0;
    double relative = 0;  // ||out - exact|| / ||exact||
    double relative_limit = 0;

    bool pass() const { return failed == 0 && relative <= relative_limit; }
    std::string text() const;
};

MoeReport judge(const MoeCase& test_case);

}  // namespace tilewright::check
