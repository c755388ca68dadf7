// The parts of a running cluster: threads, blocks with their shared memory and barriers, and the work in flight. The
// primitives of ptx.h (barriers.cpp, tma.cpp, wgmma.cpp, memory.cpp) act on it for the thread that calls them.
#pragma once

#include "emulator/emulator.h"
#include "emulator/fiber.h"
#include "emulator/primitives.h"

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tilewright::emulator {

using hopper::u16;
using hopper::u32;
using hopper::u64;
using hopper::u8;

inline constexpr int poison = 0xFF;       // NaN in e4m3, bf16, f16 and f32
inline constexpr int spare_bytes = 1024;  // after a block's shared memory, to find writes beyond it

/// The condition that a suspended thread waits for.
class Wait {
public:
    virtual bool ready() = 0;
    virtual std::string what() const = 0;
    /// If the wait has a limit: exceeds it now. Unless `all`, only for waits for an empty stage. Returns whether it
    /// did.
    virtual bool time_out(bool /*all*/) { return false; }

protected:
    ~Wait() = default;
};

struct Thread;

/// Threads that wait for a change of one thing. They take no turns until `Machine::wake` is called.
using Waiters = std::vector<Thread*>;

/// Threads that continue together. All must call the same primitive with the same operand.
struct SyncPoint {
    const char* primitive = "";
    int operand = 0;
    int expected = 0;
    int present = 0;
    u32 generation = 0;
    Waiters waiters{};
};

struct BarrierState {
    int expected = 0;
    int pending = 0;        // Arrivals that this phase still lacks.
    long long bytes = 0;    // Bytes expected and not yet delivered.
    u32 phase = 0;          // Parity of the current phase.
    bool fenced = false;    // By barrier_init_fence.
    bool reset = false;     // Late arrivals are not counted.
    std::string name{};     // The name in the first wait.
    bool is_named = false;  // Whether there was a wait.
    Waiters waiters{};
};

/// One wgmma of a warpgroup.
struct Product {
    WgmmaCall call{};
    const Thread* caller = nullptr;  // One thread of the warpgroup.
    int issued = 0;                  // Threads that have called it.
    std::array<float*, hopper::warpgroup_threads> d{};
    std::vector<u8> a{};  // Late timing: the old contents of each d. For threads that have already issued this product,
                          // the previous product writes its result here.
    /// Late timing: the old contents of each d. For threads that had issued the previous product then, that product
    /// writes them here.
    std::vector<float> before{};
};

struct Warpgroup {
    int registers_called = 0;        // The operand of the current register handover.
    int warps_called = 0;            // The number of warps that have reached it.
    std::deque<Product> products{};  // Products that are not done.
    u64 done = 0;                    // Products that precede them.
    u64 wanted = 0;                  // Some thread waits for the products below this number.
    u64 queued = 0;                  // The number of these that are in flight.
    Waiters waiters{};               // Threads that wait for products.
};

struct Warp {
    SyncPoint sync_point{};
    int registers = 0;  // Per thread.
    // For this call and the previous one, because no lane can be two calls ahead of another.
    std::array<std::array<u8*, hopper::warp_threads>, 2> matrix_rows{};
    std::array<int, 2> first_value{};
    std::array<std::array<int, hopper::warp_threads>, 2> values{};
};

struct Block {
    int index = 0;
    int rank = 0;
    int running = 0;  // threads that have not ended
    u8* shared = nullptr;
    std::map<u32, BarrierState> barriers{};  // by offset in shared memory
    SyncPoint sync_point{};
    std::array<SyncPoint, 16> named{};
    std::vector<Warp> warps{};
    std::vector<Warpgroup> warpgroups{};
    int free_registers = 0;
    /// Per 4 bytes of shared memory: 1 + the thread whose write TMA and wgmma may not see yet; 0: none.
    std::vector<u16> writers{};
    int unseen = 0;  // the number of such words
};

/// A TMA store: its source and destination. Shared memory is read and global memory written in one step.
struct Store {
    hopper::TensorMapDescription map{};
    u32 from = 0;
    std::array<int, 3> at{};
    bool committed = false;
    bool done = false;
};

/// A cp.async: the destination and the source of its 4 bytes.
struct Copy {
    u32 to = 0;
    const float* from = nullptr;
};

/// Registers of mma A that a wgmma reads until it is complete, and their contents at its issue.
struct ReadRegisters {
    const u32* from = nullptr;
    u64 product = 0;  // the number of the thread's product
    std::array<u32, 4> held{};
};

struct Thread {
    Fiber* fiber = nullptr;
    Block* block = nullptr;
    int index = 0;
    Wait* wait = nullptr;
    // The thing that wakes it; null: the thread checks at each of its turns.
    Waiters* waiters = nullptr;
    u32 asleep_until = 0;  // a round of turns
    u32 last_turn = 0;     // a round of turns
    bool pausing = false;
    std::vector<u32> unseen_writes{};  // words of shared memory
    // Vectors and a list, because thousands of threads are created again and an empty deque owns memory.
    std::list<Store> stores{};             // A list, because work in flight refers to its elements.
    std::vector<Copy> copies{};            // Incomplete cp.async copies.
    u64 copied = 0;                        // The number of copies that precede them.
    u64 awaited = 0;                       // The number of copies that an arrival waits for.
    u64 issued = 0;                        // Issued wgmmas.
    u64 complete = 0;                      // wgmmas that a wait has completed.
    std::vector<const float*> writing{};   // d of the incomplete ones.
    std::vector<ReadRegisters> reading{};  // mma A of the incomplete ones.
    // `issued` at each commit that no wait has covered.
    std::vector<u64> committed{};
    bool accumulators_fenced = false;
    // false: wgmma_fence must follow the writes to registers of mma A.
    bool fragments_fenced = true;
    u32 cluster_generation = 0;  // of its last arrive_cluster

    int warp() const { return index / hopper::warp_threads; }
    int lane() const { return index % hopper::warp_threads; }
    Warp& own_warp() const { return block->warps[warp()]; }
    Warpgroup& own_warpgroup() const { return block->warpgroups[index / hopper::warpgroup_threads]; }
};

class Machine {
public:
    Machine(const Launch& options, const std::function<void()>& kernel);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void run();

    const Launch& options() const { return options_; }
    Thread& current() const { return *current_; }
    Block& block(int rank) { return blocks_[rank]; }
    int cluster_size() const { return options_.cluster; }
    SyncPoint& cluster_sync_point() { return cluster_sync_point_; }

    /// Suspends the current thread until the wait is over. It is checked after a change of the object with these
    /// waiters, or after any change.
    void wait_for(Wait& wait, Waiters* waiters = nullptr);
    /// Called after a change. Threads whose wait is over take turns again, one per round.
    void wake(Waiters& waiters);
    /// With a seed, now and then: lets other threads run first, sometimes for long.
    void maybe_lose_turn();
    /// If a load was lost, lets other threads run first. Otherwise it does nothing, because time is steps of fibers.
    void pause();
    /// Lets other threads run first.
    void give_up_turn();
    /// A clock that only moves when it is read.
    u64 tick() { return ++ticks_; }
    /// Whether the TMA load that is issued now is the one that never arrives.
    bool loses_load() { return loads_++ == options_.lost_load; }
    /// Queues work that is done when no thread can continue without it.
    void put_in_flight(std::function<void()> work) { in_flight_.push_back(std::move(work)); }
    /// The number of TMA loads in flight that use the map at this address.
    int& loads_of(const void* map) { return loads_of_map_[map]; }
    /// Does a copy engine's work now, or queues it.
    void run_or_delay(std::function<void()> work);
    void wait_for_earlier_kernels();

    std::string who(const Thread& thread) const;

private:
    void run_cluster(int first_block);
    void prepare(int first_block);
    void run_thread();
    bool run_round();
    void resume(Thread& thread);
    bool takes_turns(Thread& thread) const;
    bool finish_something();
    bool end_earlier_kernels();
    bool time_out();
    void check_thread_end(const Thread& thread) const;
    void check_cluster_end() const;
    std::string deadlock() const;
    u32 random(u32 below);
    template <class T>
    void shuffle(std::vector<T>& list);

    Launch options_;
    const std::function<void()>& kernel_;
    std::vector<Block> blocks_;
    std::vector<Thread> threads_;
    std::vector<Thread*> order_;  // threads that take turns
    std::vector<Thread*> woken_;  // threads that take turns from the next round on
    int running_ = 0;             // threads that have not ended
    SyncPoint cluster_sync_point_;
    bool earlier_run_ = false;  // kernels ahead of this one
    Waiters earlier_waiters_;
    std::deque<std::function<void()>> in_flight_;
    Thread* current_ = nullptr;
    u32 round_ = 0;
    u64 ticks_ = 0;
    int loads_ = 0;
    std::map<const void*, int> loads_of_map_;
    int idle_rounds_ = 0;
    std::exception_ptr failure_;
    u8* memory_ = nullptr;
    u64 random_;
};

extern constinit thread_local Machine* running_machine;
[[noreturn]] void fail_outside_launch();

/// The machine that runs on this thread of the host, and the emulated thread that is running.
inline Machine& machine() {
    if (running_machine == nullptr) fail_outside_launch();
    return *running_machine;
}
inline Thread& me() { return machine().current(); }

/// Throws an Error that begins with the thread that caused it.
[[noreturn]] void fail(const Thread& thread, const std::string& text);
[[noreturn]] void fail(const std::string& text);

/// The offset of an address in the block's shared memory.
u32 shared_offset(const Block& block, const void* pointer, u32 bytes);

/// For `Counts::barriers`.
void note_arrival(const Thread& user, u32 offset);
void note_wait(u32 offset, hopper::BarrierName name);

/// The barrier at this place of a block.
BarrierState& barrier_state(const Thread& user, Block& block, u32 offset);
void deliver(const Thread& user, Block& block, u32 barrier_offset, long long bytes);
/// Adds an arrival to the phase, and delivers that arrival.
void add_arrival(const Thread& user, Block& block, u32 barrier_offset);
void deliver_arrival(const Thread& user, Block& block, u32 barrier_offset);

/// The current thread has written bytes that TMA and wgmma see only after its fence_async_proxy.
void hide_from_engines(u32 offset, u32 bytes);
/// Fails if the copy engines might not see the bytes that were written there.
void check_visible(const Thread& reader, const char* primitive, u32 offset, u32 bytes);

/// Counts the current thread; returns the generation that `wait_for_others` takes. `orders`: earlier writes are visible
/// afterwards.
u32 arrive_at(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders = true);
void wait_for_others(SyncPoint& sync_point, u32 generation, bool orders = true);
/// Arrives and waits.
void synchronise(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders = true);

/// d = A B^T + d in the tensor core's arithmetic, over [64, n] in rows of n.
void multiply(const Product& product, float* d);

}  // namespace tilewright::emulator
