// Continuous load on a fake GPU that takes a millisecond a call: it never waits for the host, and the times are its
// own.
#include "measure/load.h"

#include <gtest/gtest.h>

#include "measure/fake_cuda.h"
#include "measure/fake_nvml.h"

namespace tilewright::measure {
namespace {

using test::FakeGpu;
using test::FakeNvml;

constexpr double millisecond = 1e-3;

/// `driver()` then finds the fake: a library of that name is open.
const cuda::OpenLibrary& fake_driver() {
    static const cuda::OpenLibrary opened({TILEWRIGHT_FAKE_CUDA});
    return opened;
}

class LoadTest : public testing::Test {
protected:
    LoadTest() : gpu_(*fake_driver().function<FakeGpu*()>("tilewright_fake_gpu")()) { gpu_ = {}; }

    SustainedTime sustained(const LoadSeconds& length, PowerMeter* meter = nullptr) {
        const Device device;
        auto* enqueue = fake_driver().function<void()>("tilewright_fake_call");
        return sustain(
            device, [&](cuda::StreamHandle) { enqueue(); }, length, meter);
    }

    FakeGpu& gpu_;
};

/// Another program may keep the host from its core for longer than the enqueued work takes. With six times as many
/// computing threads as cores, more than eight attempts in a row have failed.
template <typename Attempt>
bool succeeds(const Attempt& attempt) {
    for (int i = 0; i < 80; ++i) {
        if (attempt()) return true;
    }
    return false;
}

TEST_F(LoadTest, TimesAreTheGpus) {
    EXPECT_TRUE(succeeds([&] {
        gpu_ = {};
        const SustainedTime time = sustained({.warm_up = 0.05, .measured = 0.2});
        EXPECT_GE(time.seconds, 0.999 * millisecond);
        EXPECT_NEAR(time.hertz, gpu_.hertz, 0.01 * gpu_.hertz);
        EXPECT_FALSE(time.watts);
        EXPECT_EQ(gpu_.clock_readings, 2);
        EXPECT_EQ(gpu_.live_events, 0);
        return time.seconds < 1.05 * millisecond && time.calls >= 150;
    }));
}

TEST_F(LoadTest, TheGpuHasAlwaysOneBatchAhead) {
    EXPECT_TRUE(succeeds([&] {
        gpu_ = {};
        const SustainedTime time = sustained({.warm_up = 0.2, .measured = 0.2});
        const bool has_warm_up = gpu_.calls >= static_cast<int>(time.calls) + 100;
        const bool two_batches_at_most = gpu_.most <= std::chrono::milliseconds(60);
        // The first call and one for each batch that is tried, of 1, 2, 4 and 8 calls. Were the GPU to wait for each
        // batch, it would be some fifty.
        return has_warm_up && two_batches_at_most && gpu_.idle <= 8;
    })) << gpu_.idle
        << " of " << gpu_.calls << ", " << gpu_.most.count() << " ns enqueued";
}

TEST_F(LoadTest, ShortCallsAreEnqueuedInBatches) {
    gpu_.call_time = std::chrono::microseconds(20);
    const SustainedTime time = sustained({.warm_up = 0.05, .measured = 0.1});
    EXPECT_GE(time.seconds, 0.999 * 20e-6);
    EXPECT_GE(gpu_.most, std::chrono::milliseconds(2)) << "of 20 us each";
}

TEST_F(LoadTest, WattsAreReadWhileTheGpuIsLoaded) {
    static const cuda::OpenLibrary library({TILEWRIGHT_FAKE_NVML});
    FakeNvml& nvml = *library.function<FakeNvml*()>("tilewright_fake_nvml")();
    nvml.has_energy = false;
    const Device device;
    PowerMeter meter(device.bus_id(), TILEWRIGHT_FAKE_NVML);
    const SustainedTime time = sustained({.warm_up = 0.02, .measured = 0.05}, &meter);
    EXPECT_NEAR(time.watts.value_or(0), 690.5, 1e-9);
}

TEST(Batches, GrowUntilTheyAreLong) {
    EXPECT_EQ(next_batch(1, 1e-6), 2);
    EXPECT_EQ(next_batch(8, 4e-3), 16);
    EXPECT_EQ(next_batch(8, 6e-3), 8);
    EXPECT_EQ(next_batch(4096, 1e-6), 4096) << "no end otherwise";
}

}  // namespace
}  // namespace tilewright::measure
