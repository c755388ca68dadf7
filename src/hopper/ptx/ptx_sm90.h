// The primitives of ptx.h for Hopper, in PTX: the only assembly of the matrix-product kernels. Each function is the
// instruction that its comment names. The PTX ISA explains the operands.
#pragma once

#include "hopper/ptx/ptx.h"
#include "hopper/ptx/wgmma_generated.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE u32 shared_address(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }

// ---- Who am I

TILEWRIGHT_DEVICE int thread_index() { return int(threadIdx.x); }
// The shuffle tells the compiler that all lanes agree, so that values derived from it stay in uniform registers.
TILEWRIGHT_DEVICE int same_in_warp(int value) { return __shfl_sync(~0U, value, 0); }
template <class Shared>
TILEWRIGHT_DEVICE Shared& known_address(Shared& shared) {
    const int address = same_in_warp(int(__cvta_generic_to_shared(&shared)));
    return *static_cast<Shared*>(__cvta_shared_to_generic(u32(address)));
}
TILEWRIGHT_DEVICE int from_lane(int value, int lane) { return __shfl_sync(~0U, value, lane); }
TILEWRIGHT_DEVICE u32 ballot(bool yes) { return __ballot_sync(~0U, yes); }
TILEWRIGHT_DEVICE int count_bits(u32 bits) { return __popc(int(bits)); }
TILEWRIGHT_DEVICE int lowest_bit(u32 bits) { return __ffs(int(bits)) - 1; }
TILEWRIGHT_DEVICE int highest_bit(u32 bits) { return 31 - __clz(int(bits)); }
TILEWRIGHT_DEVICE int warp_index() { return same_in_warp(int(threadIdx.x) / warp_threads); }
// Volatile: it is read again at each use. Otherwise values derived from it would hold registers through the main loop.
TILEWRIGHT_DEVICE int lane_index() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
TILEWRIGHT_DEVICE bool is_elected() {
    u32 elected;
    asm volatile("{\n.reg .pred elected;\nelect.sync _|elected, 0xffffffff;\nselp.u32 %0, 1, 0, elected;\n}"
                 : "=r"(elected));
    return elected != 0;
}
TILEWRIGHT_DEVICE int block_index() { return int(blockIdx.x); }
TILEWRIGHT_DEVICE int block_count() { return int(gridDim.x); }
TILEWRIGHT_DEVICE int block_threads() { return int(blockDim.x); }
TILEWRIGHT_DEVICE int block_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// ---- Together

TILEWRIGHT_DEVICE void sync_block() { __syncthreads(); }
TILEWRIGHT_DEVICE void sync_warp() { __syncwarp(); }
TILEWRIGHT_DEVICE void sync_named(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TILEWRIGHT_DEVICE void arrive_named(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TILEWRIGHT_DEVICE void pause(int nanoseconds) { asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds)); }
TILEWRIGHT_DEVICE u64 sm_clock() {
    u64 clock;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock)::"memory");
    return clock;
}
TILEWRIGHT_DEVICE void wait_for_earlier_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TILEWRIGHT_DEVICE void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
TILEWRIGHT_DEVICE void arrive_cluster() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
// Without release: the peers must see only initialised mbarriers, which have their own fence.
TILEWRIGHT_DEVICE void arrive_cluster_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
TILEWRIGHT_DEVICE void wait_cluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
TILEWRIGHT_DEVICE void sync_cluster() {
    arrive_cluster();
    wait_cluster();
}

// ---- mbarriers

TILEWRIGHT_DEVICE void barrier_init(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
TILEWRIGHT_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TILEWRIGHT_DEVICE void barrier_arrive(Barrier& barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Without .release.cluster, with which multicast loops ran at half their rate. The arrival only signals that this warp
// has read its stage, and no earlier write depends on that.
TILEWRIGHT_DEVICE void barrier_arrive_peer(Barrier& barrier, int rank) {
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
        "r"(rank)
        : "memory");
}
TILEWRIGHT_DEVICE void barrier_arrive_expect(Barrier& barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
                 : "memory");
}
TILEWRIGHT_DEVICE bool barrier_test(Barrier& barrier, u32 parity) {
    u32 complete;
    asm volatile(
        "{\n.reg .pred complete;\nmbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}
// The hardware suspends the thread for a while before it answers no.
TILEWRIGHT_DEVICE bool barrier_try(Barrier& barrier, u32 parity) {
    u32 complete;
    asm volatile(
        "{\n.reg .pred complete;\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}
// The code after the first try is as short as possible. Code that looks at a clock or writes a report in the middle of
// the main loop costs time even if it never runs (docs/hopper_lessons.md). An exit here makes ptxas serialise wgmma
// (C7518), and a call would spill live registers.
TILEWRIGHT_DEVICE void barrier_wait(Barrier& barrier, u32 parity, const Waiting& waiting) {
    if (barrier_try(barrier, parity)) return;
#pragma unroll 1
    while (!barrier_try(barrier, parity)) {
        if (!is_recorded(waiting.barrier)) {
            if (--waiting.budget < 0) return;
        } else {
            if (waiting.budget < 0) return;
            if (--waiting.budget < 0) waiting.budget = timed_out_at(waiting.barrier);
        }
    }
}
// Only the loop: ptxas moves it into the arithmetic that precedes it. It does not move a loop that has another exit
// (docs/hopper_lessons.md).
TILEWRIGHT_DEVICE void barrier_wait_watched(Barrier& barrier, u32 parity, BarrierName /*name*/, int /*stage*/) {
    while (!barrier_try(barrier, parity)) {
    }
}
TILEWRIGHT_DEVICE void barrier_reset(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
    barrier_init(barrier, arrivals);
}

// ---- TMA: boxes of tensors, and runs of bytes

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
TILEWRIGHT_DEVICE void bulk_load(void* to, const void* from, int bytes, Barrier& barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&barrier))
                 : "memory");
}

// ---- cp.async

// Through L1 (.ca), because the neighbours in a sector are copied next. (.cg does not support 4 bytes.)
TILEWRIGHT_DEVICE void copy_async(float& to, const float* from) {
    asm volatile("cp.async.ca.shared::cta.global [%0], [%1], 4;" ::"r"(shared_address(&to)),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}
// Without .noinc: the barrier counts this arrival in addition to the arrivals that it was initialised for.
TILEWRIGHT_DEVICE void barrier_arrive_after_copies(Barrier& barrier) {
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

// ---- wgmma

// PTX ISA, "Matrix Descriptor Format":
//
// - bits 0..13: address / 16
// - bits 16..: 1 (the leading dimension's stride, not used by this layout)
// - bits 32..: 8 rows of 128 bytes / 16 = 64
// - bits 62..63: 1, the 128-byte swizzle
TILEWRIGHT_DEVICE MatrixDescriptor matrix_descriptor(const void* shared) {
    return (shared_address(shared) & 0x3FFFF) >> 4 | 1U << 16;
}
TILEWRIGHT_DEVICE u64 whole(MatrixDescriptor low) { return u64{0x40000040} << 32 | low; }

TILEWRIGHT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TILEWRIGHT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], MatrixDescriptor a_rows, MatrixDescriptor b_rows, bool accumulate) {
    Wgmma<n>::template multiply<a, b>(d, whole(a_rows), whole(b_rows), int(accumulate));
}
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], MatrixDescriptor b_rows, bool accumulate) {
    Wgmma<n>::template multiply<a, b>(d, a_fragment, whole(b_rows), int(accumulate));
}
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], u64 b_rows, bool accumulate) {
    Wgmma<n>::template multiply<a, b>(d, a_fragment, b_rows, int(accumulate));
}
TILEWRIGHT_DEVICE void keep_order(int not_negative) {
    // Looks like a change of the number. The compiler keeps only the first branch for a number that it knows.
    asm volatile("" : "+r"(not_negative)::"memory");
    while (not_negative < 0) pause(0);
}
template <int pending>
TILEWRIGHT_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
template <int count>
TILEWRIGHT_DEVICE void pin(float (&d)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int count>
TILEWRIGHT_DEVICE void pin(u32 (&a)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+r"(a[i])::"memory");
}
template <int registers>
TILEWRIGHT_DEVICE void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
TILEWRIGHT_DEVICE void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// ---- Memory

TILEWRIGHT_DEVICE float load_shared(const float& from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(shared_address(&from)));
    return value;
}
TILEWRIGHT_DEVICE Pair load_shared(const Pair& from) {
    Pair pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(shared_address(&from)));
    return pair;
}
TILEWRIGHT_DEVICE Quad load_shared(const Quad& from) {
    Quad quad;
    float* v = quad.values;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(shared_address(&from)));
    return quad;
}
TILEWRIGHT_DEVICE int load_shared(const int& from) {
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(shared_address(&from)));
    return value;
}
TILEWRIGHT_DEVICE int load_peer(const int& from, int rank) {
    int value;
    asm volatile("{\n.reg .b32 place;\nmapa.shared::cluster.u32 place, %1, %2;\nld.shared::cluster.s32 %0, [place];\n}"
                 : "=r"(value)
                 : "r"(shared_address(&from)), "r"(rank));
    return value;
}
TILEWRIGHT_DEVICE void store_peer(Quad& to, Quad value, Barrier& barrier, int rank) {
    const float* v = value.values;
    asm volatile(
        "{\n.reg .b32 place, signal;\nmapa.shared::cluster.u32 place, %0, %2;\nmapa.shared::cluster.u32 signal, %1, "
        "%2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [place], {%3, %4, %5, %6}, [signal];\n}" ::
            "r"(shared_address(&to)),
        "r"(shared_address(&barrier)), "r"(rank), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
        : "memory");
}
TILEWRIGHT_DEVICE void store_shared(int& to, int value) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared_address(&to)), "r"(value) : "memory");
}
TILEWRIGHT_DEVICE void store_shared(u32& to, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared_address(&to)), "r"(value) : "memory");
}
TILEWRIGHT_DEVICE void store_shared(float& to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared_address(&to)), "f"(value) : "memory");
}
TILEWRIGHT_DEVICE void store_shared(Pair& to, Pair value) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared_address(&to)), "f"(value.x), "f"(value.y) : "memory");
}
TILEWRIGHT_DEVICE void store_shared(WordQuad& to, WordQuad value) {
    const u32* v = value.values;
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(&to)), "r"(v[0]), "r"(v[1]), "r"(v[2]),
                 "r"(v[3])
                 : "memory");
}
TILEWRIGHT_DEVICE void store_matrix(void* row, u32 first, u32 second, u32 third, u32 fourth) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(first), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}
TILEWRIGHT_DEVICE void store_matrix_transposed(void* row, u32 first, u32 second, u32 third, u32 fourth) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(first), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}
TILEWRIGHT_DEVICE void load_matrix_transposed(u32 (&values)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
                 : "r"(shared_address(row)));
}
// Begins at the flag of the SM, which is free if each SM has one block of the kernel.
TILEWRIGHT_DEVICE int claim(u32* flags, int count) {
    int at;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
    for (at %= count; atomicExch(flags + at, 1) != 0;) at = at + 1 == count ? 0 : at + 1;
    __threadfence();
    return at;
}
TILEWRIGHT_DEVICE void release(u32& flag) {
    __threadfence();
    atomicExch(&flag, 0);
}
TILEWRIGHT_DEVICE void store_release(u64* to, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(value) : "memory");
}
TILEWRIGHT_DEVICE u64 load_acquire(const u64* from) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
TILEWRIGHT_DEVICE u32 load_fresh(const u32* from) {
    u32 value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
TILEWRIGHT_DEVICE int load_fresh(const int* from) { return int(load_fresh(reinterpret_cast<const u32*>(from))); }
TILEWRIGHT_DEVICE u16 load_fresh(const u16* from) {
    u16 value;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}
TILEWRIGHT_DEVICE u8 load_fresh(const u8* from) {
    u32 value;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return u8(value);
}
TILEWRIGHT_DEVICE IntQuad load_fresh(const IntQuad* from) {
    IntQuad quad;
    asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.values[0]), "=r"(quad.values[1]), "=r"(quad.values[2]), "=r"(quad.values[3])
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return quad;
}
TILEWRIGHT_DEVICE i64 nanoseconds() {
    i64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
// This and store_global are not TILEWRIGHT_DEVICE: NVRTC takes attributes of a template only where it is declared.
template <class T>
T load_global(const T* from) {
    return __ldg(from);
}
TILEWRIGHT_DEVICE IntQuad load_global(const IntQuad* from) {
    const int4 quad = __ldg(reinterpret_cast<const int4*>(from));
    return {{quad.x, quad.y, quad.z, quad.w}};
}
TILEWRIGHT_DEVICE void prefetch_global(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
template <class T>
void store_global(T* to, T value) {
    *to = value;
}

// ---- Arithmetic

// Assembly, because with the builtin the compiler knows which bits of the selector count. If the two halves of a
// selector serve two permutes, it masks each half separately.
TILEWRIGHT_DEVICE u32 permute_bytes(u32 low, u32 high, u32 selector) {
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}
TILEWRIGHT_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TILEWRIGHT_DEVICE u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
TILEWRIGHT_DEVICE u32 pack_f16(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
TILEWRIGHT_DEVICE u16 to_bf16(float value) { return u16(pack_bf16(value, 0)); }
TILEWRIGHT_DEVICE u16 to_f16(float value) { return u16(pack_f16(value, 0)); }
TILEWRIGHT_DEVICE float from_bf16(u16 code) { return __uint_as_float(u32(code) << 16); }
TILEWRIGHT_DEVICE float from_f16(u16 code) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
    return value;
}

// ---- Packed weights: loads of values, and instructions that decode them

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

template <class Shared>
TILEWRIGHT_DEVICE Shared& shared_memory() {
    extern __shared__ __align__(1024) u8 block_shared_memory[];
    return *reinterpret_cast<Shared*>(block_shared_memory);
}

}  // namespace tilewright::hopper
