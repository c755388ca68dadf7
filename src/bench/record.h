// Times as JSON objects: the one writer of benchmarks/results/*.jsonl.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/result.h"
#include "bench/tune_shape.h"

namespace tilewright::bench {

/// With its version, where the run knows it: "cuBLASLt 13.1.0 per-tensor scale".
std::string peer_name(Peer peer, const Run& run);

nlohmann::ordered_json record(const Result& result, const Timing& timing, const Run& run);

nlohmann::ordered_json record(const TunedShape& tuned, const TriedTile& tried, const Run& run);

/// The line of a program other than `bench`, with date, commit, trees and command.
nlohmann::ordered_json with_origin(nlohmann::ordered_json line);

/// Today, in UTC.
std::string today();

/// The present time, in UTC: "2026-11-22T14:55:02Z".
std::string now();

/// How this program was called, without its folder.
std::string command_line();

}  // namespace tilewright::bench
