// Runs the cases of one row of `tilewright verify` and judges each by the gates of src/check.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measure/device.h"
#include "verify/cases.h"

namespace tilewright::verify {

struct VerifySettings {
    Backend backend = Backend::cpu;
    std::vector<Arithmetic> arithmetics{};
    bool quick = false;                         // fewer cases; on a GPU only those whose kernels ship
    measure::Device* gpu = nullptr;             // backend hopper: where it runs
    const DeviceDescription* device = nullptr;  // whose plans are followed; null: the GPU's, or default_device()
};

struct RowResult {
    std::int64_t cases = 0;
    std::int64_t combinations = 0;  // of recipe, layout, output and arithmetic that were run
    std::int64_t failed = 0;
    std::int64_t cpu_only = 0;            // Cases that the Hopper backend refuses.
    std::int64_t refused = 0;             // Combinations that were left out because of that.
    std::int64_t unshipped = 0;           // Cases that were left out because a GPU's kernel had to be compiled first.
    std::vector<std::string> failures{};  // The first few, one line each.
    // The element closest to its bound, or farthest beyond.
    double error = 0;
    double bound = 0;
    double ratio = 0;
    double seconds = 0;  // of the calls themselves

    void add_failure(const std::string& failure);

    std::string result() const { return failed == 0 ? "pass" : "FAIL"; }
};

/// With one thread on the CPU. `progress` is called once for each case.
RowResult run_row(const Family& family, const VerifySettings& settings, const std::function<void()>& progress);

/// How many times `run_row` will call `progress`.
std::int64_t count_cases(const Family& family, const VerifySettings& settings);

}  // namespace tilewright::verify
