// A product inside a call of several steps.
#pragma once

#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <string>
#include <utility>
#include <vector>

#include "api/call_memory.h"

namespace tilewright {

/// Names of a product's operands, as the caller knows them: {"d", "out"}.
using OperandNames = std::vector<std::pair<std::string, std::string>>;

struct Product {
    Problem problem{};
    Workspace workspace{};
};

/// Takes the memory that the product needs on a GPU.
Workspace workspace_of(const Problem& product, Arena& arena);

/// Findings with the caller's names: "d.strides" becomes "out.strides".
std::vector<Finding> renamed(std::vector<Finding> findings, const OperandNames& names);

/// Runs the product in its workspace. Findings have the caller's names.
void multiply(const Product& product, const OperandNames& names, RunOptions how);

/// The options of the steps between products.
ConversionOptions conversion(const RunOptions& how);

}  // namespace tilewright
