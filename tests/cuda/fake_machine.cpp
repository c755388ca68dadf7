// Opens the fake driver in the folder of the tests.
#include "cuda/gpu_problem.h"

namespace tilewright::test {
namespace {

const cuda::OpenLibrary& library() {
    static const cuda::OpenLibrary opened({TILEWRIGHT_FAKE_DRIVER});
    return opened;
}

FakeDriver& reset() {
    FakeDriver& fake = *library().function<FakeDriver*()>("tilewright_fake_driver")();
    fake.~FakeDriver();
    return *new (&fake) FakeDriver;
}

}  // namespace

FakeMachine::FakeMachine()
    : fake_(reset()),
      make_current_(library().function<void(int)>("tilewright_fake_make_current")),
      driver_(TILEWRIGHT_FAKE_DRIVER),
      runtime_(driver_, pack_of_all_candidates(), cuda::DiskCache(""), {}) {
    make_current_(-1);
}

}  // namespace tilewright::test
