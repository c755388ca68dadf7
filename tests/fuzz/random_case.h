// Draws calls: well-formed ones of every kind, ways to spoil them, and descriptions that mean nothing at all.
#pragma once

#include "check/case.h"
#include "fuzz/bytes.h"

#include <memory>
#include <string>
#include <vector>

namespace tilewright::fuzz {

/// Sizes 0 to 300, any grouping, layout, recipe, output, gaps, group sizes that may be garbage.
check::CaseSpec random_spec(Bytes& bytes);

/// A case whose strides and inputs were changed in ways that leave it well-formed: repeated rows, a column-major
/// output, more distance between group sizes, values (and scales) of any bits.
class RandomCase {
public:
    RandomCase(const check::CaseSpec& spec, Bytes& bytes);

    check::Case& test_case() { return *case_; }
    /// The bounds on the error hold: no scale is beyond reason. Otherwise only bits, memory and repetition are judged.
    bool is_bounded() const { return bounded_; }
    /// Exact data still is, where no value was replaced.
    bool is_exact() const { return !replaced_ && check::is_exact(case_->spec().distribution); }
    std::string describe() const { return check::describe(case_->spec()) + changes_; }

private:
    void repeat_inputs(Bytes& bytes);
    void turn_output();
    void spread_sizes(Bytes& bytes);
    void replace_bits(const std::string& name, Tensor& tensor, Bytes& bytes);
    void replace_operands(Bytes& bytes);

    std::unique_ptr<check::Case> case_;
    std::vector<check::Memory> memory_;
    std::string changes_;
    bool bounded_ = true;
    bool replaced_ = false;
};

/// Makes a well-formed problem malformed; says how.
std::string spoil(Problem& problem, Bytes& bytes);

/// Any shapes, strides, words and addresses; for `validate` alone.
Problem random_garbage(Bytes& bytes);

}  // namespace tilewright::fuzz
