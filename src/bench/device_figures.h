// From times of probes to the figures of a device file: arithmetic only, without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hopper/description/kernel.h"
#include "plan/devices.h"
#include "problem/problem_sizes.h"

namespace tilewright::bench {

/// A kernel that moves bytes.
struct Transfer {
    double bytes = 0;
    double seconds = 0;
    double hertz = 0;  // SM clock
};

/// seconds = start + bytes x each_byte.
struct TransferLine {
    double start = 0;
    double each_byte = 0;
};

/// By least squares. Throws Error for fewer than two sizes, and where more bytes take no more time.
TransferLine fitted_line(const std::vector<Transfer>& transfers, const std::string& what);

struct ClockedTime {
    double seconds = 0;
    double hertz = 0;

    double clocks() const { return seconds * hertz; }
};

/// One product, twice: with tiles that fill all SMs, without a rest, in whole waves.
struct TileTimes {
    hopper::Kernel tile{};
    std::int64_t waves = 1;
    std::int64_t k_blocks = 1;  // of 128 k-elements
    ClockedTime time{};
};

/// How many clocks more a k-block takes a block.
double clocks_of_k_block(const TileTimes& short_k, const TileTimes& long_k);

/// Bytes of D (bf16) that an SM stores in a clock, from a tile's time without its main loop.
double stored_bytes_of_clock(const TileTimes& few_waves, const TileTimes& many_waves, double clocks_of_k_block);

/// A product whose clock power limits.
struct PowerTest {
    ProblemSizes sizes{};
    hopper::Kernel tile{};
    double hertz = 0;
};

/// The `power_hertz` with which the planner predicts the clock of this product on `device`. Nothing if the clock is
/// that of `boost_hertz`, so that power limits nothing.
std::optional<double> power_hertz(const PowerTest& test, const DeviceDescription& device);

struct DeviceTimings {
    planner::ReportedGpu gpu{};
    std::optional<int> pairs_at_once{};  // Clusters of two blocks.
    std::vector<Transfer> reads{};       // From HBM by TMA, the SMs' rings full.
    std::vector<Transfer> writes{};
    Transfer copy{};                  // Reads and writes `bytes`.
    Transfer shallow{};               // Read with fewer bytes in flight, so that their latency is the bound.
    double shallow_bytes = 0;         // In flight on each SM.
    Transfer l2_of_all{};             // Each SM reads its own lines again and again.
    Transfer l2_of_one{};             // The same for one SM.
    double empty_kernel = 0;          // seconds
    std::vector<TileTimes> loops{};   // Pairs: with few and with many k-blocks.
    std::vector<TileTimes> stores{};  // pairs: with few and with many waves, of a tile in `loops`
    std::optional<PowerTest> power{};
};

struct Figure {
    std::string name{};  // a field of device files, or one that only people read
    double value = 0;
    std::string unit{};
    std::string source{};
    double shipped = 0;  // in the table that ships, or in the model; 0: it has none
    bool is_field = true;
};

/// All fields in the order of device files, then the others. Throws Error for times that no GPU has.
std::vector<Figure> device_figures(const DeviceTimings& timings, const DeviceDescription& shipped);

/// The device file. `comment` is its first line. Throws Error where `read_device` would refuse it.
std::string device_file(const std::vector<Figure>& figures, const std::string& name, const planner::ReportedGpu& gpu,
                        const std::string& comment);

/// A table for people: figure, unit, measured, shipped, ratio.
std::string figures_text(const std::vector<Figure>& figures, const std::string& shipped_name);

}  // namespace tilewright::bench
