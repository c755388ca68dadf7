// A fake of libnccl.so.2, whose ranks are threads. They meet in each collective and copy from each other's memory.
// It refuses what the real one refuses.
#include "ranks/fake_nccl.h"

#include <barrier>
#include <cstddef>
#include <cstring>
#include <memory>

using tilewright::test::FakeNccl;

namespace {

FakeNccl fake;

constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;
constexpr int in_progress = 7;
constexpr int bytes_type = 1;

struct Transfer {
    int peer = 0;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
};

struct Group {
    explicit Group(int ranks) : barrier(ranks), sent(static_cast<std::size_t>(ranks)) {}

    std::barrier<> barrier;
    std::vector<std::vector<Transfer>> sent;  // by each rank
};

struct FakeCommunicator {
    std::shared_ptr<Group> group;
    int rank = 0;
    int device = 0;
};

/// Between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
    int depth = 0;
    FakeCommunicator* communicator = nullptr;
    std::vector<Transfer> sent{};
    std::vector<Transfer> received{};
};
thread_local OpenGroup open_group;

int result_of(const char* call) {
    return fake.failing_call != nullptr && std::strcmp(fake.failing_call, call) == 0 ? fake.failure : 0;
}

int enqueued() { return fake.blocks ? 0 : in_progress; }

/// Every rank of the group calls it.
int exchange(FakeCommunicator& communicator, std::vector<Transfer> sent, const std::vector<Transfer>& received) {
    Group& group = *communicator.group;
    ++fake.collectives;
    group.sent[static_cast<std::size_t>(communicator.rank)] = std::move(sent);
    group.barrier.arrive_and_wait();
    int result = 0;
    for (const Transfer& wanted : received) {
        const Transfer* found = nullptr;
        for (const Transfer& offered : group.sent[static_cast<std::size_t>(wanted.peer)]) {
            if (offered.peer == communicator.rank) found = &offered;
        }
        if (found == nullptr || found->bytes != wanted.bytes) {
            result = invalid_argument;
        } else if (wanted.to != found->from) {
            std::memcpy(wanted.to, found->from, wanted.bytes);
        }
    }
    group.barrier.arrive_and_wait();
    return result;
}

}  // namespace

extern "C" {

FakeNccl* tilewright_fake_nccl() { return &fake; }

void tilewright_fake_communicators(int size, int first_device, void** communicators) {
    static std::vector<std::unique_ptr<FakeCommunicator>> made;
    const auto group = std::make_shared<Group>(size);
    for (int rank = 0; rank < size; ++rank) {
        made.push_back(std::make_unique<FakeCommunicator>(
            FakeCommunicator{.group = group, .rank = rank, .device = first_device + rank}));
        communicators[rank] = made.back().get();
    }
}

int ncclGetVersion(int* version) {
    *version = fake.version;
    return result_of("ncclGetVersion");
}
const char* ncclGetErrorString(int result) { return result == 6 ? "remote process exited" : "internal error"; }
#ifndef FAKE_WITHOUT_LAST_ERROR
const char* ncclGetLastError(FakeCommunicator*) { return fake.last_error; }
#endif
int ncclCommCount(FakeCommunicator* communicator, int* count) {
    *count = static_cast<int>(communicator->group->sent.size());
    return result_of("ncclCommCount");
}
int ncclCommUserRank(FakeCommunicator* communicator, int* rank) {
    *rank = communicator->rank;
    return result_of("ncclCommUserRank");
}
int ncclCommCuDevice(FakeCommunicator* communicator, int* device) {
    *device = communicator->device;
    return result_of("ncclCommCuDevice");
}
int ncclCommGetAsyncError(FakeCommunicator*, int* state) {
    ++fake.states;
    *state = fake.state;
    if (fake.busy_states > 0) {
        --fake.busy_states;
        *state = in_progress;
    }
    return result_of("ncclCommGetAsyncError");
}
int ncclAllGather(const void* from, void* to, std::size_t count, int type, FakeCommunicator* communicator,
                  void* stream) {
    if (const int result = result_of("ncclAllGather"); result != 0) return result;
    if (type != bytes_type || open_group.depth > 0) return invalid_argument;
    fake.stream = stream;
    std::vector<Transfer> sent;
    std::vector<Transfer> received;
    const int ranks = static_cast<int>(communicator->group->sent.size());
    for (int peer = 0; peer < ranks; ++peer) {
        sent.push_back({.peer = peer, .from = from, .bytes = count});
        received.push_back(
            {.peer = peer, .to = static_cast<std::byte*>(to) + static_cast<std::size_t>(peer) * count, .bytes = count});
    }
    const int result = exchange(*communicator, std::move(sent), received);
    return result != 0 ? result : enqueued();
}
int ncclGroupStart() {
    if (const int result = result_of("ncclGroupStart"); result != 0) return result;
    ++fake.open_groups;
    ++open_group.depth;
    return 0;
}
/// Without a group, a rank that sends would wait for one that receives.
int ncclSend(const void* from, std::size_t count, int type, int peer, FakeCommunicator* communicator, void* stream) {
    if (const int result = result_of("ncclSend"); result != 0) return result;
    if (type != bytes_type) return invalid_argument;
    if (open_group.depth == 0) return invalid_usage;
    fake.stream = stream;
    open_group.communicator = communicator;
    open_group.sent.push_back({.peer = peer, .from = from, .bytes = count});
    return enqueued();
}
#ifndef FAKE_WITHOUT_RECEIVE
int ncclRecv(void* to, std::size_t count, int type, int peer, FakeCommunicator* communicator, void* stream) {
    if (const int result = result_of("ncclRecv"); result != 0) return result;
    if (type != bytes_type) return invalid_argument;
    if (open_group.depth == 0) return invalid_usage;
    fake.stream = stream;
    open_group.communicator = communicator;
    open_group.received.push_back({.peer = peer, .to = to, .bytes = count});
    return enqueued();
}
#endif
int ncclGroupEnd() {
    if (open_group.depth == 0) return invalid_usage;
    --fake.open_groups;
    if (--open_group.depth > 0) return 0;
    OpenGroup ended;
    std::swap(ended, open_group);
    if (const int result = result_of("ncclGroupEnd"); result != 0) return result;
    if (ended.communicator == nullptr || ended.sent.size() != ended.received.size()) return invalid_usage;
    const int result = exchange(*ended.communicator, std::move(ended.sent), ended.received);
    return result != 0 ? result : enqueued();
}
}
