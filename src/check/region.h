// Which part of an output is judged: all of it, or where it is too large, its edges and seeded tiles.
#pragma once

#include "problem/geometry.h"

#include <cstdint>
#include <vector>

namespace tilewright::check {

/// Rows and columns of one GEMM; `row` counts from the GEMM's beginning.
struct Region {
    GroupGemm gemm;
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t column = 0;
    std::int64_t columns = 0;
};

/// How much is judged. Above either limit: the first and last rows and columns of each GEMM, and `tiles` seeded ones.
struct Effort {
    std::int64_t elements = std::int64_t{1} << 20;
    std::int64_t multiply_adds = std::int64_t{1} << 28;
    int tiles = 64;
    std::uint64_t seed = 1;
};

/// Rows of up to 1024 columns are scored whole. Longer rows are scored in chunks of 256 (a short rest joins its
/// neighbour), because one wrong element would drown in them. Rows shorter than 64 have too few elements for a score.
inline constexpr std::int64_t longest_scored_row = 1024;
inline constexpr std::int64_t chunk_columns = 256;
inline constexpr std::int64_t shortest_scored_row = 64;

/// Regions do not span two chunks of a row.
std::vector<Region> regions(const Geometry& geometry, const Effort& effort);

}  // namespace tilewright::check
