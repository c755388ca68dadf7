// What a fake libnvidia-ml.so.1 answers, and what it was asked: shared by the fake and the test that opens it.
#pragma once

#include <atomic>
#include <string>

namespace tilewright::test {

struct FakeNvml {
    std::string device = "0000:1b:00.0";  // the one that it knows
    bool has_energy = true;
    bool has_power = true;
    bool is_lost = false;                            // no reading works any more
    std::atomic<unsigned long long> millijoules{0};  // each reading moves it by `step`
    unsigned long long step = 1000;
    unsigned milliwatts = 690500;
    int open = 0;  // nvmlInit without nvmlShutdown
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeNvml* tilewright_fake_nvml();
