#include "cli/tune_shape.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include <algorithm>

#include "cli/terminal.h"
#include "cuda/runtime.h"
#include "launch/choose.h"
#include "plan/work.h"
#include "problem/geometry.h"

namespace tilewright::cli {
namespace {

class Trial {
public:
    Trial(GpuBench& bench, GpuOperands& operands, const GpuSettings& settings)
        : bench_(bench),
          operands_(operands),
          settings_(settings),
          problem_(operands.on_device()),
          geometry_(geometry(problem_)),
          sum_(sizeof(std::uint64_t)) {}

    measure::Contestant contestant(const PlannedTile& tile) const {
        const hopper::Tile kernel = launch::runnable_tile(tile, problem_, bench_.description());
        return {.name = name(tile), .call = [this, kernel](cuda::StreamHandle stream) {
                    cuda::runtime().run(geometry_, kernel, {.stream = stream, .sm_limit = settings_.sm_limit});
                }};
    }

    /// Of D, written anew.
    std::uint64_t hash(const measure::Contestant& contestant) {
        measure::Device& device = bench_.device();
        operands_.poison_output();
        sum_.fill(0);
        device.synchronize();
        contestant.call(device.stream());
        device.enqueue_hash(operands_.output(), sum_, device.stream());
        device.synchronize();
        cuda::runtime().device(0).check_report();
        std::uint64_t sum = 0;
        sum_.download(&sum, sizeof(sum));
        return sum;
    }

private:
    GpuBench& bench_;
    GpuOperands& operands_;
    const GpuSettings& settings_;
    Problem problem_;
    Geometry geometry_;
    measure::Buffer sum_;
};

/// The first tile's result is judged by the gates, the others' must equal it.
std::string check_tiles(Trial& trial, GpuOperands& operands, const std::vector<measure::Contestant>& contestants,
                        const PlannedTile& first) {
    const std::uint64_t right = trial.hash(contestants.front());
    operands.fetch_output();
    const std::string failure = judged_output(operands, first);
    if (!failure.empty()) return fmt::format("{}: {}", contestants.front().name, failure);
    for (const measure::Contestant& contestant : contestants) {
        if (trial.hash(contestant) != right) {
            return fmt::format("{}: other bits than {}", contestant.name, contestants.front().name);
        }
    }
    return "";
}

}  // namespace

const TriedTile& TunedShape::best() const {
    return *std::min_element(tried.begin(), tried.end(), [](const TriedTile& x, const TriedTile& y) {
        return x.measured.seconds < y.measured.seconds;
    });
}

TunedShape tune_shape(GpuBench& bench, const BenchShape& shape, const GpuSettings& settings, std::size_t most) {
    GpuOperands operands = gpu_operands(shape, settings);
    const Problem problem = operands.on_device();
    std::vector<Finding> findings = validate(problem, Backend::hopper);
    if (!findings.empty()) throw Error(std::move(findings));
    std::vector<Plan> plans = launch::runnable_plans(problem, bench.description());
    if (most > 0 && plans.size() > most) plans.resize(most);

    TunedShape tuned{.shape = shape, .key = planner::describe(problem).key};
    Trial trial(bench, operands, settings);
    std::vector<measure::Contestant> contestants;
    contestants.reserve(plans.size());
    for (const Plan& plan : plans) contestants.push_back(trial.contestant(plan.tile));
    tuned.failure = check_tiles(trial, operands, contestants, plans.front().tile);
    if (!tuned.failure.empty()) return tuned;
    const std::vector<measure::Measurement> measured = bench.stopwatch().race(contestants, settings.repeats);
    for (std::size_t i = 0; i < plans.size(); ++i) tuned.tried.push_back({plans[i], measured[i]});
    return tuned;
}

std::string tuned_row(const TunedShape& tuned, const std::string& device, const std::string& date,
                      const std::string& command) {
    return fmt::format("{}\t{}\t{}\t{}\t{}\n", device, tuned.key, name(tuned.best().plan.tile), date, command);
}

std::string tried_text(const TunedShape& tuned) {
    std::vector<TriedTile> order = tuned.tried;
    std::stable_sort(order.begin(), order.end(),
                     [](const TriedTile& x, const TriedTile& y) { return x.measured.seconds < y.measured.seconds; });
    Table table({{.title = "tile"},
                 {.title = "us", .right = true},
                 {.title = "GHz", .right = true},
                 {.title = "predicted us", .right = true},
                 {.title = "slower", .right = true},
                 {.title = ""}});
    const double best = order.front().measured.seconds;
    for (const TriedTile& tried : order) {
        table.add({name(tried.plan.tile), fmt::format("{:.2f}", tried.measured.seconds * 1e6),
                   fmt::format("{:.2f}", tried.measured.hertz * 1e-9),
                   fmt::format("{:.2f}", tried.plan.cost.seconds * 1e6),
                   fmt::format("{:.1f} %", (tried.measured.seconds / best - 1) * 100),
                   tried.plan.tile == tuned.tried.front().plan.tile ? "the planner's choice" : ""});
    }
    return fmt::format("{}\n{}", tuned.key, table.text());
}

}  // namespace tilewright::cli
