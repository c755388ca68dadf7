// Options of a call: keyword arguments of Python, read from the dictionaries that hold them.
#pragma once

#include "arguments.h"
#include "planned_device.h"

#include <tilewright/problem.h>

#include <optional>
#include <string>

namespace tilewright::python {

/// The keywords that all multiplications take. `tilewright._multiply` documents the defaults. Objects are borrowed from
/// the dictionary, which is read fastest in the order of the table in options.cpp.
struct CallOptions {
    /// Throws Error with a finding for every wrong value, and TypeError for an unknown keyword.
    explicit CallOptions(const nb::dict& given);

    Layout layout = Layout::nt;
    nb::handle out{};                   // null: a new array
    std::optional<Format> out_dtype{};  // bf16 for a new array, the array's own for `out`
    nb::handle c{};                     // null: nothing is added
    nb::handle bias{};                  // null: none
    float alpha = 1;
    Accumulation accumulation = Accumulation::promoted;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;
    Backend backend = Backend::automatic;
    int threads = 0;
    int sm_limit = 0;
    nb::handle stream{};  // null: the current one
    bool overlap = false;
    nb::handle workspace{};  // null: from the arrays' library, where one is needed
    PlannedDevice device{};  // whose bits: RunOptions::device
};

/// Which rows, or which stretch of k, belong to which group.
struct GroupOptions {
    explicit GroupOptions(const nb::dict& given);

    Grouping grouping = Grouping::dense;
    nb::handle sizes{};          // null: none
    std::string word = "sizes";  // the keyword that gave `sizes`, for messages
    std::int64_t alignment = 128;
    std::int64_t index_alignment = 1;
    std::int64_t expected_m = 0;
};

}  // namespace tilewright::python
