// States of the driver that hold for a few lines: which context is current, what a capture allows.
#pragma once

#include "cuda/driver.h"

namespace tilewright::cuda {

/// Any context of the device serves: the caller's own where one is current, the primary one otherwise.
class ContextScope {
public:
    ContextScope(const Driver& driver, int device, ContextHandle primary) : driver_(driver) {
        int current = -1;
        if (driver.call.context_device(&current) == 0 && current == device) return;
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

/// Loading a kernel and allocating do not end a capture that this thread has under way.
class RelaxedCapture {
public:
    explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.call.exchange_capture_mode(&mode_); }
    ~RelaxedCapture() { driver_.call.exchange_capture_mode(&mode_); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    const Driver& driver_;
    int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; after the exchange, what it was before
};

}  // namespace tilewright::cuda
