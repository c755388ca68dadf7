// The keywords of a layer of experts that are its own: routing, weights of rows, the unit, biases.
#pragma once

#include "arguments.h"

#include <tilewright/moe.h>

#include <optional>

namespace tilewright::python {

/// Objects are borrowed from the dictionary, which is read fastest in the order of the table in moe_options.cpp.
struct MoeOptions {
    /// Throws Error with a finding for every wrong value, and TypeError for an unknown keyword.
    explicit MoeOptions(const nb::dict& given);

    // Null: not given.
    nb::handle experts{};
    nb::handle weights{};
    nb::handle expert_map{};
    int shared = 0;
    nb::handle row_weights{};
    GatedUnit unit{};
    std::optional<OperandRecipe> activations{};  // not given: what follows from x and up
    bool round_up = false;
    WeightsAt weights_at = WeightsAt::combine;
    nb::handle up_bias{};
    nb::handle down_bias{};
    nb::handle addend{};
    std::int64_t chunk = Moe{}.chunk;
};

}  // namespace tilewright::python
