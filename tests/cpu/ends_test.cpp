// Sums at both ends of fp32, with the exponents shared between the two sides in several ways. D is finite and within
// its bound where docs/numerics.md ("Both ends of fp32") says so.
#include "check/case.h"
#include "check/limits.h"
#include "check/oracle.h"
#include "cpu/exact/exact.h"
#include "cpu/fast/cases.h"
#include "formats/element.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tilewright {
namespace {

using check::Case;
using check::CaseSpec;

/// Calls visit(index) for each element of a tensor.
void for_each_element(const Tensor& tensor, const std::function<void(std::int64_t)>& visit) {
    if (!tensor.given()) return;
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    for (std::int64_t i = 0; i < count; ++i) visit(i);  // a case without gaps is dense
}

/// Multiplies by 2^exponent. False where a number would be no normal one.
bool shift(const Tensor& tensor, int exponent) {
    bool fits = true;
    for_each_element(tensor, [&](std::int64_t i) {
        const double value = std::ldexp(formats::load(tensor.data, tensor.format, i), exponent);
        fits = fits && (value == 0 || std::isnormal(static_cast<float>(value)));
    });
    if (!fits) return false;
    for_each_element(tensor, [&](std::int64_t i) {
        const double value = std::ldexp(formats::load(tensor.data, tensor.format, i), exponent);
        formats::store(tensor.data, tensor.format, i, value);
    });
    return true;
}

/// What of a side has the range of fp32: the tensor's scale of NVFP4, other scales, values of bf16.
const Tensor* wide_range(const Operand& side) {
    if (side.tensor_scale.given()) return &side.tensor_scale;
    if (side.scales.given()) return &side.scales;
    return side.values.format == Format::bf16 ? &side.values : nullptr;
}

struct Range {
    double smallest = INFINITY;
    double largest = 0;
    bool normal() const { return largest == 0 || (smallest >= 0x1p-126 && largest < 0x1p127); }
};

Range range_of(const Operand& side) {
    Range range;
    const auto include = [&](double number) {
        range.smallest = std::min(range.smallest, std::fabs(number));
        range.largest = std::max(range.largest, std::fabs(number));
    };
    if (!side.scales.given()) return {1, 1};
    const double tensor = side.tensor_scale.given() ? formats::load(side.tensor_scale.data, Format::f32, 0) : 1;
    for_each_element(side.scales,
                     [&](std::int64_t i) { include(tensor * formats::load(side.scales.data, side.scales.format, i)); });
    return range;
}

/// The exponent by which the largest sum of magnitudes can grow and stay below 2^126, or, `top` false, by which the
/// smallest can shrink and stay above 2^-122.
int room(const std::vector<double>& magnitudes, bool top) {
    double smallest = INFINITY, largest = 0;
    for (const double magnitude : magnitudes) {
        smallest = std::min(smallest, magnitude);
        largest = std::max(largest, magnitude);
    }
    return top ? 125 - std::ilogb(largest) : -121 - std::ilogb(smallest);
}

check::Expected expected_of(const Case& c) {
    const check::Region all{.gemm = c.gemms()[0], .rows = c.spec().m, .columns = c.spec().n};
    return check::expected(c.judged_geometry(), all, {.emulate = false});
}

struct Outcome {
    int tried = 0;
    int skipped = 0;
    std::string failed{};
};

/// Empty if each error is at most the recipe's part of the sum of magnitudes. The running bound would not do: it lets
/// through what fp32's smallest number is at any place of the order.
std::string failure(const Case& c, const check::Expected& expected, Arithmetic arithmetic) {
    const CaseSpec& spec = c.spec();
    const double part = check::limits(check::error_class(spec.recipe, spec.accumulation, arithmetic), spec.k).magnitude;
    for (std::int64_t row = 0; row < spec.m; ++row) {
        for (std::int64_t column = 0; column < spec.n; ++column) {
            const auto at = static_cast<std::size_t>(row * spec.n + column);
            const double given = c.output_at(0, row, column), exact = expected.exact[at];
            if (std::fabs(given - exact) <= (part + 0x1p-23) * expected.magnitude[at]) continue;
            return fmt::format("row {}, column {}: got {}; expected {}", row, column, given, exact);
        }
    }
    return "";
}

/// Both arithmetics on the case as it is now.
void judge(Case& c, bool has_canonical_order, Outcome& outcome, const std::string& what) {
    const check::Expected expected = expected_of(c);
    for (const Arithmetic arithmetic : {Arithmetic::bit_exact, Arithmetic::fast}) {
        if (arithmetic == Arithmetic::bit_exact && !has_canonical_order) continue;
        c.reset_output();
        if (arithmetic == Arithmetic::bit_exact) {
            cpu::run_exact(c.geometry());
        } else {
            cpu::run_fast(c.geometry(), {});
        }
        const std::string found = failure(c, expected, arithmetic);
        ++outcome.tried;
        if (!found.empty() && outcome.failed.empty()) {
            outcome.failed = what + (arithmetic == Arithmetic::fast ? ", fast: " : ", bit_exact: ") + found;
        }
    }
}

/// Numbers of bf16 are multiplied in the tensor core without the other side's scales: their products are to fit too.
constexpr int farthest_bf16 = 90;

bool leaves_bf16(const Tensor* side, int exponent) {
    return side != nullptr && side->format == Format::bf16 && std::abs(exponent) > farthest_bf16;
}

Outcome run_at_ends(const Recipe& recipe, const check::FarScales& far_scales) {
    Outcome outcome;
    const bool has_canonical_order = canonical_order(recipe, Accumulation::promoted).has_value();
    for (const bool top : {true, false}) {
        for (const int of_a : {0, 3, -3, 60, -60, 90, -90, 110, -110, 118, -118}) {
            Case c({.recipe = recipe,
                    .output = Format::f32,
                    .m = 6,
                    .n = 9,
                    .k = 288,
                    .distribution = check::Distribution::abs_normal,
                    .seed = static_cast<std::uint64_t>(of_a + 200),
                    .far_scales = far_scales});
            const int all = room(expected_of(c).magnitude, top);
            const Tensor* const a = wide_range(c.problem().a);
            const Tensor* const b = wide_range(c.problem().b);
            if (a == nullptr && b == nullptr) return outcome;
            const int a_part = a == nullptr ? 0 : b == nullptr ? all : of_a;
            const bool apart = recipe.a.values != recipe.b.values;
            if (apart && (leaves_bf16(a, a_part) || leaves_bf16(b, all - a_part))) {
                ++outcome.skipped;
                continue;
            }
            if ((a != nullptr && !shift(*a, a_part)) || (b != nullptr && !shift(*b, all - a_part))) {
                ++outcome.skipped;
                continue;
            }
            const Range of_a_scales = range_of(c.problem().a), of_b_scales = range_of(c.problem().b);
            const Range products{of_a_scales.smallest * of_b_scales.smallest,
                                 of_a_scales.largest * of_b_scales.largest};
            if (!of_a_scales.normal() || !of_b_scales.normal() || !products.normal()) {
                ++outcome.skipped;
                continue;
            }
            judge(c, has_canonical_order, outcome,
                  name(recipe) + (top ? ", top, a by 2^" : ", bottom, a by 2^") + std::to_string(a_part));
        }
    }
    return outcome;
}

TEST(Ends, EveryRecipeIsFiniteAndWithinItsBound) {
    for (const Recipe& recipe : all_recipes()) {
        const Outcome outcome = run_at_ends(recipe, {});
        EXPECT_EQ(outcome.failed, "");
        RecordProperty(name(recipe), outcome.tried);
        if (wide_range(Case({.recipe = recipe, .m = 1, .n = 1, .k = 32}).problem().a) == nullptr) continue;
        EXPECT_GT(outcome.tried, 3) << name(recipe) << ": " << outcome.skipped << " skipped";
    }
}

/// Rows of MXFP4 whose scales are far apart have an order of their own.
TEST(Ends, WideRowsOfMxfp4) {
    for (const char* text :
         {"1x128:mxfp4", "row:mxfp4", "tensor:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4", "bf16:mxfp4", "nvfp4:mxfp4"}) {
        const Outcome outcome = run_at_ends(parse_recipe(text).value(), {.one_row_in = 2, .spread = 24});
        EXPECT_EQ(outcome.failed, "");
        EXPECT_GT(outcome.tried, 3) << text << ": " << outcome.skipped << " skipped";
    }
}

}  // namespace
}  // namespace tilewright
