// Calls from Python: operands that remember their views, and a Problem from keyword arguments.
#pragma once

#include "array.h"

#include <tilewright/problem.h>
#include <tilewright/recipe.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::python {

/// Values with their scales, viewed once and kept: a quantised weight costs nothing to pass again.
struct PreparedOperand {
    PreparedOperand(nb::object values, std::string_view recipe, nb::object scales, nb::object tensor_scale);

    Operand operand{};
    OperandRecipe recipe{};
    ArrayView values{};
    ArrayView scales{};
    ArrayView tensor_scale{};
};

/// The keyword arguments of a multiplication, as Python gives them.
struct CallArguments {
    nb::object a{};  // PreparedOperand or a plain array
    nb::object b{};
    nb::object out{};                             // None: a new array
    std::optional<std::string_view> out_dtype{};  // bf16 for a new array, the array's own for `out`
    nb::object c{};
    float alpha = 1;
    std::string_view layout{};
    std::string_view grouping{};
    nb::object sizes{};
    std::string_view sizes_word{};  // the keyword that gave `sizes`, for messages
    std::int64_t alignment = 128;
    std::int64_t expected_m = 0;
    std::string_view accumulation{};
    std::string_view arithmetic{};
    std::string_view reproducibility{};
    std::string_view backend{};
    int sm_limit = 0;
};

/// A problem and what keeps its memory where it is.
struct Call {
    explicit Call(const CallArguments& arguments);
    /// Gives arrays back, which may run code of Python, also while an error is on its way.
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Problem problem{};
    Backend backend = Backend::automatic;
    nb::object result{};  // D as Python sees it; None where the call cannot make one
    std::vector<ArrayView> arrays{};

    /// Throws Error about `out` where there is no result to write to.
    void require_result() const;

    /// `found` in the words of the Python call, without complaints about a D that the call made itself.
    std::vector<Finding> in_callers_words(const std::vector<Finding>& found) const;

private:
    void make_result(const CallArguments& arguments);

    bool own_result_ = false;
    std::string sizes_word_;
};

/// Throws Error naming `operand` for an unknown word.
OperandRecipe operand_recipe(std::string_view text, const std::string& operand);
Format format_word(std::string_view text, const std::string& operand);

}  // namespace tilewright::python
