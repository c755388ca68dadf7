// Every instruction that kernels use beyond C++, declared once. Two places define them:
//
// - ptx_sm90.h for the GPU (NVRTC, in PTX).
// - src/emulator for the host: threads are fibers, and each copy and product completes as early or as late as a test
//   wants.
//
// Kernels include this file; the file that compiles a kernel includes the definitions too.
//
// Names follow the instructions (PTX ISA). "Together": all threads of the named group must call it.
#pragma once

#include "hopper/description/kernel.h"
#include "hopper/ptx/types.h"

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

int thread_index();  // In the block.
// In the block, in a form that the compiler knows to be the same for the whole warp; together.
int warp_index();
int lane_index();   // In the warp.
int block_index();  // In the grid.
int block_count();
int block_threads();
int block_rank();  // In the cluster.

/// The value of the first lane, in a form that the compiler knows to be the same for the whole warp.
int same_in_warp(int value);
/// The block's shared memory, at an address that the compiler computes once instead of at each use.
template <class Shared>
TILEWRIGHT_DEVICE Shared& known_address(Shared& shared);

// ---- Between the lanes of a warp, together

/// Elects one lane, always the same, in a form that the compiler knows to be one lane. Without this knowledge, the
/// compiler puts a loop around a TMA instruction that elects the threads one by one.
bool is_elected();

/// The value of lane `lane` % 32.
int from_lane(int value, int lane);
/// Bit i is lane i's argument.
u32 ballot(bool yes);

int lowest_bit(u32 bits);  // the index of the lowest set bit; `bits` is not 0
int highest_bit(u32 bits);
int count_bits(u32 bits);

// ---- Together

void sync_block();
void sync_warp();
/// Waits until `threads` threads of the block have arrived at named barrier `id` (1 .. 15).
void sync_named(int id, int threads);
/// Arrives as one of these threads without waiting.
void arrive_named(int id, int threads);
/// Synchronises all threads of the cluster: equal to the next two in turn. A thread that need not wait may omit the
/// second.
void sync_cluster();
void arrive_cluster();
void arrive_cluster_relaxed();  // orders only initialised mbarriers
void wait_cluster();
/// Programmatic dependent launch: waits until earlier kernels of the stream have ended and their writes are visible.
/// Does not wait if the launch does not overlap.
void wait_for_earlier_kernels();
/// Lets the next kernel of the stream start on SMs that become free, if it is launched to overlap.
void let_next_kernel_start();
/// Suspends the thread for about this time.
void pause(int nanoseconds);
/// The SM's clock in cycles. Reads and writes of memory do not move across it.
u64 sm_clock();

// ---- mbarriers, in shared memory. A phase completes with its last arrival and its last expected byte. Phases
// alternate between parity 0 and 1. A wait for the parity that precedes the first phase returns at once.

struct alignas(8) Barrier {
    u64 state;
};

/// Unsuccessful tries of all waits of a thread together until it times out. A try suspends the thread for some 5 us
/// before it answers no (H200). The budget is thus 20 seconds, more than any kernel takes. After a time-out the thread
/// no longer waits: the kernel ends, with a wrong result and a report.
inline constexpr int wait_budget = 1 << 22;

/// The parameters of a wait: the rest of the budget (after a time-out `timed_out_at`, which is negative) and the name
/// of the barrier.
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
/// Waits until the phase is complete, or until the budget is used up.
void barrier_wait(Barrier& barrier, u32 parity, const Waiting& waiting);
/// Waits until the phase is complete. Another thread must ensure that this wait ends (kernel/barriers.h). `stage` is
/// for messages.
void barrier_wait_watched(Barrier& barrier, u32 parity, BarrierName name, int stage);
/// Initialises a barrier again that others may be waiting at. Called by one thread when the barrier's phases can no
/// longer complete; `barrier_init_fence` follows.
void barrier_reset(Barrier& barrier, int arrivals);

// ---- TMA: boxes of a tensor to shared memory and back. Coordinates count elements, x along the contiguous dimension.
// Elements outside of the tensor are read as zero and not written. One thread issues.

void tma_prefetch(const TensorMap& map);
/// The bytes arrive at `barrier`. `to` is aligned to 128 bytes (1024 if swizzled).
void tma_load(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z);
/// This and `tma_store_once` are for data that no kernel reads again soon. L2 keeps other lines instead.
void tma_load_once(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z);
/// Copies `bytes` consecutive bytes, a multiple of 16, from and to multiples of 16, without a tensor.
void bulk_load(void* to, const void* from, int bytes, Barrier& barrier);
/// Writes to the same place in each block of the cluster whose bit is set in `blocks`. Bytes arrive at each block's
/// barrier.
void tma_load_multicast(void* to, const TensorMap& map, Barrier& barrier, int x, int y, int z, u16 blocks);
void tma_store(const TensorMap& map, const void* from, int x, int y, int z);
void tma_store_once(const TensorMap& map, const void* from, int x, int y, int z);
/// Writes a map of a matrix with the same boxes at another address. It has `size` one-byte elements along the
/// contiguous dimension and rows that are `stride` bytes apart. All earlier loads with `to` must have arrived.
void write_tensor_map(TensorMap& to, const TensorMap& from, const void* base, int size, i64 stride);
/// Makes both maps, which this thread has written, usable for its loads.
void fence_tensor_maps(const TensorMap& first, const TensorMap& second);
/// Ends a group of stores of this thread; the next two functions wait for all its groups.
void tma_store_commit();
void tma_store_wait_read();  // Shared memory has been read.
void tma_store_wait();       // Global memory has been written.
/// Orders earlier writes to shared memory by this thread ahead of TMA stores by threads that it synchronises with
/// later.
void fence_async_proxy();

// ---- cp.async: copies of 4 bytes from global to shared memory, by each thread for itself

/// The contents of `to` are undefined until the copy is complete.
void copy_async(float& to, const float* from);
/// Adds one arrival to the current phase. It is made when all earlier copies of this thread are complete. At the call,
/// another arrival of the phase must still be missing.
void barrier_arrive_after_copies(Barrier& barrier);

// ---- wgmma: 64 x n products of 32 bytes of k, by a warpgroup together. Elements of d that thread t of the warpgroup
// holds, for each 8 columns j:
//
// | d[4 j + 0, 1] | row 16 (t / 32) + t % 32 / 4     | columns 8 j + 2 (t % 4) + 0, 1 |
// | d[4 j + 2, 3] | row 16 (t / 32) + t % 32 / 4 + 8 | the same columns               |

/// An operand in swizzled rows of 128 bytes. This is the part of the 64-bit descriptor that varies (PTX ISA, "Matrix
/// Descriptor Format"), start address / 16.
using MatrixDescriptor = u32;

MatrixDescriptor matrix_descriptor(const void* shared);
/// The whole descriptor. If it takes part in additions, the compiler keeps it in a pair of registers instead of two
/// copies per wgmma. In loops that issue many small wgmmas, the copies are a twentieth of all instructions.
TILEWRIGHT_DEVICE u64 whole(MatrixDescriptor low);

void wgmma_fence();
/// d = A B^T + (accumulate ? d : 0). d is undefined until `wgmma_wait`.
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], MatrixDescriptor a_rows, MatrixDescriptor b_rows, bool accumulate);
/// The same with mma A's 64 x 32 bytes in registers:
///
/// - a[0]: row 16 (t / 32) + t % 32 / 4, bytes 4 (t % 4) .. 4 (t % 4) + 3
/// - a[2]: the bytes 16 further
/// - a[1] and a[3]: the same of the row eight below
///
/// The registers must keep their values until `wgmma_wait`, and the writes to them must precede `wgmma_fence`.
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], MatrixDescriptor b_rows, bool accumulate);
template <int n, ValueFormat a, ValueFormat b>
TILEWRIGHT_DEVICE void wgmma(float (&d)[n / 2], const u32 (&a_fragment)[4], u64 b_rows, bool accumulate);
void wgmma_commit();
/// Executes the code that precedes it ahead of the code that follows. Arithmetic can be moved across any wait by ptxas,
/// but not across a branch. This is a branch that is never taken. The compiler must not know that `not_negative` is not
/// negative.
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

/// setmaxnreg, by a warpgroup together: `registers` registers per thread from here on.
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
/// The same place in block `rank` of the cluster, which must not have ended.
int load_peer(const int& from, int rank);
/// st.async to the same place in block `rank` of the cluster; the bytes complete a phase of its `barrier`.
void store_peer(Quad& to, Quad value, Barrier& barrier, int rank);
void store_shared(int& to, int value);
void store_shared(u32& to, u32 value);
void store_shared(float& to, float value);
void store_shared(Pair& to, Pair value);
void store_shared(WordQuad& to, WordQuad value);
/// stmatrix x4, by a warp together: four 8 x 8 matrices of 16 bits. Lane i gives the address of row i % 8 of matrix i /
/// 8. In each matrix it has row i / 4, columns 2 (i % 4) and the next.
void store_matrix(void* row, u32 first, u32 second, u32 third, u32 fourth);
/// The same, but in each matrix a lane has column i / 4, rows 2 (i % 4) and the next.
void store_matrix_transposed(void* row, u32 first, u32 second, u32 third, u32 fourth);

/// ldmatrix x4, by a warp together: four 8 x 8 matrices of 16 bits. Lane i gives the address of row i % 8 of matrix i /
/// 8. In each matrix it gets column i / 4, rows 2 (i % 4) and the next.
void load_matrix_transposed(u32 (&values)[4], const void* row);

/// Claims one of `count` flags in global memory: returns the index of a flag that was 0 and is 1 from here on. Called
/// by one thread; waits until a flag is free. The caller sees all writes that precede the flag's release.
int claim(u32* flags, int count);
void release(u32& flag);

// ---- Words that other GPUs and the host read and write.

/// Stores a word. A thread that loads it by `load_acquire` sees all earlier writes that this thread has seen, by this
/// kernel and by kernels ahead of it.
void store_release(u64* to, u64 value);
u64 load_acquire(const u64* from);
/// Loads what another GPU wrote before a word that a thread of the block has acquired. `load_global` may have been
/// moved ahead of it.
u8 load_fresh(const u8* from);
u16 load_fresh(const u16* from);
u32 load_fresh(const u32* from);
int load_fresh(const int* from);
IntQuad load_fresh(const IntQuad* from);
/// The time of all SMs of a GPU.
i64 nanoseconds();

/// Loads data that are read-only for the whole kernel.
template <class T>
T load_global(const T* from);
IntQuad load_global(const IntQuad* from);
/// Loads into the L2 cache.
void prefetch_global(const void* from);
template <class T>
void store_global(T* to, T value);

/// prmt: byte i of the result is byte (selector >> 4 i) % 8 of `low` and `high` in turn. If the fourth bit of these is
/// set, it is eight copies of that byte's top bit.
u32 permute_bytes(u32 low, u32 high, u32 selector);
/// Keeps a constant in a register, by a warp together. Otherwise the compiler would make it again for each instruction
/// that takes it from a register.
u32 held_constant(u32 value);
/// prmt too: bytes `first` and `first` + 1 of a word, each extended with copies of its top bit to 16 bits.
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
