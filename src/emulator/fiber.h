// A fiber: a function with a separate stack that runs until it suspends itself.
#pragma once

#include <cstddef>
#include <functional>

namespace tilewright::emulator {

class Fiber {
public:
    Fiber();
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Makes the next `resume` begin `body`, which must not throw. An earlier body that did not end is forgotten.
    void start(std::function<void()> body);
    /// Runs the body until it suspends or ends. Must not be called from inside a fiber.
    void resume();
    bool ended() const { return ended_; }
    /// Returns to the caller of `resume`.
    static void suspend();

private:
    static void begin();
    void switch_in();
    void switch_out();

    std::byte* stack_ = nullptr;
    std::function<void()> body_;
    bool ended_ = true;
    // The place where the body continues: a stack pointer, or a ucontext_t.
    void* context_ = nullptr;
    [[maybe_unused]] void* sanitizer_fiber_ = nullptr;  // ThreadSanitizer's handle of this fiber
    void* fake_stack_ = nullptr;                        // AddressSanitizer's handle
};

}  // namespace tilewright::emulator
