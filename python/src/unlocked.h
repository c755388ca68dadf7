// Long work without the interpreter's lock, which Ctrl-C ends all the same.
#pragma once

#include <nanobind/nanobind.h>
#include <tilewright/error.h>

#include <vector>

namespace tilewright::python {

/// For `cancelled` of the library's options: runs the handlers of signals that have arrived. True where one raised an
/// exception, as Ctrl-C's does. Python runs handlers in its main thread; in others this is always false.
inline bool signal_arrived() {
    const nanobind::gil_scoped_acquire locked;
    return PyErr_CheckSignals() != 0;
}

/// Runs `work` without the lock. Errors with findings are thrown again with what `in_callers_words` makes of them; work
/// that a signal ended raises the exception of the signal's handler.
template <class Work, class Words>
void run_unlocked(const Work& work, const Words& in_callers_words) {
    try {
        const nanobind::gil_scoped_release unlocked;
        work();
    } catch (const Cancelled&) {
        if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
        throw;
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        throw Error(in_callers_words(error.findings()));
    }
}

}  // namespace tilewright::python
