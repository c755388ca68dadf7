// States of the driver that hold for a few lines: the current context, and the actions that a capture allows.
#pragma once

#include "cuda/driver.h"

namespace tilewright::cuda {

/// Any context of the device serves: the caller's if one is current, otherwise the primary context.
class ContextScope {
public:
    ContextScope(const Driver& driver, int device, ContextHandle primary) : driver_(driver) {
        // Asked first, because it has an answer without a context. cuCtxGetDevice then has an error, which
        // compute-sanitizer prints.
        ContextHandle current = nullptr;
        if (driver.call.context_current(&current) == 0 && current == primary) return;
        int of_current = -1;
        if (current != nullptr && driver.call.context_device(&of_current) == 0 && of_current == device) return;
        driver.require(driver.call.context_push(primary), "cuCtxPushCurrent", device);
        pushed_ = true;
    }
    ~ContextScope() {
        ContextHandle popped = nullptr;
        if (pushed_) driver_.call.context_pop(&popped);
    }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

private:
    const Driver& driver_;
    bool pushed_ = false;
};

/// Makes kernel loads and allocations safe while this thread captures: they do not end the capture.
class RelaxedCapture {
public:
    explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.call.exchange_capture_mode(&mode_); }
    ~RelaxedCapture() { driver_.call.exchange_capture_mode(&mode_); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    const Driver& driver_;
    // CU_STREAM_CAPTURE_MODE_RELAXED; after the exchange, the previous mode.
    int mode_ = 2;
};

}  // namespace tilewright::cuda
