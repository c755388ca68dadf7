#include "emulator/machine.h"

#include "emulator/race.h"
#include "hopper/description/design.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace tilewright::emulator {
namespace {

constexpr int most_cluster = 16;  // of an H100, for kernels that ask for more than 8

constexpr u32 one_turn_lost_of = 8;
constexpr u32 one_sleep_of = 8;    // Turns per lost turn.
constexpr u32 longest_sleep = 64;  // Rounds.
// Rounds in which only pausing threads continued.
constexpr int idle_rounds_limit = 8;

/// Fibers are kept from launch to launch, because creating their stacks is expensive.
Fiber* fiber(std::size_t index) {
    thread_local std::vector<std::unique_ptr<Fiber>> fibers;
    while (fibers.size() <= index) fibers.push_back(std::make_unique<Fiber>());
    return fibers[index].get();
}

void check(const Launch& launch) {
    const auto demand = [](bool holds, const std::string& text) {
        if (!holds) throw Error("launch: " + text);
    };
    demand(launch.cluster >= 1 && launch.cluster <= most_cluster,
           fmt::format("cluster {}; 1 to {} blocks", launch.cluster, most_cluster));
    demand(launch.blocks >= 1 && launch.blocks % launch.cluster == 0,
           fmt::format("{} blocks; a positive multiple of the cluster's {}", launch.blocks, launch.cluster));
    demand(launch.threads >= 32 && launch.threads <= 1024 && launch.threads % 32 == 0,
           fmt::format("{} threads; whole warps, 32 to 1024", launch.threads));
    demand(launch.shared_bytes >= 0 && launch.shared_bytes <= hopper::shared_bytes_limit,
           fmt::format("{} bytes of shared memory; at most {}", launch.shared_bytes, hopper::shared_bytes_limit));
    demand(launch.registers % 8 == 0 && launch.registers * launch.threads <= hopper::registers_per_sm,
           fmt::format("{} registers for each of {} threads; a multiple of 8, {} in all", launch.registers,
                       launch.threads, hopper::registers_per_sm));
}

/// The largest count that fits, in steps of 8. At most 248, because a thread can address 255 at most.
int default_registers(int threads) { return std::min(hopper::registers_per_sm / threads / 8 * 8, 248); }

class Turn final : public Wait {
public:
    bool ready() override { return true; }
    std::string what() const override { return "its turn"; }
};

}  // namespace

constinit thread_local Machine* running_machine = nullptr;

void fail_outside_launch() { throw Error("a primitive was called outside emulator::launch"); }

void fail(const Thread& thread, const std::string& text) { throw Error(machine().who(thread) + ": " + text); }
void fail(const std::string& text) { fail(me(), text); }

void launch(const Launch& launch, const std::function<void()>& kernel) {
    check(launch);
    if (running_machine != nullptr) throw Error("launch: called from inside a kernel");
    Machine machine(launch, kernel);
    machine.run();
}

Machine::Machine(const Launch& options, const std::function<void()>& kernel)
    : options_(options), kernel_(kernel), random_(options.seed) {
    if (options_.registers == 0) options_.registers = default_registers(options_.threads);
    const std::size_t each = round_up(options_.shared_bytes, hopper::tile_alignment) + spare_bytes;
    memory_ = static_cast<u8*>(std::aligned_alloc(hopper::tile_alignment, each * options_.cluster));
    if (memory_ == nullptr) throw std::bad_alloc();
    running_machine = this;
    blocks_.resize(options_.cluster);
    threads_.resize(std::size_t(options_.cluster) * options_.threads);
    for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].shared = memory_ + i * each;
}

Machine::~Machine() {
    running_machine = nullptr;
    std::free(memory_);
}

void Machine::run() {
    std::vector<int> clusters(options_.blocks / options_.cluster);
    std::iota(clusters.begin(), clusters.end(), 0);
    if (options_.seed != 0) shuffle(clusters);
    for (const int cluster : clusters) run_cluster(cluster * options_.cluster);
}

void Machine::run_cluster(int first_block) {
    prepare(first_block);
    race::release(&blocks_);
    while (running_ != 0) {
        const bool stuck = !run_round() || idle_rounds_ > idle_rounds_limit;
        if (stuck && running_ != 0 && !finish_something() && !end_earlier_kernels() && !time_out()) {
            throw Error(deadlock());
        }
    }
    race::acquire(&threads_);
    if (options_.lost_load < 0) check_cluster_end();
}

/// Gives a turn to every thread that can continue. Returns whether another round may change anything.
bool Machine::run_round() {
    order_.insert(order_.end(), woken_.begin(), woken_.end());
    woken_.clear();
    if (options_.seed != 0) {
        shuffle(order_);
    } else {
        std::sort(order_.begin(), order_.end());
    }
    bool progress = false;
    bool sleeping = false;
    bool pauses_only = true;
    for (std::size_t i = 0; i < order_.size(); ++i) {  // `wake` makes it grow
        Thread* const thread = order_[i];
        if (thread->asleep_until > round_) {
            sleeping = true;
        } else if (thread->wait == nullptr || thread->wait->ready()) {
            progress = true;
            pauses_only &= thread->pausing;
            resume(*thread);
        }
    }
    std::erase_if(order_, [this](Thread* thread) { return !takes_turns(*thread); });
    idle_rounds_ = pauses_only && !sleeping ? idle_rounds_ + 1 : 0;
    round_ += progress ? 1 : longest_sleep;
    return progress || sleeping;
}

void Machine::prepare(int first_block) {
    const std::size_t warps = options_.threads / hopper::warp_threads;
    const std::size_t groups = options_.threads / hopper::warpgroup_threads;
    for (int rank = 0; rank < options_.cluster; ++rank) {
        u8* const shared = blocks_[rank].shared;
        std::memset(shared, poison, options_.shared_bytes + spare_bytes);
        Block& block = blocks_[rank];
        block = Block();  // an initializer with all members made GCC 12 warn of vectors without values
        block.index = first_block + rank;
        block.rank = rank;
        block.running = options_.threads;
        block.shared = shared;
        block.warps.resize(warps);
        block.warpgroups.resize(groups);
        block.writers.resize(options_.shared_bytes / 4);
        for (Warp& warp : block.warps) warp.registers = options_.registers;
    }
    cluster_sync_point_ = {};
    earlier_run_ = options_.earlier != nullptr;
    if (earlier_run_) options_.earlier(false);
    round_ = 1;
    running_ = static_cast<int>(threads_.size());
    u32 first_round = 0;
    order_.clear();
    for (std::size_t i = 0; i < threads_.size(); ++i) {
        threads_[i] = {.fiber = fiber(i),
                       .block = &blocks_[i / options_.threads],
                       .index = static_cast<int>(i) % options_.threads};
        if (options_.seed != 0 && i % hopper::warp_threads == 0) first_round = random(longest_sleep);
        threads_[i].asleep_until = first_round;
        threads_[i].fiber->start([this] { run_thread(); });
        order_.push_back(&threads_[i]);
    }
}

/// The body of every fiber.
void Machine::run_thread() {
    try {
        race::acquire(&blocks_);
        kernel_();
        race::release(&threads_);
        check_thread_end(*current_);
        --current_->block->running;
        --running_;
    } catch (...) {
        failure_ = std::current_exception();
    }
}

void Machine::resume(Thread& thread) {
    thread.last_turn = round_;
    current_ = &thread;
    thread.fiber->resume();
    if (failure_) std::rethrow_exception(failure_);
}

/// False: the thread has ended, or waits to be woken.
bool Machine::takes_turns(Thread& thread) const {
    if (thread.fiber->ended()) return false;
    if (thread.wait == nullptr || thread.waiters == nullptr || thread.wait->ready()) return true;
    thread.waiters->push_back(&thread);
    return false;
}

void Machine::wait_for(Wait& wait, Waiters* waiters) {
    if (wait.ready()) return;
    current_->wait = &wait;
    current_->waiters = waiters;
    Fiber::suspend();
    current_->wait = nullptr;
    current_->waiters = nullptr;
}

void Machine::wake(Waiters& waiters) {
    std::erase_if(waiters, [this](Thread* thread) {
        const bool ready = thread->wait->ready();
        if (ready) (thread->last_turn == round_ ? woken_ : order_).push_back(thread);
        return ready;
    });
}

void Machine::run_or_delay(std::function<void()> work) {
    if (options_.tma == Timing::early) {
        work();
    } else {
        put_in_flight(std::move(work));
    }
    work = nullptr;  // a fiber that never continues is not unwound
    maybe_lose_turn();
}

void Machine::maybe_lose_turn() {
    if (options_.seed == 0 || random(one_turn_lost_of) != 0) return;
    if (random(one_sleep_of) == 0) current_->asleep_until = round_ + random(longest_sleep);
    give_up_turn();
}

void Machine::give_up_turn() {
    Turn turn;
    current_->wait = &turn;
    Fiber::suspend();
    current_->wait = nullptr;
}

void Machine::pause() {
    if (options_.lost_load < 0) return;
    current_->pausing = true;
    give_up_turn();
    current_->pausing = false;
}

/// Times out the waits that have a limit, if a load was lost: first the waits of the warps that produce stages.
bool Machine::time_out() {
    if (options_.lost_load < 0) return false;
    bool any = false;
    for (const bool all : {false, true}) {
        for (Thread& thread : threads_) {
            if (thread.wait == nullptr || !thread.wait->time_out(all)) continue;
            any = true;
            if (thread.waiters != nullptr) wake(*thread.waiters);
        }
        if (any) return true;
    }
    return false;
}

bool Machine::finish_something() {
    if (in_flight_.empty()) return false;
    // In constant time, because with split-K thousands are in flight.
    if (options_.seed != 0) std::swap(in_flight_.front(), in_flight_[random(static_cast<u32>(in_flight_.size()))]);
    const std::function<void()> work = std::move(in_flight_.front());
    in_flight_.pop_front();
    work();
    return true;
}

namespace {

class WaitForEarlier final : public Wait {
public:
    explicit WaitForEarlier(const bool& run) : run_(run) {}
    bool ready() override { return !run_; }
    std::string what() const override { return "the kernels ahead of this one"; }

private:
    const bool& run_;
};

}  // namespace

void Machine::wait_for_earlier_kernels() {
    WaitForEarlier wait(earlier_run_);
    wait_for(wait, &earlier_waiters_);
}

bool Machine::end_earlier_kernels() {
    if (!earlier_run_ || earlier_waiters_.empty()) return false;
    options_.earlier(true);
    earlier_run_ = false;
    wake(earlier_waiters_);
    return true;
}

// ---- Chance

/// splitmix64 (Steele, Lea, Flood 2014).
u32 Machine::random(u32 below) {
    u64 z = random_ += 0x9E37'79B9'7F4A'7C15;
    z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9;
    z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EB;
    return static_cast<u32>(((z ^ z >> 31) >> 32) * below >> 32);
}

template <class T>
void Machine::shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random(static_cast<u32>(i))]);
}

void note_arrival(const Thread& user, u32 offset) {
    Counts* const counts = machine().options().counts;
    if (counts != nullptr) counts->barriers[offset].arriving_warps.insert(user.index / hopper::warp_threads);
}

void note_wait(u32 offset, hopper::BarrierName name) {
    Counts* const counts = machine().options().counts;
    if (counts == nullptr) return;
    BarrierUse& use = counts->barriers[offset];
    use.name = hopper::name_of(name);
    use.waiting_warps.insert(me().index / hopper::warp_threads);
}

}  // namespace tilewright::emulator
