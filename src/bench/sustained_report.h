// The table of `tilewright bench --sustained`: rates, watts and energy under continuous load.
#pragma once

#include <string>
#include <vector>

#include "bench/result.h"
#include "output/table.h"

namespace tilewright::bench {

output::Table sustained_table(const std::vector<BenchShape>& shapes, const Run& run);

std::string sustained_line(const output::Table& table, const Result& result, const Run& run);

}  // namespace tilewright::bench
