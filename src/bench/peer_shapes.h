// The shapes of `--suite peers` and `--suite peers-ragged`: benchmarks/peers/shapes.tsv, which the program contains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/shapes.h"

namespace tilewright::bench {

struct PeerShape {
    std::string suite;
    std::string operation;
    std::vector<std::int64_t> key;  // as `shape_key` makes it
};

/// The rows of a table. Throws std::runtime_error naming the line that cannot be read.
std::vector<PeerShape> parse_peer_shapes(std::string_view text);

/// "peers" has sizes that are multiples of tiles, "peers-ragged" sizes as serving makes them.
std::vector<std::string> peer_suites();

/// The shapes of one operation in a suite. All contiguous groupings have the same shapes.
std::vector<BenchShape> peer_shapes(const std::string& suite, Grouping grouping);

}  // namespace tilewright::bench
