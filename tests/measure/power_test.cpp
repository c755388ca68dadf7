// Watts from NVML's counters, and what is said where there are none: against a fake of the library.
#include "measure/power.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <array>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "measure/fake_nvml.h"

namespace tilewright::measure {
namespace {

using test::FakeNvml;

FakeNvml& fresh_fake() {
    static const cuda::OpenLibrary library({TILEWRIGHT_FAKE_NVML});
    FakeNvml& fake = *library.function<FakeNvml*()>("tilewright_fake_nvml")();
    fake.~FakeNvml();
    return *new (&fake) FakeNvml;
}

constexpr const char* device = "0000:1b:00.0";

std::string message_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Power, OfACounterCountsFromStepToStep) {
    // 70 J each 0.1 s, seen a little later; the readings before the first step and after the last one tell nothing.
    const std::array<PowerSample, 8> samples{
        {{1.00, 500}, {1.05, 500}, {1.11, 570}, {1.16, 570}, {1.21, 640}, {1.26, 640}, {1.31, 710}, {1.39, 710}}};
    EXPECT_NEAR(watts_of_energy(samples), 140 / 0.20, 1e-9);
    EXPECT_EQ(watts_of_energy({samples.data(), 4}), 0) << "one step";
    EXPECT_EQ(watts_of_energy({samples.data(), 2}), 0) << "no step";
    EXPECT_EQ(watts_of_energy({}), 0);
}

TEST(Power, OfReadingsIsTheirMean) {
    const std::array<PowerSample, 3> samples{{{1, 600}, {2, 700}, {3, 680}}};
    EXPECT_NEAR(watts_of_power(samples), 660, 1e-9);
    EXPECT_EQ(watts_of_power({}), 0);
}

TEST(Power, ReadsJoules) {
    FakeNvml& fake = fresh_fake();
    {
        PowerMeter meter(device, TILEWRIGHT_FAKE_NVML);
        EXPECT_STREQ(meter.source(), "energy counter");
        fake.millijoules = 12000;
        EXPECT_NEAR(meter.read(), 13, 1e-9);
        meter.start();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_GT(meter.stop(), 0);
        EXPECT_EQ(fake.open, 1);
    }
    EXPECT_EQ(fake.open, 0);
}

TEST(Power, ReadsWattsWhereThereIsNoEnergyCounter) {
    FakeNvml& fake = fresh_fake();
    fake.has_energy = false;
    PowerMeter meter(device, TILEWRIGHT_FAKE_NVML);
    EXPECT_STREQ(meter.source(), "power readings");
    meter.start();
    EXPECT_NEAR(meter.stop(), 690.5, 1e-9);
}

TEST(Power, SaysWhatLacks) {
    FakeNvml& fake = fresh_fake();
    const auto opened = [](const char* at, const std::string& library = TILEWRIGHT_FAKE_NVML) {
        return message_of([&] { const PowerMeter meter(at, library); });
    };
    EXPECT_NE(opened(device, "libno-nvml.so").find("NVML (libno-nvml.so) was not found"), std::string::npos);
    EXPECT_NE(opened(device, "libm.so.6").find("has no nvmlInit_v2"), std::string::npos);
    EXPECT_NE(opened("0000:99:00.0").find("nvmlDeviceGetHandleByPciBusId failed: Not Found"), std::string::npos);
    fake.has_energy = fake.has_power = false;
    EXPECT_NE(opened(device).find("nvmlDeviceGetPowerUsage failed: Not Supported"), std::string::npos);
    EXPECT_EQ(fake.open, 0);
}

TEST(Power, ACounterThatStopsOrFailsIsAnError) {
    FakeNvml& fake = fresh_fake();
    PowerMeter meter(device, TILEWRIGHT_FAKE_NVML);
    fake.step = 0;
    meter.start();
    EXPECT_NE(message_of([&] { meter.stop(); }).find("energy counter did not move"), std::string::npos);
    fake.is_lost = true;
    meter.start();
    EXPECT_NE(message_of([&] { meter.stop(); }).find("GPU is lost"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::measure
