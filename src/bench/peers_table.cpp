#include "bench/peers_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/json_lines.h"
#include "bench/peers_text.h"

namespace tilewright::bench {

namespace {

/// In h200_ragged.jsonl, which has the reference product only for this.
constexpr const char* reference_operation = "dense reference";

bool is_reference(const PeerTime& row) {
    const bool dense = row.operation == reference_operation || row.operation == operation_name(Grouping::dense);
    return dense && row.shape == shape_key(reference_product) && row.peer.rfind(blas_peer, 0) == 0;
}

struct Energy {
    std::vector<std::int64_t> shape;
    double picojoules = 0;
};

std::vector<Energy> read_energies(const std::string& lines) {
    std::vector<Energy> list;
    read_json_lines(lines, "the peers' table", [&](const nlohmann::json& row) {
        list.push_back({.shape = row.at("shape"), .picojoules = row.at("pj_per_flop")});
    });
    return list;
}

}  // namespace

std::vector<PeerTime> parse_peers(const std::string& lines) {
    std::vector<PeerTime> table;
    read_json_lines(lines, "the peers' table", [&](const nlohmann::json& row) {
        table.push_back({.peer = row.at("peer"),
                         .operation = row.at("op"),
                         .shape = row.at("shape"),
                         .seconds = row.at("us").get<double>() * 1e-6});
    });
    const auto reference = std::find_if(table.begin(), table.end(), is_reference);
    if (reference == table.end()) return table;
    const double seconds = reference->seconds;
    for (PeerTime& row : table) row.reference_seconds = seconds;
    return table;
}

const std::vector<PeerTime>& even_peers() {
    static const std::vector<PeerTime> table = parse_peers(peers_text);
    return table;
}

const std::vector<PeerTime>& ragged_peers() {
    static const std::vector<PeerTime> table = parse_peers(ragged_peers_text);
    return table;
}

const std::vector<PeerTime>& peers_table() {
    static const std::vector<PeerTime> table = [] {
        std::vector<PeerTime> both = even_peers();
        both.insert(both.end(), ragged_peers().begin(), ragged_peers().end());
        return both;
    }();
    return table;
}

const PeerTime* find_peer(const std::vector<PeerTime>& table, const std::string& peer, const BenchShape& shape) {
    const std::string operation = operation_name(shape.grouping);
    const std::vector<std::int64_t> key = shape_key(shape);
    const auto found = std::find_if(table.begin(), table.end(), [&](const PeerTime& row) {
        return row.operation == operation && row.shape == key && row.peer.rfind(peer, 0) == 0;
    });
    return found == table.end() ? nullptr : &*found;
}

std::optional<double> peer_seconds(const std::vector<PeerTime>& table, const std::string& peer,
                                   const BenchShape& shape) {
    const PeerTime* found = find_peer(table, peer, shape);
    if (found == nullptr) return std::nullopt;
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

std::optional<double> speed_against(const PeerTime* peer, double ours, std::optional<double> reference) {
    if (peer == nullptr || !reference || *reference <= 0 || peer->reference_seconds <= 0 || ours <= 0) {
        return std::nullopt;
    }
    return peer->seconds / peer->reference_seconds / (ours / *reference);
}

std::optional<double> peer_picojoules(const BenchShape& shape) {
    static const std::vector<Energy> energies = read_energies(sustained_peers_text);
    for (const Energy& each : energies) {
        if (shape.grouping == Grouping::dense && each.shape == shape_key(shape)) return each.picojoules;
    }
    return std::nullopt;
}

}  // namespace tilewright::bench
