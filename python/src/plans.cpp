#include "plans.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <map>

namespace tilewright::python {
namespace {

std::map<std::string, double> cost_terms(const Plan& plan) {
    const Cost& cost = plan.cost;
    return {{"preparation", cost.preparation}, {"launch", cost.launch},       {"memory", cost.memory},
            {"compute", cost.compute},         {"tensor", cost.tensor},       {"promotion", cost.promotion},
            {"delivery", cost.delivery},       {"epilogue", cost.epilogue},   {"waves", cost.waves},
            {"overlap", cost.overlap},         {"reduction", cost.reduction}, {"seconds", cost.seconds}};
}

std::map<std::string, std::string> path_words(const Plan& plan) {
    const KernelPath& path = plan.path;
    return {{"feed", path.feed}, {"loop", path.loop}, {"scales", path.scales}, {"output", path.output}};
}

/// Calls a function of tilewright._explanation, which turns an Explanation into text.
nb::object in_words(const char* function, nb::handle explanation) {
    return nb::module_::import_("tilewright._explanation").attr(function)(explanation);
}

}  // namespace

Explanation explain_call(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords) {
    const CallOptions options(keywords);
    const Call call(a, b, GroupOptions(group_keywords), options);
    const std::vector<Finding> findings = call.in_callers_words(validate(call.problem, Backend::automatic));
    if (!findings.empty()) throw Error(findings);
    return explain(call.problem, options.device ? *options.device : default_device());
}

std::pair<bool, bool> scales_to_copy_of(nb::handle a, nb::handle b, const nb::dict& group_keywords,
                                        const nb::dict& keywords) {
    try {
        const Call call(a, b, GroupOptions(group_keywords), CallOptions(keywords));
        if (!validate(call.problem, Backend::automatic).empty()) return {false, false};
        const ScalesToCopy copies = scales_to_copy(call.problem);
        return {copies.a, copies.b};
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        return {false, false};
    }
}

void bind_plans(nb::module_& m) {
    nb::class_<Plan>(m, "Plan", "How a GPU would compute a call.")
        .def_ro("tile", &Plan::tile, "'256x128x128 stages=4'.")
        .def_ro("variant", &Plan::variant, "Which of the tile's kernels: 'fast', ...")
        .def_prop_ro(
            "seconds", [](const Plan& p) { return p.cost.seconds; }, "Predicted.")
        .def_prop_ro("cost", &cost_terms, "Predicted seconds and their terms: memory, compute, launch, ...")
        .def_prop_ro("path", &path_words, "How operands, scales and D travel: 'feed', 'loop', 'scales', 'output'.")
        .def_ro("tiles", &Plan::tiles, "Tiles of D, all groups together.")
        .def_ro("waves", &Plan::waves, "Tiles over the blocks that run at once.")
        .def_ro("grid", &Plan::grid, "Thread blocks; 0: nothing to launch.")
        .def_ro("threads", &Plan::threads, "Of a block.")
        .def_ro("shared_bytes", &Plan::shared_bytes, "Shared memory of a block.")
        .def("__repr__",
             [](const Plan& p) { return "<Plan " + p.tile + ": " + std::to_string(p.cost.seconds * 1e6) + " us>"; });
    nb::class_<WorkspaceStep>(m, "WorkspaceStep", "What a call writes into its workspace before the product.")
        .def_ro("operand", &WorkspaceStep::operand, "'a.values', ...")
        .def_ro("what", &WorkspaceStep::what, "'copied along k', ...")
        .def_ro("why", &WorkspaceStep::why, "The reason, in words.")
        .def_ro("bytes", &WorkspaceStep::bytes, "In the workspace.")
        .def("__repr__", [](const WorkspaceStep& s) { return "<WorkspaceStep " + s.operand + " " + s.what + ">"; });
    nb::class_<RejectedTile>(m, "RejectedTile", "A tile that cannot be, and why.")
        .def_ro("tile", &RejectedTile::tile, "As Plan.tile.")
        .def_ro("rule", &RejectedTile::rule, "'shared memory', 'registers', ...")
        .def_ro("reason", &RejectedTile::reason, "With its numbers.")
        .def("__repr__", [](const RejectedTile& r) { return "<RejectedTile " + r.tile + ": " + r.reason + ">"; });
    nb::class_<Explanation>(m, "Explanation", "Everything behind the choice of a plan.")
        .def_ro("device", &Explanation::device, "Name of the GPU that is planned for.")
        .def_ro("assumed", &Explanation::assumed, "The GPU's figures that were not measured.")
        .def_ro("unavailable", &Explanation::unavailable, "Why no kernel serves the call; all else is empty then.")
        .def_ro("first", &Explanation::first, "What is written into the workspace before the product.")
        .def_ro("chosen", &Explanation::chosen, "The plan.")
        .def_ro("next_best", &Explanation::next_best, "The fastest that differs in more than its stages.")
        .def_ro("legal", &Explanation::legal, "Every plan that could be, fastest first.")
        .def_ro("rejected", &Explanation::rejected, "What could not.")
        .def(
            "__str__", [](nb::handle explanation) { return nb::cast<std::string>(in_words("text", explanation)); },
            nb::sig("def __str__(self) -> str"))
        .def(
            "__repr__",
            [](nb::handle explanation) {
                return "<Explanation: " + nb::cast<std::string>(in_words("headline", explanation)) + ">";
            },
            nb::sig("def __repr__(self) -> str"))
        .def(
            "_repr_html_", [](nb::handle explanation) { return nb::cast<std::string>(in_words("html", explanation)); },
            nb::sig("def _repr_html_(self) -> str"), "A table, which notebooks show.");
}

}  // namespace tilewright::python
