#include "bench/tune_shape.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <map>

#include "cuda/runtime.h"
#include "output/table.h"
#include "plan/choose.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"
#include "plan/workload.h"
#include "problem/geometry.h"

namespace tilewright::bench {
namespace {

class Trial {
public:
    Trial(GpuBench& bench, GpuOperands& operands, const Settings& settings)
        : bench_(bench),
          operands_(operands),
          settings_(settings),
          problem_(operands.on_device()),
          geometry_(geometry(problem_)) {}

    hopper::Kernel kernel(const Plan& plan) const {
        return planner::runnable_tile(planner::planned_tile(plan), problem_, bench_.description());
    }

    measure::Contestant contestant(const Plan& plan) const {
        const hopper::Kernel kernel = this->kernel(plan);
        return {.name = plan.tile, .call = [this, kernel](cuda::StreamHandle stream) {
                    cuda::runtime().run(
                        geometry_, kernel,
                        {.stream = stream, .sm_limit = settings_.sm_limit, .workspace = operands_.workspace()});
                }};
    }

    std::uint64_t hash(const measure::Contestant& contestant) {
        return output_hash(bench_.device(), operands_, contestant.call);
    }

private:
    GpuBench& bench_;
    GpuOperands& operands_;
    const Settings& settings_;
    Problem problem_;
    Geometry geometry_;
};

/// The first result with each split of k is judged by the gates, the others' must equal it.
std::string check_tiles(Trial& trial, GpuOperands& operands, const std::vector<measure::Contestant>& contestants,
                        const std::vector<Plan>& plans) {
    struct Judged {
        std::string name;
        std::uint64_t hash = 0;
    };
    std::map<int, Judged> judged;
    for (std::size_t i = 0; i < plans.size(); ++i) {
        const std::string& name = contestants[i].name;
        const std::uint64_t hash = trial.hash(contestants[i]);
        const hopper::Cluster cluster = planner::planned_tile(plans[i]).cluster;
        const auto [first, is_new] = judged.insert({cluster.k_slices, {.name = name, .hash = hash}});
        if (is_new) {
            operands.fetch_output();
            const std::string failure = judged_output(operands, trial.kernel(plans[i]));
            if (!failure.empty()) return fmt::format("{}: {}", name, failure);
        } else if (hash != first->second.hash) {
            return fmt::format("{}: other bits than {}", name, first->second.name);
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

TunedShape tune_shape(GpuBench& bench, const BenchShape& shape, const Settings& settings,
                      const Candidates& candidates) {
    GpuOperands operands = gpu_operands(shape, settings);
    const Problem problem = operands.on_device();
    std::vector<Finding> findings = validate(problem, Backend::hopper);
    if (!findings.empty()) throw Error(std::move(findings));
    std::vector<Plan> plans = planner::runnable_plans(problem, bench.description());
    Trial trial(bench, operands, settings);
    if (candidates.packed) {
        const auto compiled = [&](const Plan& plan) {
            const hopper::Kernel tile = trial.kernel(plan);
            const bool general = plan.variant == "general";
            return !planner::ships(tile) || (general && !planner::serves_general_calls(tile));
        };
        plans.erase(std::remove_if(plans.begin() + 1, plans.end(), compiled), plans.end());
    }
    if (candidates.most > 0 && plans.size() > candidates.most) plans.resize(candidates.most);

    TunedShape tuned{.shape = shape, .key = planner::workload(problem).key};
    std::vector<measure::Contestant> contestants;
    contestants.reserve(plans.size());
    for (const Plan& plan : plans) contestants.push_back(trial.contestant(plan));
    tuned.failure = check_tiles(trial, operands, contestants, plans);
    if (!tuned.failure.empty()) return tuned;
    const std::vector<measure::Measurement> measured = bench.stopwatch().race(contestants, settings.repeats);
    for (std::size_t i = 0; i < plans.size(); ++i) tuned.tried.push_back({plans[i], measured[i]});
    return tuned;
}

std::string tuned_row(const TunedShape& tuned, const std::string& device, const std::string& date,
                      const std::string& command) {
    return fmt::format("{}\t{}\t{}\t{}\t{}\n", device, tuned.key, tuned.best().plan.tile, date, command);
}

std::string tried_text(const TunedShape& tuned) {
    std::vector<TriedTile> order = tuned.tried;
    std::stable_sort(order.begin(), order.end(),
                     [](const TriedTile& x, const TriedTile& y) { return x.measured.seconds < y.measured.seconds; });
    output::Table table({{.title = "tile"},
                         {.title = "us", .right = true},
                         {.title = "GHz", .right = true},
                         {.title = "predicted us", .right = true},
                         {.title = "slower", .right = true},
                         {.title = ""}});
    const double best = order.front().measured.seconds;
    for (const TriedTile& tried : order) {
        table.add({tried.plan.tile, fmt::format("{:.2f}", tried.measured.seconds * 1e6),
                   fmt::format("{:.2f}", tried.measured.hertz * 1e-9),
                   fmt::format("{:.2f}", tried.plan.cost.seconds * 1e6),
                   fmt::format("{:.1f} %", (tried.measured.seconds / best - 1) * 100),
                   tried.plan.tile == tuned.tried.front().plan.tile ? "the planner's choice" : ""});
    }
    return fmt::format("{}\n{}", tuned.key, table.text());
}

}  // namespace tilewright::bench
