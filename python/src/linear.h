// Forward and backward of a linear layer, for tilewright.torch.
#pragma once

#include "planned_device.h"

#include <nanobind/nanobind.h>
#include <tilewright/linear.h>

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::python {

/// The words of a layer's calls: its recipe and its options. The options are a digit each for invariant and overlap,
/// and the planned device (tilewright.torch._in_force).
struct LinearWords {
    LinearWords(std::string_view recipe, Format gradients, bool promoted, std::string_view in_force);

    LinearOptions options{};
    bool overlap = false;
    PlannedDevice planned{};
};

/// e4m3 or e5m2. Throws Error for any other word.
Format gradients_word(std::string_view word);

/// The library's names of arguments as the layers have them. `source`: of the tokens.
std::vector<Finding> in_layers_words(std::vector<Finding> findings, const std::string& source);

void bind_linear(nanobind::module_& m);

}  // namespace tilewright::python
