#include "plans.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <tilewright/error.h>

#include <map>
#include <utility>

namespace tilewright::python {
namespace {

std::map<std::string, double> cost_terms(const Plan& plan) {
    const Cost& cost = plan.cost;
    return {{"launch", cost.launch},       {"memory", cost.memory},       {"compute", cost.compute},
            {"tensor", cost.tensor},       {"promotion", cost.promotion}, {"delivery", cost.delivery},
            {"epilogue", cost.epilogue},   {"waves", cost.waves},         {"overlap", cost.overlap},
            {"reduction", cost.reduction}, {"seconds", cost.seconds}};
}

/// The problem of 1x128 scales on both sides, as far as the order of its scales matters.
Problem problem_of_scales(const Tensor& a_scales, const Tensor& b_scales, const Tensor& d, const Tensor& c,
                          bool groups_anywhere) {
    constexpr void* no_memory = nullptr;
    Problem p;
    const auto describe = [](Operand& operand, const Tensor& scales) {
        const int rank = scales.shape.rank();
        Dims shape = scales.shape;
        shape[rank - 1] *= 128;
        operand.values = row_major(no_memory, Format::e4m3, shape);
        operand.granularity = Granularity::block_1x128;
        operand.scales = scales;
    };
    describe(p.a, a_scales);
    describe(p.b, b_scales);
    p.d = d;
    p.c = c;
    if (b_scales.shape.rank() == 3) p.groups.grouping = Grouping::batched;
    if (b_scales.shape.rank() == 3 && a_scales.shape.rank() == 2) p.groups.grouping = Grouping::m_grouped_offsets;
    if (!groups_anywhere && p.groups.grouping == Grouping::m_grouped_offsets) {
        p.groups.grouping = Grouping::m_grouped_aligned_offsets;
    }
    return p;
}

/// Which of them a copy with neighbouring rows side by side would let TMA load; see planner's `scales_to_copy`.
std::pair<bool, bool> copies_that_pay(nb::handle a_scales, nb::handle b_scales, nb::handle d, nb::handle c,
                                      bool groups_anywhere) {
    const ArrayView a = view(a_scales, {.operand = "a.scales"});
    const ArrayView b = view(b_scales, {.operand = "b.scales"});
    const ArrayView out = view(d, {.operand = "out"});
    const ArrayView addend = view(c, {.operand = "c"});
    const auto ranked = [](const ArrayView& v) { return v.tensor.shape.rank() == 2 || v.tensor.shape.rank() == 3; };
    if (!ranked(a) || !ranked(b) || !ranked(out)) return {false, false};
    const ScalesToCopy copies =
        scales_to_copy(problem_of_scales(a.tensor, b.tensor, out.tensor, addend.tensor, groups_anywhere));
    return {copies.a, copies.b};
}

}  // namespace

Explanation explain_call(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords,
                         nb::handle device) {
    const DeviceDescription& description = device_word(device);
    const CallOptions options(keywords);
    const Call call(a, b, GroupOptions(group_keywords), options);
    const std::vector<Finding> findings = call.in_callers_words(validate(call.problem, Backend::automatic));
    if (!findings.empty()) throw Error(findings);
    return explain(call.problem, description);
}

void bind_plans(nb::module_& m) {
    m.def("scales_to_copy", &copies_that_pay, nb::arg("a_scales"), nb::arg("b_scales"), nb::arg("d"),
          nb::arg("c").none(), nb::arg("groups_anywhere") = false,
          "Which scales of a 1x128 x 1x128 product to d TMA would load if copied with neighbouring rows side by side.");
    nb::class_<Plan>(m, "Plan", "How a GPU would compute a call.")
        .def_prop_ro(
            "tile", [](const Plan& p) { return name(p.tile); }, "'256x128x128 stages=4'.")
        .def_prop_ro(
            "variant", [](const Plan& p) { return name(p.variant); }, "Which of the tile's kernels: 'fast', ...")
        .def_prop_ro(
            "seconds", [](const Plan& p) { return p.cost.seconds; }, "Predicted.")
        .def_prop_ro("cost", &cost_terms, "Predicted seconds and their terms: memory, compute, launch, ...")
        .def_ro("tiles", &Plan::tiles, "Tiles of D, all groups together.")
        .def_ro("waves", &Plan::waves, "Tiles over the blocks that run at once.")
        .def_ro("grid", &Plan::grid, "Thread blocks; 0: nothing to launch.")
        .def_ro("threads", &Plan::threads, "Of a block.")
        .def_ro("shared_bytes", &Plan::shared_bytes, "Shared memory of a block.")
        .def("__repr__", [](const Plan& p) {
            return "<Plan " + name(p.tile) + ": " + std::to_string(p.cost.seconds * 1e6) + " us>";
        });
    nb::class_<RejectedTile>(m, "RejectedTile", "A tile that cannot be, and why.")
        .def_prop_ro(
            "tile", [](const RejectedTile& r) { return name(r.tile); }, "As Plan.tile.")
        .def_ro("rule", &RejectedTile::rule, "'shared memory', 'registers', ...")
        .def_ro("reason", &RejectedTile::reason, "With its numbers.");
    nb::class_<Explanation>(m, "Explanation", "Everything behind the choice of a plan.")
        .def_ro("unavailable", &Explanation::unavailable, "Why no kernel serves the call; all else is empty then.")
        .def_ro("chosen", &Explanation::chosen, "The plan.")
        .def_ro("next_best", &Explanation::next_best, "The fastest that differs in more than its stages.")
        .def_ro("legal", &Explanation::legal, "Every plan that could be, fastest first.")
        .def_ro("rejected", &Explanation::rejected, "What could not.");
}

}  // namespace tilewright::python
