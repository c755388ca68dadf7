// A fiber: a function with a separate stack, that runs until it suspends itself.
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

    /// The next `resume` begins `body`, which must not throw. What ran before and did not end is forgotten.
    void start(std::function<void()> body);
    /// Runs the body until it suspends or ends. Not from inside a fiber.
    void resume();
    bool ended() const { return ended_; }
    /// Back to whoever resumed this fiber.
    static void suspend();

private:
    static void begin();
    void switch_in();
    void switch_out();

    std::byte* stack_ = nullptr;
    std::function<void()> body_;
    bool ended_ = true;
    void* context_ = nullptr;                           // where the body continues: a stack pointer, or a ucontext_t
    [[maybe_unused]] void* sanitizer_fiber_ = nullptr;  // ThreadSanitizer's idea of this fiber
    void* fake_stack_ = nullptr;                        // AddressSanitizer's
};

}  // namespace tilewright::emulator
