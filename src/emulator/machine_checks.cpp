// Conditions that must hold when a thread or a cluster ends, and messages that list the waiting threads.
#include "emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::emulator {

void Machine::check_thread_end(const Thread& thread) const {
    if (thread.complete != thread.issued) {
        fail(thread, fmt::format("ended with {} wgmma in flight; call wgmma_commit and wgmma_wait before",
                                 thread.issued - thread.complete));
    }
    if (thread.copied + thread.copies.size() != thread.awaited) {
        fail(thread, "ended with a copy_async that no barrier_arrive_after_copies follows");
    }
    for (const Store& store : thread.stores) {
        if (!store.committed) fail(thread, "ended with a tma_store that was never committed");
        fail(thread, "ended before its tma_store had read shared memory; call tma_store_wait_read or tma_store_wait");
    }
}

void Machine::check_cluster_end() const {
    if (!in_flight_.empty()) {
        throw Error(fmt::format("block {}: ended with {} copies in flight that no thread waited for", blocks_[0].index,
                                in_flight_.size()));
    }
    for (const Block& block : blocks_) {
        for (const auto& [offset, state] : block.barriers) {
            if (state.pending == state.expected && state.bytes == 0) continue;
            throw Error(fmt::format("block {}: ended with {} in mid-phase: {} of {} arrivals and {} bytes are missing",
                                    block.index, state.name, state.pending, state.expected, state.bytes));
        }
        for (const Warpgroup& group : block.warpgroups) {
            if (group.warps_called == 0) continue;
            throw Error(fmt::format("block {}: ended; {} of a warpgroup's 4 warps have called setmaxnreg with {}",
                                    block.index, group.warps_called, group.registers_called));
        }
        const u8* const end = block.shared + options_.shared_bytes;
        if (std::any_of(end, end + spare_bytes, [](u8 byte) { return byte != poison; })) {
            throw Error(fmt::format("block {}: wrote beyond its {} bytes of shared memory", block.index,
                                    options_.shared_bytes));
        }
    }
}

std::string Machine::who(const Thread& thread) const {
    std::string text = fmt::format("block {}, thread {}", thread.block->index, thread.index);
    if (options_.role) text += fmt::format(" ({})", options_.role(thread.warp()));
    return text;
}

/// The waiting threads: a line per role and awaited thing.
std::string Machine::deadlock() const {
    struct WaitingRole {
        const Thread* first;
        const Thread* last;
        int count;
    };
    std::map<std::pair<int, std::string>, WaitingRole> groups;  // by block and text
    for (const Thread& thread : threads_) {
        if (thread.wait == nullptr) continue;
        const std::string role = options_.role ? options_.role(thread.warp()) : "any";
        const auto [found, is_new] = groups.try_emplace({thread.block->index, role + ": " + thread.wait->what()},
                                                        WaitingRole{&thread, &thread, 0});
        found->second.last = &thread;
        ++found->second.count;
    }
    std::string text = "deadlock: no thread can go on and nothing is in flight";
    for (const auto& [key, waiters] : groups) {
        text += fmt::format("\n  block {}, {} threads from {} to {}, {}", key.first, waiters.count,
                            waiters.first->index, waiters.last->index, key.second);
    }
    return text;
}

}  // namespace tilewright::emulator
