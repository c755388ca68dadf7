// The one way a call travels: validated, lowered to geometry, run by a backend.
#include <tilewright/run.h>

#include "cpu/backend.h"

namespace tilewright {
namespace {

std::string joined(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += (text.empty() ? "" : "\n") + finding.message();
    return text;
}

}  // namespace

Error::Error(std::vector<Finding> findings) : std::runtime_error(joined(findings)), findings_(std::move(findings)) {}

void run(const Problem& problem, const RunOptions& options) {
    std::vector<Finding> findings = validate(problem, options.backend);
    if (!findings.empty()) throw Error(std::move(findings));
    const Geometry g = geometry(problem);
    const bool hopper_bits =
        problem.arithmetic == Arithmetic::hopper || problem.reproducibility == Reproducibility::invariant;
    if (hopper_bits) {
        cpu::run_hopper(g, options.threads);
    } else {
        cpu::run_fast(g, options.threads);
    }
}

}  // namespace tilewright
