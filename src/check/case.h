// A test case: a description becomes a Problem that owns its memory. Inputs follow a distribution and are encoded with
// scales that fit. docs/numerics.md lists distributions and poisons.
//
// Memory that a call must neither read nor write is 0xFF, which is NaN in every format except e2m1. This is memory
// between rows, rows of no group, and the bytes around an output.
#pragma once

#include "check/far_scales.h"
#include "check/memory.h"
#include "problem/geometry.h"

#include <tilewright/problem.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::check {

enum class Distribution : std::uint8_t {
    normal,
    abs_normal,       // |normal|
    uniform,          // [0, 1].
    normal_cubed,     // Heavy tails.
    log_normal,       // exp(normal).
    outliers,         // Normal, one in a hundred times 100.
    sparse,           // Three quarters zero, the rest normal.
    ones,             // Scales vary, values do not.
    exact_grid,       // Small integers, power-of-two scales: no arithmetic may round before the output.
    distinct_scales,  // Ones, and scales that are different powers of two from block to block: finds a wrong index.
};

/// The eight random ones, without the two that are exact.
const std::vector<Distribution>& random_distributions();
constexpr bool is_exact(Distribution d) { return d == Distribution::exact_grid || d == Distribution::distinct_scales; }
/// Products of one sign: truncation shows at its full size, nothing cancels.
constexpr bool is_non_negative(Distribution d) {
    return d == Distribution::abs_normal || d == Distribution::uniform || d == Distribution::log_normal ||
           d == Distribution::ones || d == Distribution::distinct_scales;
}
std::string_view name(Distribution distribution);

/// Elements of 0xFF after each element, each row and each group of a tensor. For values of e2m1 the numbers are even,
/// and no gap follows an element.
struct Gaps {
    std::int64_t element = 0;
    std::int64_t row = 0;
    std::int64_t group = 0;
};

struct CaseSpec {
    Grouping grouping = Grouping::dense;
    Recipe recipe{};
    Layout layout = Layout::nt;
    Format output = Format::bf16;

    std::int64_t m = 0;  // rows of D; masked and batched: of one group
    std::int64_t n = 0;
    std::int64_t k = 0;  // k-grouped: the sum over groups
    std::int64_t groups = 1;

    // Rows (k-grouped: k-elements) of each group. Empty: a split that follows from the seed. From three groups on it
    // has a group of none and a group of one. `size_entries`, if not empty, is the content of Groups::sizes, verbatim.
    std::vector<std::int64_t> group_sizes{};
    std::vector<std::int64_t> size_entries{};
    std::int64_t size_multiple = 1;  // of a seeded split; above 1 no group has size 1
    Format size_format = Format::i32;
    std::int64_t alignment = 128;  // k-grouped: rounded up to a whole block of scales
    std::int64_t index_alignment = 1;

    Distribution distribution = Distribution::normal;
    std::uint64_t seed = 1;
    bool with_c = false;
    bool in_place = false;  // with C: C is D
    bool with_bias = false;
    bool shared_bias = false;  // of groups of b: [n], not [g, n]
    Format bias_format = Format::bf16;
    float alpha = 1.0F;  // exact distributions: a power of two or a small integer
    Accumulation accumulation = Accumulation::promoted;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;

    Gaps a_gaps{};
    Gaps b_gaps{};
    Gaps a_scale_gaps{};
    Gaps b_scale_gaps{};
    Gaps c_gaps{};
    Gaps d_gaps{};
    Gaps bias_gaps{};                  // after an element and, between groups, a row
    bool a_scales_transposed = false;  // MN-major scales (blocks of one k are adjacent), which a GPU prefers
    bool b_scales_transposed = false;
    FarScales far_scales{};      // For MXFP4 weights.
    bool shared_scales = false;  // Per tensor: one scale for all groups; k-grouped per row: one for each row.
    bool guard_pages = false;    // Unreadable pages directly after each tensor's memory; for outputs also ahead of it.
};

/// One line that names every field that is not at its default, for failure messages.
std::string describe(const CaseSpec& spec);

/// Whether sizes and formats go together: e2m1 packs pairs, so its packed dimension and its gaps are even; explicit
/// sizes fit. Empty if so, the reason otherwise.
std::string impossible(const CaseSpec& spec);

class Case {
public:
    /// Throws std::invalid_argument with the text of `impossible`.
    explicit Case(const CaseSpec& spec);

    const CaseSpec& spec() const { return spec_; }
    const Problem& problem() const { return problem_; }
    /// To run the same data with other options; sizes and pointers are to stay.
    Problem& problem() { return problem_; }
    Geometry geometry() const { return tilewright::geometry(problem_); }
    /// The same, but with C's contents from before the run, also where D was written over it: the gates judge with
    /// this.
    Geometry judged_geometry() const;
    /// The result of group_gemms(geometry()): the rows that are computed.
    const std::vector<GroupGemm>& gemms() const { return gemms_; }

    /// D as it was before the first run: 0xFF everywhere, or C where C is D.
    void reset_output();
    /// All bytes from D's first element to its last, gaps included.
    std::vector<std::byte> output() const;
    void set_output(const std::vector<std::byte>& bytes);
    /// One element of D, and its bits.
    double output_at(std::int64_t group, std::int64_t row, std::int64_t column) const;
    std::uint32_t output_bits(std::int64_t group, std::int64_t row, std::int64_t column) const;

    /// Memory that was written but must not be: guard bands, gaps, rows of no group, inputs. Empty if none was.
    std::string damage() const;

private:
    struct Input {
        std::string name;
        Memory memory;
        std::uint64_t hash = 0;
    };

    Tensor place(const std::string& name, Tensor tensor);
    void place_operands();
    void place_operand(const std::string& name, Operand& operand, bool is_a);
    void place_sizes();
    void place_output();
    void fill_c();
    void fill_bias();
    std::string output_damage() const;
    std::string describe_offset(std::int64_t offset) const;

    CaseSpec spec_;
    std::vector<std::int64_t> entries_;
    Problem problem_;
    std::vector<GroupGemm> gemms_;
    std::vector<Input> inputs_;
    Memory output_;
    std::vector<std::byte> pristine_;  // all of output_, guard bands included
};

}  // namespace tilewright::check
