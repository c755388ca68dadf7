// Integer types and what instructions are given beyond numbers: shared by device code, the host and the emulator.
#pragma once

namespace tilewright::hopper {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

/// The hardware's description of a tensor for TMA, opaque here (PTX ISA, "Tensor-map").
struct alignas(64) TensorMap {
    u64 words[16];
};

/// The barriers of a block, for messages.
enum class BarrierName : u8 {
    none,
    staged,
    stored,
    full,
    empty,
    epilogue_scales_full,
    epilogue_scales_empty,
    block_scales_full,
    block_scales_empty,
    work_full,
    work_empty,
    slices_full,
    slices_read
};

}  // namespace tilewright::hopper
