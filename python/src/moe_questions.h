// Questions about a layer of experts: its mistakes, and how a GPU would compute it.
#pragma once

#include "moe_call.h"

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace tilewright::python {

/// The device, its figures that were not measured, why no kernels serve the layer, and the steps if they do.
using ExplainedLayer = std::tuple<std::string, std::vector<std::string>, std::vector<Finding>, std::vector<MoeStep>>;

/// `steps`: the steps of the layer on a device, if kernels serve it. Throws Error with every mistake of the call.
ExplainedLayer explained_layer(const MoeCall& call, const CallOptions& options,
                               const std::function<std::vector<MoeStep>(const DeviceDescription&)>& steps);

void bind_moe_questions(nb::module_& m);

}  // namespace tilewright::python
