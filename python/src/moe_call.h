// A call of a layer of experts from Python: a Moe from arrays and keyword arguments, and its result as Python sees it.
#pragma once

#include "moe_options.h"
#include "operand.h"
#include "options.h"

#include <tilewright/error.h>
#include <tilewright/moe.h>

#include <string>
#include <vector>

namespace tilewright::python {

/// A layer and what keeps its memory where it is.
struct MoeCall {
    MoeCall(nb::handle x, nb::handle up, nb::handle down, const MoeOptions& own, const GroupOptions& groups,
            const CallOptions& options);
    /// Gives arrays back, which may run code of Python, also while an error is on its way.
    ~MoeCall();
    MoeCall(const MoeCall&) = delete;
    MoeCall& operator=(const MoeCall&) = delete;

    Moe layer{};
    nb::object result{};  // out as Python sees it; None where the call cannot make it
    ArrayView out{};

    /// Throws Error about `out` if the result has no array.
    void require_result() const;

    /// `found` in the words of the Python call, without complaints about an `out` that the call made itself.
    std::vector<Finding> in_callers_words(const std::vector<Finding>& found) const;

private:
    Tensor kept(nb::handle array, const ArrayRole& role);
    void take_input(nb::handle x, const MoeOptions& own);
    void make_result(nb::handle x, const CallOptions& options);

    std::vector<ArrayView> arrays_{};
    bool own_result_ = false;
    bool x_is_array_ = false;  // and not a Quantized, which has `values`
    bool up_is_array_ = false;
    bool down_is_array_ = false;
    std::string sizes_word_;
};

}  // namespace tilewright::python
