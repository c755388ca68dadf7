// Times as JSON objects: the one writer of benchmarks/results/*.jsonl.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/result.h"
#include "bench/tune_shape.h"

namespace tilewright::bench {

/// With its version, where the run knows it: "cuBLASLt 13.1.0 per-tensor scale".
std::string peer_name(Peer peer, const Run& run);

/// `speed`: against the baseline of the peers' table, where that is known.
nlohmann::ordered_json record(const Result& result, const Timing& timing, const Run& run, std::optional<double> speed);

nlohmann::ordered_json record(const TunedShape& tuned, const TriedTile& tried, const Run& run);

/// Today, in UTC.
std::string today();

/// How this program was called, without its folder.
std::string command_line();

}  // namespace tilewright::bench
