// wgmma as threads see it: products of a warpgroup, done when all its threads have called (early) or when one of them
// waits and nothing else can go on (late). Until then a late product's accumulators are NaN.
#include "emulator/machine.h"
#include "emulator/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tilewright::emulator {
namespace {

constexpr int rows = hopper::wgmma_m;
constexpr int group_threads = hopper::warpgroup_threads;
constexpr u32 undefined = 0x7FC0'DEAD;  // a NaN that no kernel writes

/// Row and column of d[i] of a thread of the warpgroup.
int row_of(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
int column_of(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

bool is_late() { return machine().options().wgmma == Timing::late; }

Product& product(Warpgroup& group, u64 index) { return group.products[index - group.done]; }

/// The first product from `begin` on that a thread has issued for this d; null: none.
Product* find(Warpgroup& group, u64 begin, int thread, const float* d) {
    for (u64 i = std::max(begin, group.done); i < group.done + group.products.size(); ++i) {
        if (product(group, i).d[thread] == d) return &product(group, i);
    }
    return nullptr;
}

/// A thread's part of what d held before a late product.
float* before(Product& p, int thread) {
    const std::size_t count = p.call.n / 2;
    p.before.resize(group_threads * count);
    return &p.before[thread * count];
}

void check_untouched(const Product& p, int thread) {
    for (int i = 0; i < p.call.n / 2; ++i) {
        if (std::bit_cast<u32>(p.d[thread][i]) == undefined) continue;
        fail(*p.caller, fmt::format("wgmma: thread {} of the warpgroup wrote d[{}] before wgmma_wait", thread, i));
    }
}

/// d of all threads as one matrix, before the product.
std::vector<float> gather(Product& p) {
    const int n = p.call.n;
    std::vector<float> d(static_cast<std::size_t>(rows) * n);
    for (int thread = 0; thread < group_threads; ++thread) {
        if (is_late()) check_untouched(p, thread);
        if (!p.call.accumulate) continue;
        const float* from = is_late() ? before(p, thread) : p.d[thread];
        for (int i = 0; i < n / 2; ++i) d[row_of(thread, i) * n + column_of(thread, i)] = from[i];
    }
    return d;
}

void run_next(Warpgroup& group) {
    Product p = std::move(group.products.front());
    group.products.pop_front();
    ++group.done;
    const int n = p.call.n;
    std::vector<float> d = gather(p);
    multiply(p, d.data());
    for (int thread = 0; thread < group_threads; ++thread) {
        // Where a later product is to change the same d, d stays undefined.
        Product* const next = is_late() ? find(group, group.done, thread, p.d[thread]) : nullptr;
        float* const to = next != nullptr ? before(*next, thread) : p.d[thread];
        for (int i = 0; i < n / 2; ++i) to[i] = d[row_of(thread, i) * n + column_of(thread, i)];
    }
    machine().wake(group.waiters);
}

bool is_issued(Warpgroup& group, u64 index) {
    return index < group.done + group.products.size() && product(group, index).issued == group_threads;
}

/// Late: products that someone waits for and that all have issued go in flight.
void queue_wanted(Warpgroup& group) {
    for (; group.queued < group.wanted && is_issued(group, group.queued); ++group.queued) {
        machine().put_in_flight([&group] { run_next(group); });
    }
}

class WaitForProducts final : public Wait {
public:
    WaitForProducts(const Warpgroup& group, u64 count, int pending) : group_(group), count_(count), pending_(pending) {}
    bool ready() override { return group_.done >= count_; }
    std::string what() const override {
        const Product* next = group_.products.empty() ? nullptr : &group_.products.front();
        return fmt::format("wgmma_wait<{}>: {} of {} threads have called the next wgmma", pending_,
                           next == nullptr ? 0 : next->issued, group_threads);
    }

private:
    const Warpgroup& group_;
    u64 count_;
    int pending_;
};

/// Keeps what d holds, unless a product is under way that will say so, and makes it undefined.
void take_accumulators(Warpgroup& group, Product& p, int thread, float* d) {
    if (find(group, group.done, thread, d) == nullptr) std::copy_n(d, p.call.n / 2, before(p, thread));
    std::fill_n(d, p.call.n / 2, std::bit_cast<float>(undefined));
}

/// A thread's part of mma A, from its registers.
void take_fragment(Product& p, int thread, const std::array<u32, 4>& fragment) {
    constexpr int step = 32;  // bytes of k
    p.a.resize(std::size_t{rows} * step);
    for (int i = 0; i < 4; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8, k = i / 2 * 16 + thread % 4 * 4;
        std::memcpy(&p.a[static_cast<std::size_t>(row) * step + k], &fragment[i], sizeof fragment[i]);
    }
}

/// Registers of mma A must hold what they held until their wgmmas are known to be complete.
void check_fragments(Thread& thread, u64 complete) {
    auto read = thread.reading.begin();
    for (; read != thread.reading.end() && read->product < complete; ++read) {
        for (std::size_t i = 0; i < read->held.size(); ++i) {
            if (read->from[i] == read->held[i]) continue;
            fail(thread, fmt::format("wgmma: a[{}] was written before wgmma_wait", i));
        }
    }
    thread.reading.erase(thread.reading.begin(), read);
}

std::string text_of(const WgmmaCall& call) {
    if (call.a_in_registers) {
        return fmt::format("wgmma<{}>(a in registers, b {:#x}, accumulate {})", call.n, call.b_rows, call.accumulate);
    }
    return fmt::format("wgmma<{}>(a {:#x}, b {:#x}, accumulate {})", call.n, call.a_rows, call.b_rows, call.accumulate);
}

}  // namespace

void start_wgmma(float* d, const WgmmaCall& call, const u32* a_fragment) {
    Thread& thread = me();
    Block& block = *thread.block;
    if (thread.index / group_threads >= static_cast<int>(block.warpgroups.size())) {
        fail("wgmma: not in a warpgroup of 128 threads");
    }
    Warpgroup& group = thread.own_warpgroup();
    race::release(&thread.own_warp());  // a warp's lanes issue it together, after all they did before
    const int lane = thread.index % group_threads;
    const u64 index = thread.issued++;
    const bool continues = std::find(thread.writing.begin(), thread.writing.end(), d) != thread.writing.end();
    if (!thread.accumulators_fenced && !continues) {
        fail("wgmma: call wgmma_fence between touching d and the first wgmma that writes it");
    }
    if (call.a_in_registers && !thread.fragments_fenced) {
        fail("wgmma: call wgmma_fence between writing registers of mma A and the wgmma that reads them");
    }
    thread.writing.push_back(d);
    if (index == group.done + group.products.size()) {
        group.products.push_back({.call = call, .caller = &thread});
        if (machine().options().counts != nullptr) ++machine().options().counts->products;
    }
    Product& p = product(group, index);
    if (p.call != call) {
        fail(fmt::format("{} while another thread of the warpgroup calls {}", text_of(call), text_of(p.call)));
    }
    if (is_late()) take_accumulators(group, p, lane, d);
    if (call.a_in_registers) {
        ReadRegisters& read = thread.reading.emplace_back(ReadRegisters{.from = a_fragment, .product = index});
        std::copy_n(a_fragment, read.held.size(), read.held.begin());
        take_fragment(p, lane, read.held);
    }
    p.d[lane] = d;
    if (++p.issued != group_threads) return;
    if (is_late()) {
        queue_wanted(group);
    } else {
        run_next(group);
    }
}

void finish_wgmma(int pending) {
    // `.sync.aligned`: no lane continues before all lanes of its warp have arrived and have completed their earlier
    // reads.
    synchronise(me().own_warp().sync_point, "wgmma_wait", pending, hopper::warp_threads);
    Thread& thread = me();
    Warpgroup& group = thread.own_warpgroup();
    thread.accumulators_fenced = false;
    const auto groups = static_cast<int>(thread.committed.size());
    if (groups <= pending) return;
    const int finished = groups - pending;
    const u64 count = thread.committed[finished - 1];
    group.wanted = std::max(group.wanted, count);
    if (is_late()) queue_wanted(group);
    WaitForProducts wait(group, count, pending);
    machine().wait_for(wait, &group.waiters);
    race::acquire(&thread.own_warp());
    check_fragments(thread, count);
    thread.committed.erase(thread.committed.begin(), thread.committed.begin() + finished);
    thread.writing.erase(thread.writing.begin(), thread.writing.begin() + static_cast<int>(count - thread.complete));
    thread.complete = count;
}

}  // namespace tilewright::emulator

namespace tilewright::hopper {

using namespace emulator;

MatrixDescriptor matrix_descriptor(const void* shared) {
    const u32 offset = shared_offset(*me().block, shared, 16);
    if (offset % tile_alignment != 0) {
        fail(fmt::format("matrix_descriptor: offset {} is not a multiple of {}", offset, tile_alignment));
    }
    return offset / 16;
}
void wgmma_fence() {
    me().accumulators_fenced = true;
    me().fragments_fenced = true;
}
void keep_order(int /*not_negative*/) {}
void wgmma_commit() {
    me().committed.push_back(me().issued);
    machine().maybe_lose_turn();
}

}  // namespace tilewright::hopper
