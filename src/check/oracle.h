// The expected elements of a region: in float64, and in the canonical order of the bit_exact arithmetic. Also the bound
// on the difference of the two.
#pragma once

#include "check/region.h"
#include "problem/canonical_order.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tilewright::check {

struct OracleOptions {
    bool emulate = true;  // false: only `exact` and `magnitude`. The same where the recipe has no canonical order
    /// Where a plan splits k: ascending multiples of 128 from each GEMM's beginning.
    std::span<const std::int64_t> k_splits{};
    /// Planted mistakes, for the test of the tests:
    /// - the sum of chains is rounded to bf16 after each;
    /// - the scales of a chain multiply it one after the other;
    /// - the order is not the recipe's.
    bool round_sums = false;
    bool scales_in_turn = false;
    std::optional<CanonicalOrder> order{};
};

/// Arrays [rows, columns] of a region.
struct Expected {
    std::vector<double> exact{};      // D in float64, before it is rounded
    std::vector<double> magnitude{};  // sum of |alpha a b| over k; C is not in it
    bool emulated = false;
    std::vector<float> value{};   // the bit_exact arithmetic's D, before it is rounded to the output
    std::vector<double> bound{};  // how far `value` may be from `exact`: the running bound B of docs/numerics.md
};

Expected expected(const Geometry& geometry, const Region& region, const OracleOptions& options = {});

}  // namespace tilewright::check
