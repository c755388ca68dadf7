#include "bench/peers_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "bench/peers_text.h"

namespace tilewright::bench {

std::vector<PeerTime> parse_peers(const std::string& lines) {
    std::vector<PeerTime> table;
    std::istringstream text(lines);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        if (line.empty()) continue;
        try {
            const nlohmann::json row = nlohmann::json::parse(line);
            table.push_back({.peer = row.at("peer"),
                             .operation = row.at("op"),
                             .shape = row.at("shape"),
                             .seconds = row.at("us").get<double>() * 1e-6});
        } catch (const nlohmann::json::exception& error) {
            throw std::runtime_error(fmt::format("peers' table, line {}: {}", number, error.what()));
        }
    }
    return table;
}

const std::vector<PeerTime>& peers_table() {
    static const std::vector<PeerTime> table = parse_peers(peers_text);
    return table;
}

std::optional<double> peer_seconds(const std::vector<PeerTime>& table, const std::string& peer,
                                   const BenchShape& shape) {
    const std::string operation = operation_name(shape.grouping);
    const std::vector<std::int64_t> key = shape_key(shape);
    const auto found = std::find_if(table.begin(), table.end(), [&](const PeerTime& row) {
        return row.operation == operation && row.shape == key && row.peer.rfind(peer, 0) == 0;
    });
    if (found == table.end()) return std::nullopt;
    return found->seconds;
}

std::vector<BenchShape> peer_shapes(const std::vector<PeerTime>& table, Grouping grouping) {
    std::vector<BenchShape> shapes;
    for (const PeerTime& row : table) {
        if (row.operation != operation_name(grouping)) continue;
        const std::optional<BenchShape> shape = shape_of_key(grouping, row.shape);
        const bool known = !shape || std::any_of(shapes.begin(), shapes.end(), [&](const BenchShape& other) {
            return shape_key(other) == row.shape;
        });
        if (!known) shapes.push_back(*shape);
    }
    return shapes;
}

const char* baseline(const Recipe& recipe, Grouping grouping) {
    switch (recipe.a.granularity) {
        case Granularity::tensor: return blas_peer;
        case Granularity::row:
            return grouping == Grouping::dense ? "torch 2.11 _scaled_mm per-row"
                                               : "torch 2.11 _scaled_grouped_mm per-row";
        default: return "DeepGEMM";
    }
}

std::optional<double> speed_against_baseline(const std::vector<PeerTime>& table, const Recipe& recipe,
                                             const BenchShape& shape, double ours, std::optional<double> blas_live) {
    const bool dense = shape.grouping == Grouping::dense;
    const std::optional<double> baseline_then = peer_seconds(table, baseline(recipe, shape.grouping), shape);
    const std::optional<double> blas_then = peer_seconds(table, blas_peer, dense ? shape : grouped_reference);
    if (!baseline_then || !blas_then || !blas_live || *blas_live <= 0 || ours <= 0) return std::nullopt;
    return *baseline_then / (ours * *blas_then / *blas_live);
}

}  // namespace tilewright::bench
