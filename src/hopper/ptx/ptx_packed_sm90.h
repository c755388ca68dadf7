// The primitives of ptx.h that packed weights use, in PTX: copies of runs of bytes, and instructions that decode
// values.
#pragma once

#include "hopper/ptx/ptx_barriers_sm90.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE void bulk_load(void* to, const void* from, int bytes, Barrier& barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&barrier))
                 : "memory");
}
TILEWRIGHT_DEVICE u32 load_shared(const u16& from) {
    u16 half;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(shared_address(&from)));
    return half;
}
TILEWRIGHT_DEVICE WordPair load_shared(const WordPair& from) {
    WordPair pair;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(pair.values[0]), "=r"(pair.values[1])
                 : "r"(shared_address(&from)));
    return pair;
}
TILEWRIGHT_DEVICE WordQuad load_shared(const WordQuad& from) {
    WordQuad quad;
    u32* v = quad.values;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(shared_address(&from)));
    return quad;
}
// Lane 0's value: the compiler does not treat a value that depends on the lane as a constant.
TILEWRIGHT_DEVICE u32 held_constant(u32 value) { return u32(from_lane(int(value) + lane_index(), 0)); }
TILEWRIGHT_DEVICE u32 two_signed_bytes(u32 word, int first) {
    u32 bytes;
    asm("prmt.b32 %0, %1, %1, %2;" : "=r"(bytes) : "r"(word), "r"(0x9180U + u32(first) * 0x1111U));
    return bytes;
}
TILEWRIGHT_DEVICE u32 top_bit_mask(u32 word, int byte) {
    u32 mask;
    asm("prmt.b32 %0, %1, %1, %2;" : "=r"(mask) : "r"(word), "r"(0x8888U + u32(byte) * 0x1111U));
    return mask;
}
TILEWRIGHT_DEVICE u32 multiply_bytes(u32 a, u32 b) {
    u32 sum;
    asm("dp4a.u32.u32 %0, %1, %2, 0;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
TILEWRIGHT_DEVICE u32 low_half_twice(u32 pair) {
    u32 twice;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {low, low};\n}" : "=r"(twice) : "r"(pair));
    return twice;
}
TILEWRIGHT_DEVICE u32 high_half_twice(u32 pair) {
    u32 twice;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {high, high};\n}" : "=r"(twice) : "r"(pair));
    return twice;
}
TILEWRIGHT_DEVICE u32 multiply_bf16(u32 a, u32 b) {
    u32 product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

}  // namespace tilewright::hopper
