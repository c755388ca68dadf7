// Fits the constants of src/plan/model.h to records of measured candidates and prints them as C++:
//
//   tools/fit_planner benchmarks/results/h200_candidates.jsonl [more records] [--rounds 0]
//   tools/fit_planner benchmarks/results/h100_candidates.jsonl --device h100
// The second form fits the numbers of a device that no data sheet has, and prints them for src/plan/devices.
//
// It minimises how much slower the model's choices are than the best measured ones, and also the error of the
// predictions. With --rounds 0 it only prints how good the constants in model.h are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "plan/cost.h"
#include "plan/record.h"

namespace tilewright::planner {
namespace {

/// What is fitted: the constants of all devices, or those of one that no data sheet has.
struct Constants {
    Model model = fitted_model;
    DeviceDescription device{};
    bool of_device = false;

    /// The device that a shape was measured on, with what is fitted of it.
    const DeviceDescription& of(const RecordedShape& shape) const { return of_device ? device : shape.device; }
};

struct Parameter {
    const char* name;
    double& (*number)(Constants&);
    double least;
    double most;
};
using Parameters = std::vector<Parameter>;

// Bounds keep a constant to what it may mean, where a record says little about it.
const Parameters model_parameters{
    Parameter{"reduction_seconds", [](Constants& c) -> double& { return c.model.reduction_seconds; }, 1e-7, 2e-6},
    Parameter{"peer_bytes_per_clock", [](Constants& c) -> double& { return c.model.peer_bytes_per_clock; }, 4, 64},
    Parameter{"multicast_clocks", [](Constants& c) -> double& { return c.model.multicast_clocks; }, 1, 80},
    Parameter{"multicast_stall", [](Constants& c) -> double& { return c.model.multicast_stall; }, 0.005, 0.1},
    Parameter{"promoted_energy", [](Constants& c) -> double& { return c.model.promoted_energy; }, 0.25, 1.25},
    Parameter{"l2_byte_energy", [](Constants& c) -> double& { return c.model.l2_byte_energy; }, 1e-4, 2e-2},
    Parameter{"latency_share", [](Constants& c) -> double& { return c.model.latency_share; }, 0.7, 2.0},
    Parameter{"l2_share", [](Constants& c) -> double& { return c.model.l2_share; }, 0.5, 2.0},
    Parameter{"epilogue_clocks", [](Constants& c) -> double& { return c.model.epilogue_clocks; }, 10, 3000},
    Parameter{"store_bytes_per_clock", [](Constants& c) -> double& { return c.model.store_bytes_per_clock; }, 8, 128},
    Parameter{"narrow_store", [](Constants& c) -> double& { return c.model.narrow_store; }, 0.01, 2.0},
    Parameter{"thread_store", [](Constants& c) -> double& { return c.model.thread_store; }, 1.0, 20},
    Parameter{"exposed_epilogue", [](Constants& c) -> double& { return c.model.exposed_epilogue; }, 0.01, 1.0},
    Parameter{"start_seconds", [](Constants& c) -> double& { return c.model.start_seconds; }, 0, 2e-6},
    Parameter{"cluster_seconds", [](Constants& c) -> double& { return c.model.cluster_seconds; }, 1e-8, 2e-6},
    Parameter{"imperfect_overlap", [](Constants& c) -> double& { return c.model.imperfect_overlap; }, 0.005, 0.6},
    Parameter{"crowding", [](Constants& c) -> double& { return c.model.crowding; }, 0.01, 1},
};
// The rate of memory is not among them: the line through the times of weights that are streamed gives it.
const Parameters device_parameters{
    Parameter{"power_hertz", [](Constants& c) -> double& { return c.device.power_hertz; }, 1.5e9, 3.5e9},
    Parameter{"l2_bytes_per_second", [](Constants& c) -> double& { return c.device.l2_bytes_per_second; }, 4e12, 14e12},
    Parameter{"written_byte", [](Constants& c) -> double& { return c.device.written_byte; }, 0.7, 2.0},
    Parameter{"memory_latency", [](Constants& c) -> double& { return c.device.memory_latency; }, 0.8e-6, 2e-6},
    Parameter{"start_seconds", [](Constants& c) -> double& { return c.device.start_seconds; }, 0.5e-6, 3e-6},
};

/// A tile that a record lacks was believed slower than its others. It is assumed to be this much slower than the best.
constexpr double unmeasured_slower = 0.08;
/// Two predictions that differ by less than this are as good as equal: so the loss is smooth.
constexpr double indifference = 0.01;

struct Errors {
    double choice = 0;      // how much slower the choices are, mean
    double prediction = 0;  // of logarithms, mean square, near the best
};

Errors errors_of(const RecordedShape& shape, const Constants& constants) {
    struct Entry {
        double predicted;
        double slower;
    };
    std::vector<Entry> entries;
    const double best = shape.best();
    double least = HUGE_VAL;
    Errors errors;
    double weights = 0;
    for (const MeasuredTile& measured : shape.measured) {
        const double predicted = cost(measured.tile, shape.work, constants.of(shape), constants.model).seconds;
        const double slower = measured.seconds / best - 1;
        const double error = std::log(predicted / measured.seconds);
        const double weight = std::exp(-slower / 0.15);
        errors.prediction += weight * error * error;
        weights += weight;
        entries.push_back({predicted, slower});
        least = std::min(least, predicted);
    }
    errors.prediction /= weights;
    for (const hopper::Kernel& tile : shape.unmeasured) {
        entries.push_back({cost(tile, shape.work, constants.of(shape), constants.model).seconds, unmeasured_slower});
        least = std::min(least, entries.back().predicted);
    }
    double chances = 0;
    for (const Entry& entry : entries) {
        const double chance = std::exp(-(entry.predicted / least - 1) / indifference);
        errors.choice += chance * std::min(entry.slower, 0.5);
        chances += chance;
    }
    errors.choice /= chances;
    return errors;
}

double loss(const std::vector<RecordedShape>& shapes, const Constants& constants) {
    double sum = 0;
    for (const RecordedShape& shape : shapes) {
        const Errors errors = errors_of(shape, constants);
        // The worst choices count most: the test bounds each of them.
        sum += errors.choice + 10 * errors.choice * errors.choice + errors.prediction;
    }
    return sum / static_cast<double>(shapes.size());
}

struct Fitted {
    Constants constants;
    double loss = HUGE_VAL;
};

class Numbers {
public:
    explicit Numbers(std::uint64_t seed) : random_(seed) {}
    double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

private:
    std::mt19937_64 random_;
};

/// One constant after the other up and down, by steps that shrink; between them all at random.
Fitted descend(const std::vector<RecordedShape>& shapes, const Parameters& parameters, const Constants& start,
               int rounds, Numbers& numbers) {
    Fitted best{start, loss(shapes, start)};
    const auto take_if_better = [&](const Constants& next) {
        const double now = loss(shapes, next);
        if (now < best.loss) best = {next, now};
    };
    for (int round = 0; round < rounds; ++round) {
        const double step = 0.4 * std::pow(0.05, static_cast<double>(round) / rounds);
        for (const Parameter& parameter : parameters) {
            for (const double factor : {1 + step, 1 / (1 + step)}) {
                Constants next = best.constants;
                double& number = parameter.number(next);
                number = std::clamp(number * factor, parameter.least, parameter.most);
                take_if_better(next);
            }
        }
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            Constants next = best.constants;
            for (const Parameter& parameter : parameters) {
                const double factor = std::exp(step * (numbers.unit() - 0.5));
                double& number = parameter.number(next);
                number = std::clamp(number * factor, parameter.least, parameter.most);
            }
            take_if_better(next);
        }
    }
    return best;
}

/// `share` of the way from the least to the most: in powers, where the least is not 0.
double between(const Parameter& parameter, double share) {
    if (parameter.least == 0) return share * parameter.most;
    return parameter.least * std::pow(parameter.most / parameter.least, share);
}

/// From the constants in model.h and from others all over their bounds; the best is polished. The same
/// record gives the same constants.
Constants fit(const std::vector<RecordedShape>& shapes, const Parameters& parameters, const Constants& first,
              int rounds) {
    constexpr int starts = 32;
    std::vector<Fitted> found(starts);
#pragma omp parallel for schedule(dynamic)
    for (int start = 0; start < starts; ++start) {
        Numbers numbers(static_cast<std::uint64_t>(start) + 1);
        Constants constants = first;
        for (const Parameter& parameter : parameters) {
            const double from_bounds = between(parameter, numbers.unit());
            double& number = parameter.number(constants);
            number = start == 0 ? std::clamp(number, parameter.least, parameter.most) : from_bounds;
        }
        found[static_cast<std::size_t>(start)] = descend(shapes, parameters, constants, rounds, numbers);
        fmt::print(stderr, "start {}: {:.5f}\n", start + 1, found[static_cast<std::size_t>(start)].loss);
    }
    Numbers numbers(0);
    const Constants& best = std::ranges::min_element(found, {}, &Fitted::loss)->constants;
    return descend(shapes, parameters, best, rounds, numbers).constants;
}

void print_verdicts(const std::vector<RecordedShape>& shapes, const Constants& constants) {
    double logarithms = 0;
    for (const RecordedShape& shape : shapes) {
        const Verdict verdict = judge(shape, constants.of(shape), constants.model);
        logarithms += std::log(verdict.predicted / shape.best());
        fmt::print("// {:<62} best {:7.2f} us, predicted {:7.2f} us, choice {:<8} {}\n", shape.work.key,
                   shape.best() * 1e6, verdict.predicted * 1e6,
                   verdict.slower == 0 ? "unknown" : fmt::format("{:+.1f} %", (verdict.slower - 1) * 100),
                   name(planned_tile(verdict.chosen)));
    }
    fmt::print("// predicted over the best measured, geometric mean {:.3f}; loss {:.5f}\n",
               std::exp(logarithms / static_cast<double>(shapes.size())), loss(shapes, constants));
}

int run(const std::vector<std::string>& arguments) {
    std::vector<RecordedShape> shapes;
    int rounds = 40;
    Constants first;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i] == "--rounds" && i + 1 < arguments.size()) {
            rounds = std::atoi(arguments[++i].c_str());
            continue;
        }
        if (arguments[i] == "--device" && i + 1 < arguments.size()) {
            first.device = device_named(arguments[++i]);
            first.of_device = true;
            continue;
        }
        for (RecordedShape& shape : read_record(arguments[i])) shapes.push_back(std::move(shape));
    }
    std::erase_if(shapes, [&](const RecordedShape& shape) {
        return shape.measured.empty() || (first.of_device && shape.device.name != first.device.name);
    });
    if (shapes.empty()) {
        fmt::print(stderr, "fit_planner: name a record that tilewright tune --json wrote, with tiles that are legal\n");
        return 2;
    }
    const Parameters& parameters = first.of_device ? device_parameters : model_parameters;
    Constants constants = rounds == 0 ? first : fit(shapes, parameters, first, rounds);
    for (const Parameter& parameter : parameters) {
        const double number = parameter.number(constants);
        if (first.of_device) {
            fmt::print("{}\t{:.4g}\n", parameter.name, number);
        } else {
            fmt::print("    double {} = {:.4g};\n", parameter.name, number);
        }
    }
    print_verdicts(shapes, constants);
    return 0;
}

}  // namespace
}  // namespace tilewright::planner

int main(int count, char** values) {
    try {
        return tilewright::planner::run({values + 1, values + count});
    } catch (const std::exception& error) {
        fmt::print(stderr, "fit_planner: {}\n", error.what());
        return 1;
    }
}
