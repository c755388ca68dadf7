// The primitives of hopper/ptx/ptx.h that are templates. The others are compiled once, in the emulator's library. A
// kernel's header is included first, then this file.
#pragma once

#include "hopper/description/design.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::emulator {

struct WgmmaCall {
    int n;
    hopper::ValueFormat a;
    hopper::ValueFormat b;
    hopper::MatrixDescriptor a_rows;  // unused if mma A is in registers
    hopper::MatrixDescriptor b_rows;
    bool accumulate;
    bool a_in_registers;

    bool operator==(const WgmmaCall&) const = default;
};

/// `a_fragment` has the thread's four registers of mma A; it is null if mma A is in shared memory.
void start_wgmma(float* d, const WgmmaCall& call, const hopper::u32* a_fragment);
void finish_wgmma(int pending);
void give_registers(int registers);
void take_registers(int registers);
void* shared_memory(int bytes);

}  // namespace tilewright::emulator

namespace tilewright::hopper {

template <int n, ValueFormat a, ValueFormat b>
void wgmma(float (&d)[n / 2], MatrixDescriptor a_rows, MatrixDescriptor b_rows, bool accumulate) {
    static_assert(n % 8 == 0 && n >= 8 && n <= 256, "wgmma: n is a multiple of 8 up to 256");
    emulator::start_wgmma(d, {n, a, b, a_rows, b_rows, accumulate, false}, nullptr);
}

template <int n, ValueFormat a, ValueFormat b>
void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], MatrixDescriptor b_rows, bool accumulate) {
    static_assert(n % 8 == 0 && n >= 8 && n <= 256, "wgmma: n is a multiple of 8 up to 256");
    emulator::start_wgmma(d, {n, a, b, 0, b_rows, accumulate, true}, a_fragment);
}
template <int n, ValueFormat a, ValueFormat b>
void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], u64 b_rows, bool accumulate) {
    wgmma<n, a, b>(d, a_fragment, MatrixDescriptor(b_rows), accumulate);
}
inline u64 whole(MatrixDescriptor low) { return low; }

template <int pending>
void wgmma_wait() {
    emulator::finish_wgmma(pending);
}

template <int count>
void pin(float (&d)[count]) {
    static_cast<void>(d);
}

template <int count>
void pin(u32 (&a)[count]) {
    static_cast<void>(a);
}

template <int registers>
void registers_give() {
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "setmaxnreg: 24 to 256 in steps of 8");
    emulator::give_registers(registers);
}

template <int registers>
void registers_take() {
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "setmaxnreg: 24 to 256 in steps of 8");
    emulator::take_registers(registers);
}

template <class T>
T load_global(const T* from) {
    return *from;
}
template <class T>
void store_global(T* to, T value) {
    *to = value;
}

template <class Shared>
Shared& known_address(Shared& shared) {
    return shared;
}

template <class Shared>
Shared& shared_memory() {
    static_assert(alignof(Shared) <= tile_alignment);
    return *static_cast<Shared*>(emulator::shared_memory(sizeof(Shared)));
}

}  // namespace tilewright::hopper
