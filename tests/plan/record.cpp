#include "plan/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/legality.h"
#include "plan/record_problems.h"
#include "plan/shipped_tiles.h"
#include "problem/packed_problem.h"

namespace tilewright::planner {
namespace {

/// Batched and k-grouped lines are of no record.
Workload work_of(const nlohmann::json& row) {
    const auto operation = row.at("op").get<std::string>();
    if (operation == "batched" || operation == "k_grouped") throw std::runtime_error(operation + " is not fitted");
    const Problem problem = problem_of(recorded_sizes(row));
    return workload(takes_packed_weights(problem) ? with_packed_shape(problem, 0) : problem);
}

void add_row(const nlohmann::json& row, std::vector<RecordedShape>& shapes) {
    Workload work = work_of(row);
    const DeviceDescription device = recognise({.name = row.at("device").get<std::string>(), .sms = h200().sms});
    const auto same_key = [&](const RecordedShape& shape) {
        return shape.work.key == work.key && shape.device.name == device.name;
    };
    auto found = std::find_if(shapes.begin(), shapes.end(), same_key);
    if (found == shapes.end())
        found = shapes.insert(
            shapes.end(),
            {.work = work, .device = device, .measured = {}, .unmeasured = {}, .illegal = 0, .command = {}});
    // Lines name their grouping since then.
    found->as_users_have_them = row.contains("grouping");
    const hopper::Kernel tile =
        device_tile(parse_tile(row.at("tile").get<std::string>()).value(), shapeless_kernel(work));
    found->command = row.at("command").get<std::string>();
    if (why_illegal(tile, work, device)) {
        ++found->illegal;
        return;
    }
    std::erase_if(found->measured, [&](const MeasuredTile& earlier) { return earlier.tile == tile; });
    found->measured.push_back({tile, row.at("us").get<double>() * 1e-6});
}

void find_unmeasured(RecordedShape& shape) {
    for (const hopper::Kernel& tile : candidates(shapeless_kernel(shape.work))) {
        const auto same = [&](const MeasuredTile& measured) { return measured.tile == tile; };
        if (why_illegal(tile, shape.work, shape.device) || !ships(tile) || std::ranges::any_of(shape.measured, same))
            continue;
        shape.unmeasured.push_back(tile);
    }
}

Verdict verdict_of(const hopper::Kernel& chosen, double predicted, const RecordedShape& shape) {
    Verdict verdict{.chosen = chosen, .predicted = predicted};
    for (const MeasuredTile& measured : shape.measured) {
        if (measured.tile == chosen) verdict.slower = measured.seconds / shape.best();
    }
    return verdict;
}

}  // namespace

double RecordedShape::best() const { return std::ranges::min(measured, {}, &MeasuredTile::seconds).seconds; }

std::vector<RecordedShape> read_record(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read; tilewright tune --json writes it");
    std::vector<RecordedShape> shapes;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        try {
            add_row(nlohmann::json::parse(line), shapes);
        } catch (const std::exception& error) {
            throw std::runtime_error(fmt::format("{}, line {}: {}", path, number, error.what()));
        }
    }
    for (RecordedShape& shape : shapes) find_unmeasured(shape);
    return shapes;
}

Verdict judge(const RecordedShape& shape, const DeviceDescription& device, const Model& model) {
    // As choose.cpp: among the tiles that ship.
    std::vector<PricedTile> priced;
    const auto add = [&](const hopper::Kernel& tile) {
        priced.push_back({tile, cost(tile, shape.work, device, model)});
    };
    for (const MeasuredTile& measured : shape.measured) {
        if (ships(measured.tile)) add(measured.tile);
    }
    for (const hopper::Kernel& tile : shape.unmeasured) add(tile);
    const PricedTile& chosen = best_of(priced, last_stores_count(shape.work));
    return verdict_of(chosen.tile, chosen.cost.seconds, shape);
}

Verdict judge_planner(const RecordedShape& shape) {
    const hopper::Kernel chosen = choose(shape.work, shape.device, {});
    return verdict_of(chosen, cost(chosen, shape.work, shape.device, fitted_model).seconds, shape);
}

}  // namespace tilewright::planner
