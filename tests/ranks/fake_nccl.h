// The settings and the record of the fake libnccl.so.2: one struct, shared by the fake and the tests that open it.
#pragma once

#include <atomic>
#include <vector>

namespace tilewright::test {

struct FakeNccl {
    int version = 22809;
    const char* failing_call = nullptr;  // this function returns `failure`
    int failure = 3;
    const char* last_error = "";
    bool blocks = true;                  // otherwise calls that enqueue return ncclInProgress
    std::atomic<int> busy_states{0};     // the next N looks at a communicator find it in progress
    std::atomic<int> state{0};           // what they find then
    std::atomic<int> collectives{0};     // of all ranks
    std::atomic<int> states{0};          // looks
    std::atomic<int> open_groups{0};     // started and not ended
    std::atomic<void*> stream{nullptr};  // of the last call
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeNccl* tilewright_fake_nccl();
/// Communicators of a new group: that of rank r is on device first_device + r. They live until the process ends.
extern "C" void tilewright_fake_communicators(int size, int first_device, void** communicators);
