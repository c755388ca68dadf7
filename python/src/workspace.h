// The workspace of a call on a GPU: the caller's, or from the library of its arrays.
#pragma once

#include "call.h"

#include <tilewright/run.h>

#include <optional>

namespace tilewright::python {

class CallWorkspace {
public:
    /// Nothing where the call needs none. `given`: the keyword's array of bytes, or null; torch's allocator makes one
    /// then, which may have it back as soon as the call is enqueued on `stream`: what it gives it to next runs there
    /// too. Throws Error about `workspace` where other libraries' arrays come without.
    CallWorkspace(const Call& call, nb::handle given, void* stream);

    Workspace memory() const;

private:
    std::optional<ArrayView> bytes_{};
};

/// Bytes that the call needs on a GPU. 0 for a wrong one.
std::int64_t workspace_bytes_of(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords);

}  // namespace tilewright::python
