#include "moe_questions.h"

#include <tilewright/error.h>
#include <tilewright/plan.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <utility>

namespace tilewright::python {
namespace {

std::vector<Finding> check_layer(nb::handle x, nb::handle up, nb::handle down, const nb::dict& own_keywords,
                                 const nb::dict& group_keywords, const nb::dict& keywords) {
    try {
        const CallOptions options(keywords);
        const MoeCall call(x, up, down, MoeOptions(own_keywords), GroupOptions(group_keywords), options);
        return call.in_callers_words(validate(call.layer, options.backend, Check::contents));
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        return error.findings();
    }
}

/// Why no kernels serve a layer that is right by itself.
std::vector<Finding> unavailable_because(const MoeCall& call, const DeviceDescription& device) {
    try {
        explain(call.layer, device);
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        return call.in_callers_words(error.findings());
    }
    return {};
}

ExplainedLayer explain_layer(nb::handle x, nb::handle up, nb::handle down, const nb::dict& own_keywords,
                             const nb::dict& group_keywords, const nb::dict& keywords) {
    const CallOptions options(keywords);
    const MoeCall call(x, up, down, MoeOptions(own_keywords), GroupOptions(group_keywords), options);
    return explained_layer(call, options, [&](const DeviceDescription& device) { return explain(call.layer, device); });
}

}  // namespace

ExplainedLayer explained_layer(const MoeCall& call, const CallOptions& options,
                               const std::function<std::vector<MoeStep>(const DeviceDescription&)>& steps) {
    std::vector<Finding> found = call.in_callers_words(validate(call.layer, Backend::automatic));
    if (!found.empty()) throw Error(std::move(found));
    const DeviceDescription& device = options.device ? *options.device : default_device();
    found = unavailable_because(call, device);
    if (!found.empty()) return {device.name, device.assumed, std::move(found), {}};
    try {
        return {device.name, device.assumed, {}, steps(device)};
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        throw Error(call.in_callers_words(error.findings()));
    }
}

void bind_moe_questions(nb::module_& m) {
    nb::class_<MoeStep>(m, "MoeStep", "A kernel of a layer of experts; over ranks, a step of a round.")
        .def_ro("name", &MoeStep::name, "'route', 'permute', 'up', 'barrier', ...")
        .def_ro("what", &MoeStep::what, "The plan of a product; else what the step does.")
        .def_ro("seconds", &MoeStep::seconds, "Predicted.")
        .def_ro("bytes", &MoeStep::bytes, "Through HBM.")
        .def_ro("link_bytes", &MoeStep::link_bytes, "From other ranks.")
        .def_ro("exposed_seconds", &MoeStep::exposed_seconds, "The part of `seconds` that waits for other ranks.")
        .def_ro("launches", &MoeStep::launches, "Kernels and collectives; 0: the next step's kernel does it too.")
        .def("__repr__",
             [](const MoeStep& s) { return "<MoeStep " + s.name + ": " + std::to_string(s.seconds * 1e6) + " us>"; });
    const auto bind = [&m](const char* name, auto function, const char* text) {
        m.def(name, function, nb::arg("x").none(), nb::arg("up").none(), nb::arg("down").none(), nb::arg("layer"),
              nb::arg("groups"), nb::arg("options"), text);
    };
    bind("validate_moe", &check_layer, "All that is wrong with a layer of experts.");
    bind("explain_moe", &explain_layer,
         "The device, its figures that were not measured, why no kernels serve the layer, and its steps.");
}

}  // namespace tilewright::python
