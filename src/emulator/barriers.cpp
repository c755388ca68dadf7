// Threads that wait for each other: block, warp, named and cluster barriers, mbarriers.
#include "emulator/machine.h"
#include "emulator/race.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

namespace tilewright::emulator {
namespace {

constexpr long long byte_limit = (1 << 20) - 1;  // of one phase (PTX ISA, "Tracking asynchronous operations")

std::string text_of(const char* primitive, int operand) {
    return operand == 0 ? primitive : fmt::format("{}({})", primitive, operand);
}
std::string text_of(const SyncPoint& sync_point) { return text_of(sync_point.primitive, sync_point.operand); }

class WaitAtSyncPoint final : public Wait {
public:
    WaitAtSyncPoint(const SyncPoint& sync_point, u32 generation) : point_(sync_point), generation_(generation) {}
    bool ready() override { return point_.generation != generation_; }
    std::string what() const override {
        return fmt::format("{}: {} of {} threads are here", text_of(point_), point_.present, point_.expected);
    }

private:
    const SyncPoint& point_;
    u32 generation_;
};

class WaitForPhase final : public Wait {
public:
    WaitForPhase(const BarrierState& state, u32 parity, const hopper::Waiting* limited = nullptr)
        : state_(state), parity_(parity), limited_(limited) {}
    bool ready() override { return state_.phase != parity_ || (limited_ != nullptr && limited_->budget < 0); }
    bool time_out(bool all) override {
        if (limited_ == nullptr || (!all && limited_->barrier != hopper::BarrierName::empty)) return false;
        limited_->budget = is_recorded(limited_->barrier) ? hopper::timed_out_at(limited_->barrier) : -1;
        return true;
    }
    std::string what() const override {
        return fmt::format("barrier_wait({}, parity {}): {} of {} arrivals and {} bytes are missing", state_.name,
                           parity_, state_.pending, state_.expected, state_.bytes);
    }

private:
    const BarrierState& state_;
    u32 parity_;
    const hopper::Waiting* limited_;
};

/// Completes the phase, if it is complete, after arrivals or bytes.
void settle(const Thread& user, BarrierState& state) {
    if (state.pending != 0) return;
    if (state.bytes < 0) {
        fail(user, fmt::format("{}: {} bytes more than were expected", state.name, -state.bytes));
    }
    if (state.bytes != 0) return;
    state.phase ^= 1U;
    state.pending = state.expected;
    machine().wake(state.waiters);
}

void arrive(Block& block, u32 offset, long long bytes) {
    note_arrival(me(), offset);
    BarrierState& state = barrier_state(me(), block, offset);
    if (state.pending == 0) {
        fail(fmt::format("{}: an arrival too many; a phase has {}, and waits for {} bytes", state.name, state.expected,
                         state.bytes));
    }
    race::release(block.shared + offset);
    --state.pending;
    state.bytes += bytes;
    if (state.bytes > byte_limit) fail(fmt::format("{}: {} bytes; at most {}", state.name, state.bytes, byte_limit));
    settle(me(), state);
    machine().maybe_lose_turn();
}

SyncPoint& named_sync_point(int id, int threads) {
    if (id < 1 || id > 15) fail(fmt::format("sync_named: id {}; 1 to 15", id));
    if (threads <= 0 || threads % hopper::warp_threads != 0 || threads > machine().options().threads) {
        fail(fmt::format("sync_named({}): {} threads; whole warps of the block's {}", id, threads,
                         machine().options().threads));
    }
    return me().block->named[id];
}

u32 offset_of(const hopper::Barrier& barrier) { return shared_offset(*me().block, &barrier, sizeof barrier); }

void wait_for(hopper::Barrier& barrier, u32 parity, const hopper::Waiting& waiting, const hopper::Waiting* limited) {
    if (parity > 1) fail(fmt::format("barrier_wait: parity {}; 0 or 1", parity));
    BarrierState& state = barrier_state(me(), *me().block, offset_of(barrier));
    note_wait(offset_of(barrier), waiting.barrier);
    if (!state.is_named) state.name = fmt::format("{}[{}]", hopper::name_of(waiting.barrier), waiting.stage);
    state.is_named = true;
    WaitForPhase wait(state, parity, limited);
    machine().wait_for(wait, &state.waiters);
    race::acquire(&barrier);
}

}  // namespace

BarrierState& barrier_state(const Thread& user, Block& block, u32 offset) {
    const auto found = block.barriers.find(offset);
    if (found == block.barriers.end()) {
        fail(user, fmt::format("the barrier at offset {} of block {}'s shared memory is used before barrier_init",
                               offset, block.index));
    }
    BarrierState& state = found->second;
    if (!state.fenced) fail(user, fmt::format("{} is used before barrier_init_fence", state.name));
    if (block.running == 0) fail(user, fmt::format("{} belongs to block {}, which has ended", state.name, block.index));
    return state;
}

void deliver(const Thread& user, Block& block, u32 barrier_offset, long long bytes) {
    BarrierState& state = barrier_state(user, block, barrier_offset);
    if (state.reset) return;
    state.bytes -= bytes;
    settle(user, state);
}

void add_arrival(const Thread& user, Block& block, u32 barrier_offset) {
    BarrierState& state = barrier_state(user, block, barrier_offset);
    if (state.pending == 0) {
        fail(user, fmt::format("{}: an arrival is added to a phase that waits for bytes alone", state.name));
    }
    ++state.pending;
}

void deliver_arrival(const Thread& user, Block& block, u32 barrier_offset) {
    BarrierState& state = barrier_state(user, block, barrier_offset);
    race::release(block.shared + barrier_offset);
    note_arrival(user, barrier_offset);
    --state.pending;
    settle(user, state);
}

u32 arrive_at(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders) {
    if (sync_point.present == 0) {
        sync_point.primitive = primitive;
        sync_point.operand = operand;
        sync_point.expected = expected;
    } else if (std::strcmp(sync_point.primitive, primitive) != 0 || sync_point.operand != operand ||
               sync_point.expected != expected) {
        fail(fmt::format("calls {} of {} threads together with threads that call {} of {}", text_of(primitive, operand),
                         expected, text_of(sync_point), sync_point.expected));
    }
    if (orders) race::release(&sync_point);
    const u32 generation = sync_point.generation;
    if (++sync_point.present == expected) {
        sync_point.present = 0;
        ++sync_point.generation;
        machine().wake(sync_point.waiters);
    }
    return generation;
}

void wait_for_others(SyncPoint& sync_point, u32 generation, bool orders) {
    WaitAtSyncPoint wait(sync_point, generation);
    machine().wait_for(wait, &sync_point.waiters);
    if (orders) race::acquire(&sync_point);
}

void synchronise(SyncPoint& sync_point, const char* primitive, int operand, int expected, bool orders) {
    wait_for_others(sync_point, arrive_at(sync_point, primitive, operand, expected, orders), orders);
}

}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

void sync_block() { synchronise(me().block->sync_point, "sync_block", 0, machine().options().threads); }
void sync_warp() { synchronise(me().own_warp().sync_point, "sync_warp", 0, warp_threads); }
void wait_for_earlier_kernels() { machine().wait_for_earlier_kernels(); }
/// The emulated stream has no kernel after this one.
void let_next_kernel_start() {}
void pause(int nanoseconds) {
    if (nanoseconds < 0) fail(fmt::format("pause: {} nanoseconds", nanoseconds));
    machine().pause();
}
u64 sm_clock() { return machine().tick(); }
void arrive_cluster() {
    const int threads = machine().options().threads * machine().cluster_size();
    me().cluster_generation = arrive_at(machine().cluster_sync_point(), "sync_cluster", 0, threads);
}
void arrive_cluster_relaxed() { arrive_cluster(); }
void wait_cluster() { wait_for_others(machine().cluster_sync_point(), me().cluster_generation); }
void sync_cluster() {
    arrive_cluster();
    wait_cluster();
}
void arrive_named(int id, int threads) { arrive_at(named_sync_point(id, threads), "sync_named", id, threads); }
void sync_named(int id, int threads) { synchronise(named_sync_point(id, threads), "sync_named", id, threads); }

void barrier_init(Barrier& barrier, int arrivals) {
    if (arrivals < 1 || arrivals > byte_limit) fail(fmt::format("barrier_init: {} arrivals; 1 to 2^20 - 1", arrivals));
    const u32 offset = offset_of(barrier);
    if (offset % sizeof(Barrier) != 0) fail(fmt::format("barrier_init: offset {} is not a multiple of 8", offset));
    const bool is_new = me().block->barriers.try_emplace(offset).second;
    if (!is_new) fail(fmt::format("barrier_init: the barrier at offset {} has been initialised before", offset));
    me().block->barriers[offset] = {
        .expected = arrivals, .pending = arrivals, .name = fmt::format("the barrier at offset {}", offset)};
}

void barrier_reset(Barrier& barrier, int arrivals) {
    BarrierState& state = barrier_state(me(), *me().block, offset_of(barrier));
    state.expected = state.pending = arrivals;
    state.bytes = 0;
    state.phase = 0;
    state.fenced = false;
    state.reset = true;
    machine().wake(state.waiters);
}

void barrier_init_fence() {
    for (auto& [offset, state] : me().block->barriers) state.fenced = true;
}

void barrier_arrive(Barrier& barrier) { arrive(*me().block, offset_of(barrier), 0); }

void barrier_arrive_peer(Barrier& barrier, int rank) {
    if (rank < 0 || rank >= machine().cluster_size()) {
        fail(fmt::format("barrier_arrive_peer: block {} of a cluster of {}", rank, machine().cluster_size()));
    }
    arrive(machine().block(rank), offset_of(barrier), 0);
}

void barrier_arrive_expect(Barrier& barrier, int bytes) {
    if (bytes < 0) fail(fmt::format("barrier_arrive_expect: {} bytes", bytes));
    arrive(*me().block, offset_of(barrier), bytes);
}

bool barrier_test(Barrier& barrier, u32 parity) {
    const bool complete = barrier_state(me(), *me().block, offset_of(barrier)).phase != parity;
    if (complete) race::acquire(&barrier);
    return complete;
}

void barrier_wait(Barrier& barrier, u32 parity, const Waiting& waiting) {
    wait_for(barrier, parity, waiting, &waiting);
}

void barrier_wait_watched(Barrier& barrier, u32 parity, BarrierName name, int stage) {
    int no_limit = 0;
    wait_for(barrier, parity, {no_limit, name, stage}, nullptr);
}

}  // namespace tilewright::hopper
