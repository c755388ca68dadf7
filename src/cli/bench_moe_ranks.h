// `tilewright bench moe --ranks`: a layer of experts over ranks that share one device, and by one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/moe_arguments.h"

namespace tilewright::cli {

struct RankBench {
    MoeArguments layer{};
    RankArguments ranks{};
    std::vector<std::int64_t> tokens{};  // of each rank
    std::string backend;
    bool skewed = false;
    int repeats = 1;
    std::string json_path;  // "-": only to stdout
};

void bench_moe_over_ranks(const RankBench& arguments);

}  // namespace tilewright::cli
