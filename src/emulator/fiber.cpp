#include "emulator/fiber.h"

#include "emulator/race.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TILEWRIGHT_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEWRIGHT_ASAN
#endif
#endif
#ifdef TILEWRIGHT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tilewright::emulator {
namespace {

// Memory is used only where a stack is touched; the lowest page cannot be touched.
constexpr std::size_t stack_bytes = 512 << 10;
constexpr std::size_t guard_bytes = 4096;

thread_local Fiber* running = nullptr;
thread_local void* outside = nullptr;  // the context of `resume`
#ifdef TILEWRIGHT_ASAN
thread_local const void* outside_stack = nullptr;
thread_local std::size_t outside_bytes = 0;
#endif

}  // namespace

// ---- The switch: stores a context in *from and continues at `to`

#if defined(__x86_64__)

extern "C" void tilewright_switch_stack(void** from, void* to);
// System V ABI: the callee preserves these registers; all others are free once a function is called.
asm(R"(
.text
.globl tilewright_switch_stack
.type tilewright_switch_stack, @function
tilewright_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size tilewright_switch_stack, .-tilewright_switch_stack
)");

namespace {

/// Six registers and the return address, below an empty return address of `begin` itself.
void* first_context(std::byte* stack, void (*begin)(), void* /*old*/) {
    auto** top = reinterpret_cast<void**>(stack + stack_bytes) - 2;
    *top = reinterpret_cast<void*>(begin);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    return static_cast<void*>(top);
}
void free_context(void* /*context*/) {}

}  // namespace

#else

namespace {

void* first_context(std::byte* stack, void (*begin)(), void* old) {
    auto* context = old != nullptr ? static_cast<ucontext_t*>(old) : new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = stack_bytes;
    makecontext(context, begin, 0);
    return context;
}
void free_context(void* context) { delete static_cast<ucontext_t*>(context); }
void tilewright_switch_stack(void** from, void* to) {
    thread_local ucontext_t own;
    if (*from == nullptr) *from = &own;
    swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to));
}

}  // namespace

#endif

// ---- Sanitizers assume one stack per thread unless they are told otherwise

void Fiber::switch_in() {
#ifdef TILEWRIGHT_EMULATOR_RACES
    static thread_local void* const thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(sanitizer_fiber_, 1);  // 1: switching orders nothing
#endif
#ifdef TILEWRIGHT_ASAN
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, stack_, stack_bytes);
#endif
    tilewright_switch_stack(&outside, context_);
#ifdef TILEWRIGHT_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
#ifdef TILEWRIGHT_EMULATOR_RACES
    __tsan_switch_to_fiber(thread, 1);
#endif
}

void Fiber::switch_out() {
#ifdef TILEWRIGHT_ASAN
    __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake_stack_, outside_stack, outside_bytes);
#endif
    tilewright_switch_stack(&context_, outside);
#ifdef TILEWRIGHT_ASAN
    __sanitizer_finish_switch_fiber(fake_stack_, &outside_stack, &outside_bytes);
#endif
}

// ---- Fiber

Fiber::Fiber() {
    void* memory =
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    stack_ = static_cast<std::byte*>(memory);
    mprotect(stack_, guard_bytes, PROT_NONE);
}

Fiber::~Fiber() {
#ifdef TILEWRIGHT_EMULATOR_RACES
    if (sanitizer_fiber_ != nullptr) __tsan_destroy_fiber(sanitizer_fiber_);
#endif
    free_context(context_);
    munmap(stack_, stack_bytes);
}

void Fiber::start(std::function<void()> body) {
#ifdef TILEWRIGHT_EMULATOR_RACES
    if (sanitizer_fiber_ != nullptr && !ended_) {
        // The abandoned body's actions happen before all that follow.
        void* const thread = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(sanitizer_fiber_, 1);
        race::release(this);
        __tsan_switch_to_fiber(thread, 1);
        race::acquire(this);
        __tsan_destroy_fiber(sanitizer_fiber_);
        sanitizer_fiber_ = nullptr;
    }
    if (sanitizer_fiber_ == nullptr) sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
#ifdef TILEWRIGHT_ASAN
    // An abandoned body has left the poison of its frames.
    ASAN_UNPOISON_MEMORY_REGION(stack_ + guard_bytes, stack_bytes - guard_bytes);
    fake_stack_ = nullptr;
#endif
    body_ = std::move(body);
    ended_ = false;
    context_ = first_context(stack_, &Fiber::begin, context_);
}

void Fiber::resume() {
    running = this;
    switch_in();
    running = nullptr;
}

void Fiber::suspend() { running->switch_out(); }

void Fiber::begin() {
    Fiber& self = *running;
#ifdef TILEWRIGHT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &outside_stack, &outside_bytes);
#endif
    self.body_();
    self.ended_ = true;
    self.switch_out();
    std::abort();  // an ended fiber is not resumed
}

}  // namespace tilewright::emulator
