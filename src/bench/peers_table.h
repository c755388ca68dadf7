// benchmarks/peers/h200.jsonl, which the program carries: what other libraries reach.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/shapes.h"

namespace tilewright::bench {

struct PeerTime {
    std::string peer;
    std::string operation;
    std::vector<std::int64_t> shape;
    double seconds = 0;
};

/// Throws std::runtime_error naming the line that cannot be read.
std::vector<PeerTime> parse_peers(const std::string& lines);

/// The table that ships with the program.
const std::vector<PeerTime>& peers_table();

/// The time of the first peer whose name begins so; nothing if it was not measured.
std::optional<double> peer_seconds(const std::vector<PeerTime>& table, const std::string& peer,
                                   const BenchShape& shape);

/// The shapes of one operation, each once, as the table has them. All ways to say contiguous groups have the same.
std::vector<BenchShape> peer_shapes(const std::vector<PeerTime>& table, Grouping grouping);

inline constexpr const char* blas_peer = "cuBLASLt 13.0 per-tensor";

/// The dense product that cuBLASLt, which has no grouped one, is timed with in runs of grouped calls.
inline constexpr BenchShape grouped_reference{.m = 4096, .n = 4096, .k = 7168};

/// The peer that a recipe is compared with: DeepGEMM where scales vary along k, torch for scales of rows, else
/// cuBLASLt.
const char* baseline(const Recipe& recipe, Grouping grouping);

/// The baseline's time over `ours`. Clocks differ from run to run, so both times are taken in units of
/// what cuBLASLt, per tensor, took in the same run. Nothing where one of the times is missing.
std::optional<double> speed_against_baseline(const std::vector<PeerTime>& table, const Recipe& recipe,
                                             const BenchShape& shape, double ours, std::optional<double> blas_live);

}  // namespace tilewright::bench
