// Integer types and the opaque parameters of instructions, shared by device code, the host and the emulator.
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
    ended,
    epilogue_scales_full,
    epilogue_scales_empty,
    block_scales_full,
    block_scales_empty,
    work_full,
    work_empty,
    slices_full,
    slices_read
};

constexpr const char* name_of(BarrierName name) {
    switch (name) {
        case BarrierName::none: break;
        case BarrierName::staged: return "staged";
        case BarrierName::stored: return "stored";
        case BarrierName::full: return "full";
        case BarrierName::empty: return "empty";
        case BarrierName::ended: return "ended";
        case BarrierName::epilogue_scales_full: return "epilogue_scales_full";
        case BarrierName::epilogue_scales_empty: return "epilogue_scales_empty";
        case BarrierName::block_scales_full: return "block_scales_full";
        case BarrierName::block_scales_empty: return "block_scales_empty";
        case BarrierName::work_full: return "work_full";
        case BarrierName::work_empty: return "work_empty";
        case BarrierName::slices_full: return "slices_full";
        case BarrierName::slices_read: return "slices_read";
    }
    return "barrier";
}

/// Whether a wait that times out records the barrier. This holds for barriers at which only producers wait. More code
/// in the consumers' waits made calls up to 6.7 % slower even if it never ran (docs/experiments/003-waits.md).
constexpr bool is_recorded(BarrierName barrier) {
    return barrier == BarrierName::staged || barrier == BarrierName::empty ||
           barrier == BarrierName::epilogue_scales_empty || barrier == BarrierName::block_scales_empty ||
           barrier == BarrierName::work_empty;
}

/// The value of a thread's wait budget after a time-out at a recorded barrier. It is negative, and still has the name
/// after 16 million more tries. After other time-outs the budget is -1 and less.
constexpr int timed_out_at(BarrierName barrier) { return int(1U << 31 | u32(barrier) << 24 | 0xFFFFFF); }

}  // namespace tilewright::hopper
