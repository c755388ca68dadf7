// Fits the constants of src/plan/model.h to records of measured candidates and prints them as C++:
//
//   tools/fit_planner benchmarks/results/h200_candidates.jsonl [more records] [--rounds 0]
//   tools/fit_planner benchmarks/results/h100_candidates.jsonl --device h100
//   tools/fit_planner RECORD --rounds 0 --worst 10
//
// The second form fits the numbers of a device that no data sheet has, for src/plan/devices. --half 0
// or 1 fits to one half of the problems. The other half shows what the constants are worth on problems that they never
// saw.
//
// It minimises how much slower the model's choices are than the best measured ones, and also the error of the
// predictions. With --rounds 0 it only prints what the choices lose against the best shipped tile, by kind and
// half. Option --worst N adds the largest losses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/record.h"
#include "plan/shipped_tiles.h"

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
    Parameter{"latency_share", [](Constants& c) -> double& { return c.model.latency_share; }, 0.7, 2.0},
    Parameter{"l2_share", [](Constants& c) -> double& { return c.model.l2_share; }, 0.5, 2.0},
    Parameter{"epilogue_clocks", [](Constants& c) -> double& { return c.model.epilogue_clocks; }, 10, 3000},
    Parameter{"store_bytes_per_clock", [](Constants& c) -> double& { return c.model.store_bytes_per_clock; }, 8, 128},
    Parameter{"narrow_store", [](Constants& c) -> double& { return c.model.narrow_store; }, 0.01, 2.0},
    Parameter{"thread_store", [](Constants& c) -> double& { return c.model.thread_store; }, 1.0, 20},
    Parameter{"exposed_epilogue", [](Constants& c) -> double& { return c.model.exposed_epilogue; }, 0.01, 1.0},
    Parameter{"neighbour_share", [](Constants& c) -> double& { return c.model.neighbour_share; }, 0.02, 1},
    Parameter{"lone_stall", [](Constants& c) -> double& { return c.model.lone_stall; }, 0.3, 1.5},
    Parameter{"busy_clock", [](Constants& c) -> double& { return c.model.busy_clock; }, 0.9, 1},
    Parameter{"power_seconds", [](Constants& c) -> double& { return c.model.power_seconds; }, 1e-6, 1e-4},
    Parameter{"block_seconds", [](Constants& c) -> double& { return c.model.block_seconds; }, 1e-10, 1e-8},
    Parameter{"taking_seconds", [](Constants& c) -> double& { return c.model.taking_seconds; }, 1e-8, 1e-6},
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

/// From the constants in model.h and, with more starts than one, others all over their bounds; the best is polished.
/// A record gives one set of constants, however often it is fitted to.
Constants fit(const std::vector<RecordedShape>& shapes, const Parameters& parameters, const Constants& first,
              int rounds, int starts) {
    std::vector<Fitted> found(static_cast<std::size_t>(starts));
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

/// Which half of the problems this is: by a digest of its key, the same on all machines.
int half_of(const RecordedShape& shape) {
    std::uint32_t digest = 2166136261U;  // FNV-1a
    for (const char letter : shape.work.key) digest = (digest ^ static_cast<unsigned char>(letter)) * 16777619U;
    return static_cast<int>(digest >> 16 & 1);
}

/// A choice of the planner without tuned rows, against the best shipped tile that was measured.
struct Loss {
    const RecordedShape* shape = nullptr;
    hopper::Kernel chosen{};
    const MeasuredTile* measured = nullptr;  // of the choice; null if it was not measured
    const MeasuredTile* best = nullptr;

    double share() const { return measured == nullptr ? HUGE_VAL : measured->seconds / best->seconds - 1; }
};

Loss loss_of(const RecordedShape& shape) {
    Loss loss{.shape = &shape, .chosen = choose(shape.work, shape.device, {})};
    for (const MeasuredTile& each : shape.measured) {
        if (ships(each.tile) && (loss.best == nullptr || each.seconds < loss.best->seconds)) loss.best = &each;
        if (each.tile == loss.chosen) loss.measured = &each;
    }
    return loss;
}

void print_group(const std::string& label, const std::vector<Loss>& losses, auto&& belongs) {
    double sum = 0, worst = 0;
    int count = 0, beyond = 0, unknown = 0;
    for (const Loss& loss : losses) {
        if (!belongs(*loss.shape)) continue;
        if (loss.measured == nullptr) {
            ++unknown;
            continue;
        }
        ++count;
        sum += loss.share();
        worst = std::max(worst, loss.share());
        beyond += loss.share() > 0.08 ? 1 : 0;
    }
    if (count + unknown == 0) return;
    fmt::print("// {:<12} {:4} problems: mean {:5.2f} %, worst {:5.1f} %, {} beyond 8 %, {} choices never measured\n",
               label, count, 100 * sum / std::max(count, 1), 100 * worst, beyond, unknown);
}

void print_terms(const char* label, const hopper::Kernel& tile, double seconds, const RecordedShape& shape) {
    const Cost c = cost(tile, shape.work, shape.device);
    fmt::print(
        "//   {:<7} {:<44} measured {:8.2f}, predicted {:8.2f} us: launch {:.2f}, memory {:.2f}, compute {:.2f} "
        "(tensor {:.2f}, promotion {:.2f}, delivery {:.2f}, epilogue {:.2f}, waves {:.2f}), overlap {:.2f}, "
        "reduction {:.2f}\n",
        label, name(planned_tile(tile)), seconds * 1e6, c.seconds * 1e6, c.launch * 1e6, c.memory * 1e6,
        c.compute * 1e6, c.tensor * 1e6, c.promotion * 1e6, c.delivery * 1e6, c.epilogue * 1e6, c.waves * 1e6,
        c.overlap * 1e6, c.reduction * 1e6);
}

void print_losses(const std::vector<RecordedShape>& shapes, int worst) {
    std::vector<Loss> losses;
    for (const RecordedShape& shape : shapes) {
        const Loss loss = loss_of(shape);
        if (loss.best != nullptr) losses.push_back(loss);
    }
    std::ranges::stable_sort(losses, std::greater<>(), &Loss::share);
    print_group("all", losses, [](const RecordedShape&) { return true; });
    for (const int half : {0, 1}) {
        print_group(fmt::format("half {}", half), losses, [&](const RecordedShape& s) { return half_of(s) == half; });
    }
    const auto kind = [](const RecordedShape& shape) { return shape.work.key.substr(0, shape.work.key.find(' ')); };
    std::set<std::string> kinds;
    for (const RecordedShape& shape : shapes) kinds.insert(kind(shape));
    for (const std::string& each : kinds) {
        print_group(each, losses, [&](const RecordedShape& s) { return kind(s) == each; });
    }
    for (std::size_t i = 0; i < std::min(losses.size(), static_cast<std::size_t>(worst)); ++i) {
        const Loss& loss = losses[i];
        fmt::print("// {}: {:.1f} %\n", loss.shape->work.key, 100 * loss.share());
        print_terms("choice", loss.chosen, loss.measured == nullptr ? 0 : loss.measured->seconds, *loss.shape);
        print_terms("best", loss.best->tile, loss.best->seconds, *loss.shape);
    }
}

int run(const std::vector<std::string>& arguments) {
    std::vector<RecordedShape> shapes;
    int rounds = 40, worst = 0, half = -1, starts = 32;
    const std::map<std::string_view, int*> numbers{
        {"--rounds", &rounds}, {"--worst", &worst}, {"--half", &half}, {"--starts", &starts}};
    Constants first;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto number = numbers.find(arguments[i]);
        if (number != numbers.end() && i + 1 < arguments.size()) {
            *number->second = std::atoi(arguments[++i].c_str());
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
    std::vector<RecordedShape> fitted = shapes;
    std::erase_if(fitted, [&](const RecordedShape& shape) { return half >= 0 && half_of(shape) != half; });
    Constants constants = rounds == 0 ? first : fit(fitted, parameters, first, rounds, starts);
    for (const Parameter& parameter : parameters) {
        const double number = parameter.number(constants);
        if (first.of_device) {
            fmt::print("{}\t{:.4g}\n", parameter.name, number);
        } else {
            fmt::print("    double {} = {:.4g};\n", parameter.name, number);
        }
    }
    if (rounds == 0 && !first.of_device) {
        print_losses(shapes, worst);
        return 0;
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
