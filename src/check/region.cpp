#include "check/region.h"

#include "check/random.h"

#include <algorithm>

namespace tilewright::check {
namespace {

constexpr std::int64_t strip_rows = 16;
constexpr std::int64_t sampled_rows = 8;
constexpr std::int64_t edge_rows = 4;
constexpr std::int64_t sampled_columns = shortest_scored_row;
constexpr std::size_t sampled_gemms = 64;

struct Columns {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

std::vector<Columns> column_chunks(std::int64_t n) {
    if (n <= longest_scored_row) return {{.begin = 0, .count = n}};
    std::vector<Columns> chunks;
    for (std::int64_t begin = 0; begin < n; begin += chunk_columns) {
        const std::int64_t count = std::min(chunk_columns, n - begin);
        if (count < shortest_scored_row) {
            chunks.back().count += count;
        } else {
            chunks.push_back({.begin = begin, .count = count});
        }
    }
    return chunks;
}

std::vector<Region> all_regions(const std::vector<GroupGemm>& list, std::int64_t n) {
    std::vector<Region> all;
    for (const GroupGemm& gemm : list) {
        for (const Columns& chunk : column_chunks(n)) {
            for (std::int64_t row = 0; row < gemm.rows; row += strip_rows) {
                all.push_back({.gemm = gemm,
                               .row = row,
                               .rows = std::min(strip_rows, gemm.rows - row),
                               .column = chunk.begin,
                               .columns = chunk.count});
            }
        }
    }
    return all;
}

/// The GEMM's four corners, a few rows high.
void add_corners(const GroupGemm& gemm, std::int64_t n, std::vector<Region>& out) {
    const std::int64_t rows = std::min(edge_rows, gemm.rows);
    const std::int64_t columns = std::min(sampled_columns, n);
    for (std::int64_t row : {std::int64_t{0}, gemm.rows - rows}) {
        for (std::int64_t column : {std::int64_t{0}, n - columns}) {
            out.push_back({.gemm = gemm, .row = row, .rows = rows, .column = column, .columns = columns});
            if (columns == n) break;
        }
        if (rows == gemm.rows) break;
    }
}

std::vector<Region> sampled_regions(const std::vector<GroupGemm>& list, std::int64_t n, const Effort& effort) {
    std::vector<Region> sample;
    Random random(effort.seed);
    const auto last = static_cast<std::int64_t>(list.size()) - 1;
    if (list.size() <= sampled_gemms) {
        for (const GroupGemm& gemm : list) add_corners(gemm, n, sample);
    } else {
        add_corners(list.front(), n, sample);
        add_corners(list.back(), n, sample);
        for (std::size_t i = 2; i < sampled_gemms; ++i) add_corners(list[random.up_to(last)], n, sample);
    }
    std::vector<std::int64_t> ends;  // of the GEMMs, one row after another
    ends.reserve(list.size());
    for (const GroupGemm& gemm : list) ends.push_back((ends.empty() ? 0 : ends.back()) + gemm.rows);
    const std::int64_t columns = std::min(sampled_columns, n);
    for (int i = 0; i < effort.tiles; ++i) {
        const std::int64_t at = random.up_to(ends.back() - 1);
        const GroupGemm& gemm = list[std::upper_bound(ends.begin(), ends.end(), at) - ends.begin()];
        const std::int64_t rows = std::min(sampled_rows, gemm.rows);
        sample.push_back({.gemm = gemm,
                          .row = random.up_to(gemm.rows - rows),
                          .rows = rows,
                          .column = random.up_to(n - columns),
                          .columns = columns});
    }
    return sample;
}

}  // namespace

std::vector<Region> regions(const Geometry& geometry, const Effort& effort) {
    const std::vector<GroupGemm> list = group_gemms(geometry);
    std::int64_t elements = 0;
    std::int64_t multiply_adds = 0;
    for (const GroupGemm& gemm : list) {
        elements += gemm.rows * geometry.n;
        multiply_adds += gemm.rows * geometry.n * gemm.k_count;
    }
    if (elements == 0) return {};
    const bool all = elements <= effort.elements && multiply_adds <= effort.multiply_adds;
    return all ? all_regions(list, geometry.n) : sampled_regions(list, geometry.n, effort);
}

}  // namespace tilewright::check
