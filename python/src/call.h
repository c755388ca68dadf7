// A call from Python: a Problem from operands and keyword arguments, and D as Python sees it.
#pragma once

#include "operand.h"
#include "options.h"

#include <tilewright/error.h>
#include <tilewright/problem.h>

#include <string>
#include <vector>

namespace tilewright::python {

/// A problem and what keeps its memory where it is.
struct Call {
    Call(nb::handle a, nb::handle b, const GroupOptions& groups, const CallOptions& options);
    /// Gives arrays back, which may run code of Python, also while an error is on its way.
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Problem problem{};
    Backend backend = Backend::automatic;
    nb::object result{};  // D as Python sees it; None where the call cannot make it
    std::vector<ArrayView> arrays{};

    /// Throws Error about `out` if the result has no array.
    void require_result() const;

    /// `found` in the words of the Python call, without complaints about a D that the call made itself.
    std::vector<Finding> in_callers_words(const std::vector<Finding>& found) const;

private:
    void make_result(nb::handle a, const CallOptions& options);

    bool own_result_ = false;
    bool a_is_array_ = false;  // and not a Quantized, which has `values`
    bool b_is_array_ = false;
    std::string sizes_word_;
};

}  // namespace tilewright::python
