// Every instruction that kernels use beyond C++, declared once. ptx_sm90.h defines them for the GPU (NVRTC, in PTX),
// src/emulator for the host, where threads are fibers and each copy and product completes as early or as late as a test
// wants. Kernels include this file; whatever compiles a kernel includes the definitions too.
//
// Names follow the instructions (PTX ISA). "Together": all threads of the named group must call it.
#pragma once

#include "hopper/ptx/types.h"
#include "hopper/tile/tile.h"

#ifdef __CUDACC_RTC__
#define TILEWRIGHT_DEVICE __forceinline__
#else
#define TILEWRIGHT_DEVICE inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads, blocks)
#endif

namespace tilewright::hopper {

// ---- Indices

int thread_index();  // in the block
int warp_index();    // in the block, in a form that the compiler knows to be the same for the whole warp; together
int lane_index();    // in the warp
int block_index();   // in the grid
int block_count();
int block_rank();  // in the cluster

/// The value of the first lane, in a form that the compiler knows to be the same for the whole warp.
int same_in_warp(int value);
/// The block's shared memory, at an address that the compiler computes once, in place of at each use.
template <class Shared>
TILEWRIGHT_DEVICE Shared& known_address(Shared& shared);

// ---- Between the lanes of a warp, together

/// One lane, always the same, in a form that the compiler knows to be one: around a TMA instruction of threads of which
/// it does not know that, it puts a loop that elects them one by one.
bool is_elected();

/// The value of lane `lane` % 32.
int from_lane(int value, int lane);
/// Bit i: lane i's argument.
u32 ballot(bool yes);

int lowest_bit(u32 bits);  // its index; `bits` is not 0
int highest_bit(u32 bits);

// ---- Together

void sync_block();
void sync_warp();
/// Waits until `threads` threads of the block have arrived at named barrier `id` (1 .. 15).
void sync_named(int id, int threads);
/// Arrives as one of those threads without waiting.
void arrive_named(int id, int threads);
/// Synchronises all threads of the cluster: the next two in turn. A thread that need not wait may omit the second.
void sync_cluster();
void arrive_cluster();
void arrive_cluster_relaxed();  // orders initialised mbarriers only
void wait_cluster();
/// Programmatic dependent launch: waits until earlier kernels of the stream have ended and their writes are visible; no
/// wait where the launch does not overlap.
void wait_for_earlier_kernels();
/// The next kernel of the stream may start on SMs that become free, if it is launched to overlap.
void let_next_kernel_start();
/// Suspends the thread for about this time.
void pause(int nanoseconds);
/// Cycles of the SM. Reads and writes of memory do not move across it.
u64 sm_clock();

// ---- mbarriers, in shared memory. A phase completes with its last arrival and its last expected byte. Phases
// alternate between parity 0 and 1; a wait for the parity before the first phase returns at once.

struct alignas(8) Barrier {
    u64 state;
};

/// Unsuccessful tries of all waits of a thread together before it times out. A try suspends the thread for some 5 us
/// before it answers no (H200): 20 seconds, more than any kernel takes. Then it no longer waits, so that the kernel
/// ends, with a wrong result and a report.
inline constexpr int wait_budget = 1 << 22;

/// For a wait: the tries that are left (after a time-out `timed_out_at`, which is negative), and what is waited for.
struct Waiting {
    int& budget;
    BarrierName barrier;
    int stage;
};

/// One thread initialises, then calls `barrier_init_fence`, then all synchronise.
void barrier_init(Barrier& barrier, int arrivals);
void barrier_init_fence();
void barrier_arrive(Barrier& barrier);
/// The same barrier in the shared memory of block `rank` of the cluster.
void barrier_arrive_peer(Barrier& barrier, int rank);
/// Arrives, and expects bytes that TMA will write in this phase.
void barrier_arrive_expect(Barrier& barrier, int bytes);
/// Whether the phase of this parity is complete; does not wait.
bool barrier_test(Barrier& barrier, u32 parity);
/// Waits until it is, or until the budget is used up.
void barrier_wait(Barrier& barrier, u32 parity, const Waiting& waiting);
/// Waits until it is: another thread has to see to it that it ends (kernel/watch.h). `stage` is for messages.
void barrier_wait_watched(Barrier& barrier, u32 parity, BarrierName name, int stage);
/// By one thread, then `barrier_init_fence`: initialises a barrier again that others may be waiting at, once its phases
/// can no longer complete.
void barrier_reset(Barrier& barrier, int arrivals);

// ---- TMA: boxes of a tensor to shared memory and back. Coordinates count elements, x along the contiguous dimension;
// what is outside of the tensor is read as zero and not written. One thread issues.

void tma_prefetch(const TensorMap& map);
/// The bytes arrive at `barrier`. `to` is aligned to 128 bytes (1024 if swizzled).
void tma_load(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z);
/// The same, and `tma_store_once`: of what no one reads again soon. L2 keeps other lines rather than these.
void tma_load_once(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z);
/// `bytes` that follow one another, a multiple of 16, from and to multiples of 16: no tensor.
void bulk_load(void* to, const void* from, int bytes, Barrier& barrier);
/// To the same place in each block of the cluster whose bit is set in `blocks`; bytes arrive at each one's barrier.
void tma_load_multicast(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z, u16 blocks);
void tma_store(const TensorMap& map, const void* from, int x, int y, int z);
void tma_store_once(const TensorMap& map, const void* from, int x, int y, int z);
/// Writes a map for a matrix of such boxes at another address, of `size` elements of one byte along the contiguous
/// dimension and rows that are `stride` bytes apart. What was loaded with `to` before has arrived.
void write_tensor_map(TensorMap& to, const TensorMap& from, const void* base, int size, i64 stride);
/// Loads of this thread may use both, which it has written.
void fence_tensor_maps(const TensorMap& first, const TensorMap& second);
/// Ends a group of stores of this thread; the next two wait for all its groups.
void tma_store_commit();
void tma_store_wait_read();  // shared memory has been read
void tma_store_wait();       // global memory has been written
/// Orders earlier writes to shared memory by this thread before TMA stores by threads that it synchronises with later.
void fence_async_proxy();

// ---- cp.async: copies of 4 bytes from global to shared memory, by each thread for itself

/// What `to` holds is undefined until the copy is complete.
void copy_async(float& to, const float* from);
/// One arrival more in the phase under way, made when all earlier copies of this thread are complete. Another
/// arrival of the phase must still be missing.
void barrier_arrive_after_copies(Barrier& barrier);

// ---- wgmma: 64 x n products of 32 bytes of k, by a warpgroup together. Thread t of the warpgroup holds of each 8
// columns j
//   d[4 j + 0, 1]: row 16 (t / 32) + t % 32 / 4,     columns 8 j + 2 (t % 4) + 0, 1
//   d[4 j + 2, 3]: row 16 (t / 32) + t % 32 / 4 + 8, the same columns

/// An operand in swizzled rows of 128 bytes: the part of the 64-bit descriptor that varies (PTX ISA, "Matrix Descriptor
/// Format"), start address / 16.
using MatrixDescriptor = u32;

MatrixDescriptor matrix_descriptor(const void* shared);
/// All of it. Where it takes part in additions the compiler keeps it in a pair of registers, in place of two copies for
/// each wgmma: in loops that issue many small ones it is a twentieth of all instructions.
TILEWRIGHT_DEVICE u64 whole(MatrixDescriptor low);

void wgmma_fence();
/// d = A B^T + (accumulate ? d : 0). d is undefined until `wgmma_wait`.
template <int n, Storage a, Storage b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], MatrixDescriptor a_rows, MatrixDescriptor b_rows, bool accumulate);
/// The same with mma A's 64 x 32 bytes in registers: row 16 (t / 32) + t % 32 / 4, bytes 4 (t % 4) .. + 3 of k in a[0]
/// and 16 more in a[2], eight rows further a[1] and a[3]. The registers must keep them until `wgmma_wait`, and what
/// wrote them must precede `wgmma_fence`.
template <int n, Storage a, Storage b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], MatrixDescriptor b_rows, bool accumulate);
template <int n, Storage a, Storage b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], u64 b_rows, bool accumulate);
void wgmma_commit();
/// What precedes it is executed before what follows: ptxas moves arithmetic past any wait, but past no branch, and this
/// is one that is never taken. `not_negative`: a number of which the compiler does not know that.
void keep_order(int not_negative);
/// Waits until at most `pending` committed groups are unfinished.
template <int pending>
TILEWRIGHT_DEVICE void wgmma_wait();
/// Keeps the compiler from moving uses of d across this point; no instruction.
template <int count>
TILEWRIGHT_DEVICE void pin(float (&d)[count]);
/// The same for registers of mma A: they hold their values up to here.
template <int count>
TILEWRIGHT_DEVICE void pin(u32 (&a)[count]);

/// setmaxnreg, by a warpgroup together: so many registers for each thread from here on.
template <int registers>
TILEWRIGHT_DEVICE void registers_give();
template <int registers>
TILEWRIGHT_DEVICE void registers_take();

// ---- Memory

struct alignas(8) Pair {
    float x;
    float y;
};

struct alignas(16) Quad {
    float values[4];
};

struct alignas(16) IntQuad {
    int values[4];
};

struct alignas(8) WordPair {
    u32 values[2];
};
struct alignas(16) WordQuad {
    u32 values[4];
};

float load_shared(const float& from);
Quad load_shared(const Quad& from);
Pair load_shared(const Pair& from);
int load_shared(const int& from);
u32 load_shared(const u16& from);
WordPair load_shared(const WordPair& from);
WordQuad load_shared(const WordQuad& from);
/// st.async to the same place in block `rank` of the cluster; the bytes complete a phase of its `barrier`.
void store_peer(Quad& to, Quad value, Barrier& barrier, int rank);
void store_shared(int& to, int value);
void store_shared(u32& to, u32 value);
void store_shared(float& to, float value);
void store_shared(Pair& to, Pair value);
void store_shared(WordQuad& to, WordQuad value);
/// stmatrix x4, by a warp together: four 8 x 8 matrices of 16 bits; lane i gives the address of row i % 8 of matrix
/// i / 8, and has of each matrix row i / 4, columns 2 (i % 4) and the next.
void store_matrix(void* row, u32 first, u32 second, u32 third, u32 fourth);
/// The same, but a lane has of each matrix column i / 4, rows 2 (i % 4) and the next.
void store_matrix_transposed(void* row, u32 first, u32 second, u32 third, u32 fourth);

/// ldmatrix x4, by a warp together: four 8 x 8 matrices of 16 bits; lane i gives the address of row i % 8 of matrix
/// i / 8, and gets of each matrix column i / 4, rows 2 (i % 4) and the next.
void load_matrix_transposed(u32 (&values)[4], const void* row);

/// By one thread: the index of one of `count` flags in global memory that was 0 and is 1 from here on; waits until
/// there is one. What was done before the flag's release is seen.
int claim(u32* flags, int count);
void release(u32& flag);

/// Read-only for the whole kernel.
float load_global(const float* from);
u8 load_global(const u8* from);
u16 load_global(const u16* from);
int load_global(const int* from);
i64 load_global(const i64* from);
IntQuad load_global(const IntQuad* from);
/// To the L2 cache.
void prefetch_global(const void* from);
void store_global(float* to, float value);
void store_global(u16* to, u16 value);
void store_global(u32* to, u32 value);
void store_global(u64* to, u64 value);
void store_global(Quad* to, Quad value);

/// prmt: byte i of the result is byte (selector >> 4 i) % 8 of `low` and `high` in turn, or, where the fourth bit of
/// these is set, eight copies of that byte's top bit.
u32 permute_bytes(u32 low, u32 high, u32 selector);
/// A constant in a register, by a warp together: the compiler would make it again for each instruction that takes it
/// from there.
u32 held_constant(u32 value);
/// prmt too: bytes `first` and `first` + 1 of a word, each with copies of its top bit in 16 bits.
u32 two_signed_bytes(u32 word, int first);
/// prmt too: the top bit of a byte, in all 32 bits.
u32 top_bit_mask(u32 word, int byte);
/// dp4a: the sum of the products of the four bytes of each.
u32 multiply_bytes(u32 a, u32 b);
/// The products of two bf16 numbers each, subnormal ones included.
u32 multiply_bf16(u32 a, u32 b);
/// One half of a pair in both halves, in a form that the compiler makes part of such a multiplication.
u32 low_half_twice(u32 pair);
u32 high_half_twice(u32 pair);

// ---- Arithmetic, rounded to nearest even; a NaN result is the canonical one

float fma(float a, float b, float c);
u16 to_bf16(float value);
u16 to_f16(float value);
u32 pack_bf16(float low, float high);
u32 pack_f16(float low, float high);
float from_bf16(u16 code);
float from_f16(u16 code);

// ---- The block's shared memory, as one struct; it starts at a multiple of 1024 bytes.

template <class Shared>
TILEWRIGHT_DEVICE Shared& shared_memory();

}  // namespace tilewright::hopper
