// Errors of the driver: what failed, where, what it means, what to do.
#include "cuda/driver.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include "cuda/gpu_problem.h"

namespace tilewright::cuda {
namespace {

using test::FakeMachine;

template <class Action>
std::string message_of(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Driver, AMissingOneIsNamedWithTheWayOut) {
    const std::string message = message_of([] { const Driver driver("libcuda-that-is-not-there.so.1"); });
    EXPECT_NE(message.find("libcuda-that-is-not-there.so.1 was not found"), std::string::npos) << message;
    EXPECT_NE(message.find("CPU backend"), std::string::npos) << message;
}

TEST(Driver, ALibraryWithoutTheEntryPointsIsTooOld) {
    const std::string message = message_of([] { const Driver driver("libm.so.6"); });
    EXPECT_NE(message.find("has no cuInit; install a driver for CUDA 12.0 or later"), std::string::npos) << message;
}

TEST(Driver, OneThatDoesNotStartSaysWhy) {
    FakeMachine machine;
    machine.fake().failing_call = "cuInit";
    EXPECT_EQ(message_of([] { const Driver driver(TILEWRIGHT_FAKE_DRIVER); }),
              "the NVIDIA driver does not start: out of memory (CUDA_ERROR_OUT_OF_MEMORY); run `nvidia-smi`, or use "
              "the CPU backend");
}

TEST(Driver, AFailedCallNamesItselfTheDeviceAndTheMeaning) {
    FakeMachine machine;
    machine.fake().failing_call = "cuLaunchKernelEx";
    EXPECT_EQ(message_of([&] { machine.run(test::gpu_problem({.device = 1}), nullptr); }),
              "cuda:1: cuLaunchKernelEx failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY); free GPU memory");
}

TEST(Driver, ARefusedTensorMapNamesTheOperandAndTheDescription) {
    FakeMachine machine;
    machine.fake().failing_call = "cuTensorMapEncodeTiled";
    machine.fake().failure = 1;
    const std::string message = message_of([&] { machine.run(test::gpu_problem({}), nullptr); });
    EXPECT_EQ(message.find("cuda:0: cuTensorMapEncodeTiled of a.values (address 0x10000000, sizes [1024, 256, 1], "
                           "strides [1024, 16] bytes, box [128, "),
              0U)
        << message;
    EXPECT_NE(message.find("failed: invalid argument (CUDA_ERROR_INVALID_VALUE)"), std::string::npos) << message;
}

TEST(Driver, OtherChipsAreNamedWithTheCpuBackend) {
    FakeMachine machine;
    machine.fake().name = "NVIDIA A100-SXM4-80GB";
    machine.fake().capability_major = 8;
    EXPECT_EQ(message_of([&] { machine.run(test::gpu_problem({}), nullptr); }),
              "cuda:0: NVIDIA A100-SXM4-80GB has compute capability 8.0, the GPU kernels need 9.0 (H100, H200, GH200); "
              "copy the tensors to the host and use the CPU backend");
    EXPECT_EQ(machine.fake().launches, 0);
}

TEST(Driver, ADeviceThatIsNotThereIsCounted) {
    FakeMachine machine;
    for (const int device : {2, 63, 64, 1000, -1}) {
        const std::string message = message_of([&] { machine.run(test::gpu_problem({.device = device}), nullptr); });
        EXPECT_NE(message.find("no such device; the driver finds 2"), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace tilewright::cuda
