// The files of benchmarks/peers, which the program contains: the times of other libraries.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/shapes.h"

namespace tilewright::bench {

inline constexpr const char* blas_peer = "cuBLASLt 13.0 per-tensor";

/// The dense product by which runs are compared. Clocks differ from run to run. Times of two runs are therefore divided
/// by cuBLASLt's time for this product in the same run, with one scale per tensor.
inline const BenchShape reference_product{.m = 4096, .n = 4096, .k = 7168};

struct PeerTime {
    std::string peer;
    std::string operation;
    std::vector<std::int64_t> shape;
    double seconds = 0;
    double reference_seconds = 0;  // cuBLASLt's time of `reference_product` in the same run; 0: not measured
};

/// The lines of one run. Throws std::runtime_error naming the line that cannot be read.
std::vector<PeerTime> parse_peers(const std::string& lines);

/// The tables that ship with the program: sizes that are multiples of tiles (h200.jsonl), sizes as serving makes them
/// (h200_ragged.jsonl), and both together. No shape is in both.
const std::vector<PeerTime>& even_peers();
const std::vector<PeerTime>& ragged_peers();
const std::vector<PeerTime>& peers_table();

/// The line of the first baseline whose name begins with this text; null if it was not measured.
const PeerTime* find_peer(const std::vector<PeerTime>& table, const std::string& peer, const BenchShape& shape);

/// Its time.
std::optional<double> peer_seconds(const std::vector<PeerTime>& table, const std::string& peer,
                                   const BenchShape& shape);

/// The shapes of one operation in the table, each once. All contiguous groupings have the same shapes.
std::vector<BenchShape> peer_shapes(const std::vector<PeerTime>& table, Grouping grouping);

/// The baseline of a recipe: DeepGEMM where scales vary along k, torch for row scales, otherwise cuBLASLt.
const char* baseline(const Recipe& recipe, Grouping grouping);

/// A baseline's time over `ours`, scaled by the times of `reference_product` in the two runs. `reference` is its time
/// in the run of `ours`. Nothing if one of the times is missing.
std::optional<double> speed_against(const PeerTime* peer, double ours, std::optional<double> reference);

/// Picojoules a floating-point operation of DeepGEMM under continuous load (h200_sustained.jsonl); nothing where that
/// was not measured.
std::optional<double> peer_picojoules(const BenchShape& shape);

}  // namespace tilewright::bench
