// Planted bugs: what a kernel with one mistake would return for a case.
#pragma once

#include "check/case.h"

#include <functional>
#include <string>
#include <vector>

namespace tilewright::check {

/// How a result comes about: the bit_exact arithmetic, or float64 rounded once (as right as `fast` can be).
enum class Source { bit_exact, float64 };

struct Mutation {
    std::string name;
    /// All bytes of D of a call like `spec` with the bug in it.
    std::function<std::vector<std::byte>(const CaseSpec& spec, Source source)> result;
};

/// D without a bug.
std::vector<std::byte> right_result(const CaseSpec& spec, Source source);

/// The eleven, in the order of docs/numerics.md. For a dense nt case with 1x128 : 128x128 scales (no promotion: for
/// row : row) of at least 64 rows and columns.
const std::vector<Mutation>& mutations();

/// By what a bug is caught. Mistakes of the order alone are as close to the exact result as right ones: bits tell them,
/// and nothing else does. Chains that end elsewhere cut other numbers, which the bound may notice or not.
enum class Seen { by_all, by_bits, by_bits_at_least };

/// A bug of a recipe that training uses, for an nt case of its recipe with 256 rows of A and 1,024 of k, or with three
/// groups of k, some 300 each, which end within a chain.
struct TrainingMutation {
    const char* recipe;
    Seen seen;
    Mutation mutation;
    Grouping grouping = Grouping::dense;
};
const std::vector<TrainingMutation>& training_mutations();

}  // namespace tilewright::check
