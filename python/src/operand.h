// One operand of a multiplication: values with their scales.
#pragma once

#include "array.h"

#include <tilewright/problem.h>
#include <tilewright/recipe.h>

#include <string>
#include <vector>

namespace tilewright::python {

/// Values with their scales, viewed once and kept: a quantised weight costs nothing to pass again.
class PreparedOperand {
public:
    PreparedOperand(nb::handle values, nb::handle recipe, nb::handle scales, nb::handle tensor_scale);

    /// Packed weights: an array of bytes, and their first bytes where the array is on a GPU.
    PreparedOperand(nb::handle packed, nb::handle header);

    const Operand& operand() const { return operand_; }
    const std::string& header() const { return header_; }
    const OperandRecipe& recipe() const { return recipe_; }
    nb::object values() const { return values_.source; }
    nb::object scales() const { return scales_.source; }
    nb::object tensor_scale() const { return tensor_scale_.source; }

    /// Views the arrays again where one of them has moved. Throws Error about `prefix` + "values", ... where its
    /// storage was freed.
    void follow(const std::string& prefix);

private:
    void view_all(const std::string& prefix);
    void view_packed(const std::string& prefix);

    OperandRecipe recipe_{};
    ArrayView values_{};
    ArrayView scales_{};
    ArrayView tensor_scale_{};
    std::string header_{};  // of packed weights, whose bytes are the array of values
    Operand operand_{};
};

/// Null unless `argument` is a PreparedOperand. One that Python keeps (`Quantized`) follows its arrays; `prefix`: "a.",
/// for messages.
const PreparedOperand* prepared(nb::handle argument, const std::string& prefix);

/// The operand of a PreparedOperand, or of an array of values without scales, whose view is added to `arrays`.
Operand operand_of(nb::handle argument, const char* which, std::vector<ArrayView>& arrays);

/// The array of the values.
nb::object values_of(nb::handle argument);

/// Throws Error about `argument` if it is not a side of a recipe.
OperandRecipe operand_recipe(nb::handle value, const char* argument);

}  // namespace tilewright::python
