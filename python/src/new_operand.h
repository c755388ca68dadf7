// An operand in new arrays of the library that an input comes from.
#pragma once

#include "array.h"

#include <tilewright/quantize_tokens.h>

namespace tilewright::python {

/// Values and scales, and the arrays that hold them. Empty: not wanted.
struct NewOperand {
    NewOperand() = default;
    NewOperand(nb::handle like, const OperandRecipe& recipe, const Dims& shape, const Dims& scale_shape);

    /// An operand [features, columns], as quantize_tokens writes it. Scales of 1x128 have the features adjacent and
    /// columns that begin at multiples of 16 bytes: TMA loads them from this order.
    static NewOperand columns(nb::handle like, const OperandRecipe& recipe, const Dims& shape, const Dims& scale_shape);

    /// The array of the scales; None without.
    nb::object scale_array() const { return scales.source.is_valid() ? scales.source : nb::object(nb::none()); }
    /// (values, scales), or None.
    nb::object arrays() const;

    Operand operand{};
    ArrayView values{};
    ArrayView scales{};
};

}  // namespace tilewright::python
