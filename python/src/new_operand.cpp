#include "new_operand.h"

namespace tilewright::python {
namespace {

ArrayView fresh(nb::handle like, const Dims& shape, Format format, const char* operand) {
    return view(new_array(like, shape, format, false), {.operand = operand, .writable = true, .format = format});
}

/// A new array [rows, columns] whose columns are contiguous and begin at multiples of four elements.
nb::object fresh_transposed(nb::handle like, const Dims& shape, Format format) {
    constexpr std::int64_t step = 4;
    const std::int64_t rows = shape[0], padded = (rows + step - 1) / step * step;
    const nb::object whole = new_array(like, {shape[1], padded}, format, false).attr("T");
    return padded == rows ? whole : nb::object(whole[nb::slice(nb::int_(0), nb::int_(rows), nb::int_(1))]);
}

Operand operand_in(const ArrayView& values, const ArrayView& scales, Granularity granularity) {
    return {.values = values.tensor, .granularity = granularity, .scales = scales.tensor, .tensor_scale = {}};
}

}  // namespace

NewOperand::NewOperand(nb::handle like, const OperandRecipe& recipe, const Dims& shape, const Dims& scale_shape)
    : values(fresh(like, shape, recipe.values, "values")) {
    if (recipe.granularity != Granularity::none) scales = fresh(like, scale_shape, recipe.scales, "scales");
    operand = operand_in(values, scales, recipe.granularity);
}

NewOperand NewOperand::columns(nb::handle like, const OperandRecipe& recipe, const Dims& shape,
                               const Dims& scale_shape) {
    if (recipe.granularity != Granularity::block_1x128) return {like, recipe, shape, scale_shape};
    NewOperand made;
    made.values = fresh(like, shape, recipe.values, "values");
    made.scales = view(fresh_transposed(like, scale_shape, recipe.scales),
                       {.operand = "scales", .writable = true, .format = recipe.scales});
    made.operand = operand_in(made.values, made.scales, recipe.granularity);
    return made;
}

nb::object NewOperand::arrays() const {
    if (!operand.values.given()) return nb::none();
    return nb::make_tuple(values.source, scale_array());
}

}  // namespace tilewright::python
