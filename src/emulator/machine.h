// What a running cluster consists of: threads, blocks with their shared memory and barriers, and the work in flight.
// The primitives of ptx.h (barriers.cpp, tma.cpp, wgmma.cpp, memory.cpp) act on it for the thread that calls them.
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
inline constexpr int spare_bytes = 1024;  // behind a block's shared memory, to find writes beyond it

/// What a suspended thread waits for.
class Wait {
public:
    virtual bool ready() = 0;
    virtual std::string what() const = 0;
    /// Whether the wait has a limit, which is exceeded now. Not `all`: only if it is one for an empty stage.
    virtual bool time_out(bool /*all*/) { return false; }

protected:
    ~Wait() = default;
};

struct Thread;

/// Threads that wait for a change of one thing. They take no turns before `Machine::wake`.
using Waiters = std::vector<Thread*>;

/// Threads that go on together. All must call the same primitive with the same operand.
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
    int pending = 0;        // arrivals that this phase still lacks
    long long bytes = 0;    // expected and not yet delivered
    u32 phase = 0;          // parity of the phase under way
    bool fenced = false;    // by barrier_init_fence
    bool reset = false;     // what arrives late is not counted
    std::string name{};     // as the first wait called it,
    bool is_named = false;  // if there was one
    Waiters waiters{};
};

/// One wgmma of a warpgroup.
struct Product {
    WgmmaCall call{};
    const Thread* caller = nullptr;  // one of the warpgroup
    int issued = 0;                  // threads that have called it
    std::array<float*, hopper::warpgroup_threads> d{};
    std::vector<u8> a{};  // mma A from registers: [64, 32]
    /// Late: what each d held before; of the threads that had issued it then, put there by the product before.
    std::vector<float> before{};
};

struct Warpgroup {
    int registers_called = 0;        // the operand of the register handover under way,
    int warps_called = 0;            // and how many warps have come to it
    std::deque<Product> products{};  // that are not done
    u64 done = 0;                    // products before those
    u64 wanted = 0;                  // some thread waits for the products before this one
    u64 queued = 0;                  // of these, in flight
    Waiters waiters{};               // for products
};

struct Warp {
    SyncPoint sync_point{};
    int registers = 0;  // of each thread
    // For this call and the one before: no lane can be two calls ahead of another.
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
    /// For each 4 bytes of shared memory: 1 + the thread whose write TMA and wgmma may not see yet; 0: none.
    std::vector<u16> writers{};
    int unseen = 0;  // such words
};

/// A TMA store: what is copied where. Shared memory is read and global memory written in one go.
struct Store {
    hopper::TensorMapDescription map{};
    u32 from = 0;
    std::array<int, 3> at{};
    bool committed = false;
    bool done = false;
};

/// A cp.async: where its 4 bytes go and come from.
struct Copy {
    u32 to = 0;
    const float* from = nullptr;
};

/// Registers of mma A that a wgmma reads until it is complete, and what they held when it was issued.
struct ReadRegisters {
    const u32* from = nullptr;
    u64 product = 0;  // which of the thread's
    std::array<u32, 4> held{};
};

struct Thread {
    Fiber* fiber = nullptr;
    Block* block = nullptr;
    int index = 0;
    Wait* wait = nullptr;
    Waiters* waiters = nullptr;  // where it is woken; else it asks at each of its turns
    u32 asleep_until = 0;        // round of turns
    u32 last_turn = 0;           // likewise
    bool pausing = false;
    std::vector<u32> unseen_writes{};  // words of shared memory
    // Vectors and a list: thousands of threads are made anew, and an empty deque has memory.
    std::list<Store> stores{};             // which work in flight refers to
    std::vector<Copy> copies{};            // cp.async that are not complete,
    u64 copied = 0;                        // those before them,
    u64 awaited = 0;                       // and how many of all an arrival waits for
    u64 issued = 0;                        // wgmmas
    u64 complete = 0;                      // of these, known to be by a wait
    std::vector<const float*> writing{};   // d of those that are not,
    std::vector<ReadRegisters> reading{};  // and their mma A
    std::vector<u64> committed{};          // `issued` at each commit that no wait has covered
    bool accumulators_fenced = false;
    bool fragments_fenced = true;  // false: wgmma_fence must follow what has written registers of mma A
    u32 cluster_generation = 0;    // of its last arrive_cluster

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

    /// Suspends the current thread until the wait is over: a change of what has these waiters, or of anything.
    void wait_for(Wait& wait, Waiters* waiters = nullptr);
    /// After a change: those whose wait is over take turns again, one a round.
    void wake(Waiters& waiters);
    /// With a seed, now and then: others go first, sometimes a long way.
    void maybe_lose_turn();
    /// Where a load was lost, others go first. Else nothing: time is steps of fibers.
    void pause();
    /// A clock that only moves when it is read.
    u64 tick() { return ++ticks_; }
    /// Whether the TMA load that is issued now is the one that never arrives.
    bool loses_load() { return loads_++ == options_.lost_load; }
    /// Work that is done once no thread can go on without.
    void put_in_flight(std::function<void()> work) { in_flight_.push_back(std::move(work)); }
    /// How many TMA loads on their way use the map at this address.
    int& loads_of(const void* map) { return loads_of_map_[map]; }
    /// What a copy engine does: now, or put in flight.
    void run_or_delay(std::function<void()> work);

    std::string who(const Thread& thread) const;

private:
    void run_cluster(int first_block);
    void prepare(int first_block);
    void run_thread();
    bool run_round();
    void resume(Thread& thread);
    bool takes_turns(Thread& thread) const;
    bool finish_something();
    bool time_out();
    void give_up_turn();
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
    std::vector<Thread*> order_;  // those that take turns
    std::vector<Thread*> woken_;  // those that do so from the next round on
    int running_ = 0;             // threads that have not ended
    SyncPoint cluster_sync_point_;
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

/// Throws an Error that begins with who did it.
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
/// One arrival more than the phase has, and that arrival.
void add_arrival(const Thread& user, Block& block, u32 barrier_offset);
void deliver_arrival(const Thread& user, Block& block, u32 barrier_offset);

/// The current thread has written there what TMA and wgmma see only after its fence_async_proxy.
void hide_from_engines(u32 offset, u32 bytes);
/// Fails if the copy engines might not see what was written there.
void check_visible(const Thread& reader, const char* primitive, u32 offset, u32 bytes);

/// Counts the current thread; what `wait_for_others` waits for. `orders`: what was written before is visible after.
u32 arrive_at(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders = true);
void wait_for_others(SyncPoint& sync_point, u32 generation, bool orders = true);
/// Both.
void synchronise(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders = true);

/// d = A B^T + d in the tensor core's arithmetic, over [64, n] in rows of n.
void multiply(const Product& product, float* d);

}  // namespace tilewright::emulator
