#include "bench/device_figures.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "hopper/description/design.h"
#include "output/table.h"
#include "plan/cost.h"
#include "plan/model.h"
#include "plan/planned_tile.h"

namespace tilewright::bench {
namespace {

/// A clock that is at least this share of the highest one is not limited.
constexpr double at_boost = 0.995;

double positive(double value, const char* what) {
    if (value > 0 && std::isfinite(value)) return value;
    throw Error(fmt::format("{}: got {:.3g} from the times; expected a positive number. Run again on an idle GPU", what,
                            value));
}

/// Seconds of a transfer itself.
double moving(const Transfer& transfer, double start, const char* what) {
    return positive(transfer.seconds - start, what);
}

/// Tensor cores multiply a power of two of pairs in each clock.
double power_of_two(double value) { return std::exp2(std::round(std::log2(value))); }

class Figures {
public:
    explicit Figures(const DeviceDescription& shipped) : shipped_(shipped) {}

    void field(const char* name, double value, const char* unit, const std::string& source) {
        Figure figure{.name = name, .value = value, .unit = unit, .source = source};
        const auto found = std::ranges::find(planner::device_fields(), name, &planner::DeviceField::name);
        figure.shipped = std::visit([&](auto member) { return static_cast<double>(shipped_.*member); }, found->member);
        list_.push_back(std::move(figure));
    }
    void other(const std::string& name, double value, const char* unit, double shipped) {
        list_.push_back({.name = name, .value = value, .unit = unit, .shipped = shipped, .is_field = false});
    }
    std::vector<Figure> take() { return std::move(list_); }

private:
    const DeviceDescription& shipped_;
    std::vector<Figure> list_;
};

struct LoopRate {
    hopper::Kernel tile{};
    double clocks = 0;  // for a k-block

    double products() const { return static_cast<double>(tile.shape.m) * tile.shape.n * 128 / clocks; }
};

std::vector<LoopRate> loop_rates(const DeviceTimings& timings) {
    std::vector<LoopRate> rates;
    for (std::size_t i = 0; i + 1 < timings.loops.size(); i += 2) {
        const double clocks = clocks_of_k_block(timings.loops[i], timings.loops[i + 1]);
        rates.push_back({timings.loops[i].tile, positive(clocks, "a tile's loop")});
    }
    return rates;
}

std::string tile_text(const hopper::Kernel& tile) {
    const bool promoted = tile.order.chain != 0;
    return fmt::format("{}x{}{}", tile.shape.m, tile.shape.n, promoted ? "" : " unpromoted");
}

/// The power of two that the fastest loop comes near. The fields of the shipped table if no loop was measured.
std::optional<double> products_per_clock(const std::vector<LoopRate>& rates) {
    double most = 0;
    for (const LoopRate& rate : rates) most = std::max(most, rate.products());
    return most > 0 ? std::optional(power_of_two(most)) : std::nullopt;
}

void add_loops(const DeviceTimings& timings, const std::vector<LoopRate>& rates, Figures& figures) {
    for (const LoopRate& rate : rates) {
        const planner::Loop model = planner::loop(hopper::Design(rate.tile));
        figures.other("loop " + tile_text(rate.tile), rate.clocks, "clocks/k-block",
                      model.tensor_clocks + model.stall_clocks);
    }
    for (std::size_t i = 0; i + 1 < timings.stores.size(); i += 2) {
        const TileTimes& few = timings.stores[i];
        const auto loop = std::ranges::find(rates, few.tile, &LoopRate::tile);
        if (loop == rates.end()) continue;
        figures.other("store " + tile_text(few.tile), stored_bytes_of_clock(few, timings.stores[i + 1], loop->clocks),
                      "B/clock/SM", planner::fitted_model.store_bytes_per_clock);
    }
}

}  // namespace

TransferLine fitted_line(const std::vector<Transfer>& transfers, const std::string& what) {
    const auto count = static_cast<double>(transfers.size());
    double bytes = 0, seconds = 0, squares = 0, products = 0;
    for (const Transfer& each : transfers) bytes += each.bytes / count, seconds += each.seconds / count;
    for (const Transfer& each : transfers) {
        squares += (each.bytes - bytes) * (each.bytes - bytes);
        products += (each.bytes - bytes) * (each.seconds - seconds);
    }
    if (!(squares > 0)) throw Error(what + ": got times of one size; expected two sizes or more");
    const double each_byte = positive(products / squares, what.c_str());
    return {.start = seconds - each_byte * bytes, .each_byte = each_byte};
}

double clocks_of_k_block(const TileTimes& short_k, const TileTimes& long_k) {
    const auto blocks = static_cast<double>((long_k.k_blocks - short_k.k_blocks) * short_k.waves);
    return (long_k.time.clocks() - short_k.time.clocks()) / blocks;
}

double stored_bytes_of_clock(const TileTimes& few_waves, const TileTimes& many_waves, double clocks_of_k_block) {
    constexpr double element_bytes = 2;
    const double bytes = element_bytes * few_waves.tile.shape.m * few_waves.tile.shape.n;
    const auto waves = static_cast<double>(many_waves.waves - few_waves.waves);
    const double of_wave = (many_waves.time.clocks() - few_waves.time.clocks()) / waves;
    return bytes / positive(of_wave - static_cast<double>(few_waves.k_blocks) * clocks_of_k_block, "a tile's store");
}

std::optional<double> power_hertz(const PowerTest& test, const DeviceDescription& device) {
    if (test.hertz >= at_boost * device.boost_hertz) return std::nullopt;
    const planner::Workload work = planner::workload(problem_of(test.sizes));
    const auto clock = [&](double power) {
        DeviceDescription limited = device;
        limited.power_hertz = power;
        return planner::cost(test.tile, work, limited).clock_hertz;
    };
    double low = 1e8, high = 1e11;  // as read_device takes them
    for (int i = 0; i < 60; ++i) {
        const double middle = std::sqrt(low * high);
        (clock(middle) < test.hertz ? low : high) = middle;
    }
    return low;
}

std::vector<Figure> device_figures(const DeviceTimings& timings, const DeviceDescription& shipped) {
    const planner::ReportedGpu& gpu = timings.gpu;
    positive(gpu.sms, "sms");
    positive(gpu.clock_hertz, "the highest SM clock");
    const TransferLine reads = fitted_line(timings.reads, "reads from memory");
    const TransferLine writes = fitted_line(timings.writes, "writes to memory");
    const std::vector<LoopRate> rates = loop_rates(timings);
    const std::string taken = "assumed: the " + shipped.name + "'s";
    constexpr double shortest = 1e-8;  // as read_device takes it

    DeviceDescription device = shipped;
    device.sms = gpu.sms;
    device.boost_hertz = gpu.clock_hertz;
    const std::optional<double> products = products_per_clock(rates);
    if (products) device.fp8_products_per_clock = static_cast<int>(*products);
    device.memory_bytes_per_second = 1 / reads.each_byte;
    const std::optional<double> power = timings.power ? power_hertz(*timings.power, device) : std::optional<double>();

    const int bf16_products = std::max(1, device.fp8_products_per_clock / 2);
    Figures figures(shipped);
    figures.field("sms", gpu.sms, "SMs", "cuDeviceGetAttribute");
    figures.field("boost_hertz", gpu.clock_hertz, "Hz", "highest SM clock, cuDeviceGetAttribute");
    figures.field(
        "power_hertz", power ? *power : shipped.power_hertz, "Hz",
        power ? fmt::format("measured: the clock of an unpromoted product is {:.3g} GHz", timings.power->hertz / 1e9)
              : taken + ", because power limited no clock");
    figures.field("fp8_products_per_clock", device.fp8_products_per_clock, "1/SM",
                  products ? "measured: the power of two next to the fastest loop" : taken);
    figures.field("bf16_products_per_clock", bf16_products, "1/SM", "half of fp8 (data sheet ratio)");
    figures.field("memory_bytes_per_second", 1 / reads.each_byte, "B/s",
                  fmt::format("measured: reads by TMA with a clean L2, seconds = {:.3g} + bytes / {:.4g}", reads.start,
                              1 / reads.each_byte));
    figures.field("l2_bytes_per_second",
                  timings.l2_of_all.bytes / moving(timings.l2_of_all, reads.start, "L2 to all SMs"), "B/s",
                  "measured: TMA, each SM reads its own lines");
    figures.field("l2_bytes_per_clock",
                  std::round(timings.l2_of_one.bytes / moving(timings.l2_of_one, reads.start, "L2 to one SM") /
                             positive(timings.l2_of_one.hertz, "the clock of one SM")),
                  "B/SM", "measured: TMA to one SM");
    figures.field("l2_bytes", static_cast<double>(gpu.l2_bytes), "B", "cuDeviceGetAttribute");
    figures.field(
        "written_byte", writes.each_byte / reads.each_byte, "-",
        fmt::format("measured: seconds of a write = {:.3g} + bytes / {:.4g}", writes.start, 1 / writes.each_byte));
    figures.field(
        "memory_latency",
        timings.shallow_bytes * gpu.sms * moving(timings.shallow, reads.start, "shallow reads") / timings.shallow.bytes,
        "s", fmt::format("measured: with {:.0f} KiB in flight on each SM", timings.shallow_bytes / 1024));
    figures.field("shared_bytes_per_block", hopper::shared_bytes_limit, "B",
                  "compute capability 9.0 (CUDA C++ programming guide, 17.7)");
    figures.field("cluster_2_sms", timings.pairs_at_once ? 2 * *timings.pairs_at_once : gpu.sms / 2 * 2, "SMs",
                  timings.pairs_at_once ? "cuOccupancyMaxActiveClusters, 226 KiB a block" : "assumed: all SMs");
    figures.field("start_seconds", std::max(shortest, reads.start - timings.empty_kernel), "s",
                  "measured: the start of the reads without that of an empty kernel");
    figures.field("launch_seconds", positive(timings.empty_kernel, "an empty kernel"), "s",
                  "measured: a kernel that does nothing");

    const double copied = 2 * timings.copy.bytes;
    figures.other("copy", copied / moving(timings.copy, reads.start, "a copy"), "B/s",
                  2 * shipped.memory_bytes_per_second / (1 + shipped.written_byte));
    if (timings.power) {
        const planner::Workload work = planner::workload(problem_of(timings.power->sizes));
        figures.other("clock under load", timings.power->hertz, "Hz",
                      planner::cost(timings.power->tile, work, shipped).clock_hertz);
    }
    add_loops(timings, rates, figures);
    return figures.take();
}

std::string device_file(const std::vector<Figure>& figures, const std::string& name, const planner::ReportedGpu& gpu,
                        const std::string& comment) {
    constexpr std::string_view vendor = "NVIDIA ";
    const bool of_vendor = gpu.name.starts_with(vendor);
    std::string text =
        fmt::format("# {}\nfield\tvalue\tunit\tsource\nname\t{}\t-\tchosen by the user\n", comment, name);
    text += fmt::format("driver_name\t{}\t-\thow cuDeviceGetName begins, after \"NVIDIA \"\n",
                        of_vendor ? gpu.name.substr(vendor.size()) : gpu.name);
    for (const Figure& figure : figures) {
        const bool whole = figure.value == std::round(figure.value) && std::abs(figure.value) < 1e9;
        const std::string value = whole ? fmt::format("{:.0f}", figure.value) : fmt::format("{:.4g}", figure.value);
        if (figure.is_field) text += fmt::format("{}\t{}\t{}\t{}\n", figure.name, value, figure.unit, figure.source);
    }
    std::string mistakes;
    for (const planner::TsvProblem& problem : planner::parse_device(text).problems) mistakes += "\n" + problem.text();
    if (!mistakes.empty()) throw Error("the figures make no device file; run again on an idle GPU:" + mistakes);
    return text;
}

std::string figures_text(const std::vector<Figure>& figures, const std::string& shipped_name) {
    output::Table table({{.title = "figure"},
                         {.title = "measured", .right = true},
                         {.title = shipped_name, .right = true},
                         {.title = "ratio", .right = true},
                         {.title = "unit"}});
    for (const Figure& figure : figures) {
        const bool assumed = figure.source.starts_with("assumed");
        table.add({figure.name, assumed ? "assumed" : fmt::format("{:.4g}", figure.value),
                   figure.shipped > 0 ? fmt::format("{:.4g}", figure.shipped) : "",
                   figure.shipped > 0 && !assumed ? fmt::format("{:.3f}", figure.value / figure.shipped) : "",
                   figure.unit});
    }
    return table.text();
}

}  // namespace tilewright::bench
