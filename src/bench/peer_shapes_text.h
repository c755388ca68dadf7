// benchmarks/peers/shapes.tsv as text, embedded by CMake.
#pragma once

#include <string_view>

namespace tilewright::bench {

extern const std::string_view peer_shapes_text;

}  // namespace tilewright::bench
