// The workspace of a call on a GPU: the caller's, or from the library of its arrays.
#pragma once

#include "call.h"

#include <tilewright/run.h>

#include <optional>

namespace tilewright::python {

class CallWorkspace {
public:
    /// Empty for a call that needs no bytes. `given`: the keyword's array of bytes. Null: torch's allocator makes one,
    /// if `result` is of torch. It may get the memory back as soon as the call is enqueued on `stream`, because its
    /// next user runs there too. Throws Error about `workspace` if arrays of other libraries come without one.
    CallWorkspace(std::int64_t bytes, DeviceId device, nb::handle result, nb::handle given, void* stream);
    CallWorkspace(const Call& call, nb::handle given, void* stream);

    Workspace memory() const;

private:
    std::optional<ArrayView> bytes_{};
};

/// Bytes that the call needs on a GPU. 0 for a wrong one.
std::int64_t workspace_bytes_of(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords);

}  // namespace tilewright::python
