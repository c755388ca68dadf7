// TMA's primitives of ptx.h for Hopper, in PTX: boxes of tensors between global and shared memory.
#pragma once

#include "hopper/ptx/ptx_barriers_sm90.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE void tma_prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
TILEWRIGHT_DEVICE void tma_load(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z)
        : "memory");
}
/// The cache policy of data that is read or written once, which L2 evicts first. It is `L2::evict_first` for all of an
/// access, as createpolicy.fractional encodes it (CUTLASS: TMA::CacheHintSm90::EVICT_FIRST). A function, because NVRTC
/// puts each constant of a namespace into every kernel.
constexpr u64 evict_first() { return 0x12F0000000000000; }
TILEWRIGHT_DEVICE void tma_load_once(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "l"(evict_first())
        : "memory");
}
TILEWRIGHT_DEVICE void tma_load_multicast(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z,
                                          u16 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "h"(blocks)
        : "memory");
}
TILEWRIGHT_DEVICE void tma_store(const TensorMap& map, const void* from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
                 "r"(shared_address(from)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
TILEWRIGHT_DEVICE void tma_store_once(const TensorMap& map, const void* from, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;" ::"l"(
            &map),
        "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "l"(evict_first())
        : "memory");
}
// tensormap.replace, on a copy in global memory. Strides are in bytes (PTX ISA, "tensormap.replace").
TILEWRIGHT_DEVICE void write_tensor_map(TensorMap& to, const TensorMap& from, const void* base, int size, i64 stride) {
#pragma unroll
    for (int i = 0; i < 16; ++i) to.words[i] = from.words[i];
    const u64 map = __cvta_generic_to_global(&to);
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(base) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 0, %1;" ::"l"(map), "r"(size) : "memory");
    asm volatile("tensormap.replace.tile.global_stride.global.b1024.b64 [%0], 0, %1;" ::"l"(map), "l"(stride)
                 : "memory");
}
TILEWRIGHT_DEVICE void fence_tensor_maps(const TensorMap& first, const TensorMap& second) {
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&first) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&second) : "memory");
}
TILEWRIGHT_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
TILEWRIGHT_DEVICE void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
TILEWRIGHT_DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
TILEWRIGHT_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tilewright::hopper
