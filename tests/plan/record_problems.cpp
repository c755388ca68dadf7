#include "plan/record_problems.h"

#include <bit>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>

namespace tilewright::planner {
ProblemSizes recorded_sizes(const nlohmann::json& row) {
    const auto shape = row.at("shape").get<std::vector<std::int64_t>>();
    const std::string operation = row.at("op");
    ProblemSizes sizes{.recipe = parse_recipe(row.at("recipe").get<std::string>()).value(),
                       .output = parse_format(row.at("output").get<std::string>()).value()};
    if (row.at("accumulation") != "promoted") sizes.accumulation = Accumulation::unpromoted;
    sizes.n = shape.at(shape.size() - 2);
    sizes.k = shape.back();
    if (operation == "dense") {
        sizes.m = shape.at(0);
        return sizes;
    }
    sizes.groups = shape.at(0);
    const bool masked = operation == "m_grouped_masked";
    sizes.grouping = masked ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets;
    if (masked) {
        sizes.m = shape.at(1);
        sizes.expected_m = row.value("expected_m", shape.at(2));
        return sizes;
    }
    sizes.m = shape.at(0) * shape.at(1);
    if (!row.contains("group_sizes")) return sizes;  // nearly the mean each
    const auto rows = row.at("group_sizes").get<std::vector<std::int64_t>>();
    sizes.m = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    return sizes;
}

namespace {

/// Scales of neighbouring rows next to each other, at a pitch that TMA can step by.
void order_along_m(Operand& operand) {
    if (operand.granularity != Granularity::block_1x128) return;
    Tensor& scales = operand.scales;
    const int rank = scales.shape.rank();
    const std::int64_t pitch = (scales.shape[rank - 2] + 15) / 16 * 16;
    scales.strides[rank - 2] = 1;
    scales.strides[rank - 1] = pitch;
    if (rank == 3) scales.strides[0] = pitch * scales.shape[2];
}

Problem placed(Problem p) {
    std::uintptr_t address = 0x100000000000;
    for (Tensor* tensor : {&p.a.values, &p.b.values, &p.a.scales, &p.b.scales, &p.d, &p.groups.sizes}) {
        address += 0x10000000000;
        tensor->data = std::bit_cast<void*>(address);
        tensor->device = {.kind = DeviceId::Kind::cuda, .index = 0};
    }
    return p;
}

}  // namespace

Problem record_problem(const nlohmann::json& row) {
    Problem problem = problem_of(recorded_sizes(row));
    if (row.value("scales_along", "m") == "m") {
        order_along_m(problem.a);
        order_along_m(problem.b);
    }
    return placed(problem);
}

std::vector<Problem> record_problems(const std::vector<std::string>& paths) {
    std::vector<Problem> list;
    std::set<std::string> seen;
    for (const std::string& path : paths) {
        std::ifstream file(path);
        for (std::string line; std::getline(file, line);) {
            const nlohmann::json row = nlohmann::json::parse(line);
            if (!row.contains("tile")) continue;  // another library
            const nlohmann::json key{row["op"],           row["shape"],  row["recipe"],
                                     row["accumulation"], row["output"], row.value("scales_along", "m")};
            if (seen.insert(key.dump()).second) list.push_back(record_problem(row));
        }
    }
    if (list.empty()) throw std::runtime_error("no problem of ours in the records");
    return list;
}

}  // namespace tilewright::planner
