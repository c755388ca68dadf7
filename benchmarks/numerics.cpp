// How large the errors of right results are, recipe by recipe, over all distributions: the table of docs/numerics.md.
// Times nothing. Outputs of 8 x 256 in f32, k from 128 to 16384.
#include "check/case.h"
#include "check/limits.h"
#include "check/oracle.h"
#include "cpu/exact/exact.h"
#include "formats/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace {

using namespace tilewright;
using namespace tilewright::check;

/// The largest of some numbers, and where it was.
struct Worst {
    double value = 0;
    std::string where{};

    void include(double candidate, const CaseSpec& spec) {
        if (candidate <= value) return;
        value = candidate;
        where = fmt::format("{}, {}", name(spec.distribution), spec.k);
    }
    std::string text() const { return value == 0 ? "0" : fmt::format("{:.1e} ({})", value, where); }
};

struct Errors {
    Worst zero_mean;  // relL2
    Worst same_sign;
    Worst magnitude;  // |error| / sum of |a b|
};

void measure(const CaseSpec& spec, Errors& errors) {
    Case test_case(spec);
    cpu::run_exact(test_case.geometry());
    const Geometry g = test_case.geometry();
    const Expected right =
        expected(g, {.gemm = test_case.gemms().front(), .rows = spec.m, .columns = spec.n}, {.emulate = false});
    double squares = 0;
    double error_squares = 0;
    double sizes = 0;
    double magnitudes = 0;
    for (std::size_t i = 0; i < right.exact.size(); ++i) {
        const double error = formats::load(g.d.data, g.output, static_cast<std::int64_t>(i)) - right.exact[i];
        squares += right.exact[i] * right.exact[i];
        error_squares += error * error;
        sizes += std::fabs(right.exact[i]);
        magnitudes += right.magnitude[i];
        if (right.magnitude[i] > 0) errors.magnitude.include(std::fabs(error) / right.magnitude[i], spec);
    }
    (sizes >= magnitudes / 2 ? errors.same_sign : errors.zero_mean).include(std::sqrt(error_squares / squares), spec);
}

void print_row(const std::string& recipe, Accumulation accumulation) {
    Errors errors;
    for (std::int64_t k : {128, 512, 4096, 16384}) {
        for (Distribution distribution : random_distributions()) {
            measure({.recipe = *parse_recipe(recipe),
                     .output = Format::f32,
                     .m = 8,
                     .n = 256,
                     .k = k,
                     .distribution = distribution,
                     .seed = 7,
                     .accumulation = accumulation},
                    errors);
        }
    }
    const char* const note = accumulation == Accumulation::unpromoted ? ", not promoted" : "";
    fmt::print("| {}{} | {} | {} | {} |\n", recipe, note, errors.zero_mean.text(), errors.same_sign.text(),
               errors.magnitude.text());
}

}  // namespace

int main() {
    fmt::print(
        "| recipe | relL2, zero mean | relL2, same sign | error / sum of products' sizes |\n|---|---|---|---|\n");
    for (const char* recipe : {"tensor:tensor",
                               "row:row",
                               "1x128:128x128",
                               "128x128:128x128",
                               "1x128:row",
                               "1x128:tensor",
                               "tensor:e4m3",
                               "row:e4m3",
                               "1x128:e4m3",
                               "128x128:e4m3",
                               "1x128.ue8m0:1x128.ue8m0",
                               "e5m2.1x128:1x128",
                               "e5m2.1x128:e5m2.1x128",
                               "mxfp8:mxfp8",
                               "1x128:mxfp4",
                               "mxfp8:mxfp4",
                               "mxfp4:mxfp4",
                               "bf16:bf16",
                               "bf16:mxfp4",
                               "bf16:nvfp4",
                               "1x128:nvfp4",
                               "nvfp4:nvfp4"}) {
        print_row(recipe, Accumulation::promoted);
    }
    print_row("tensor:tensor", Accumulation::unpromoted);
    return 0;
}
