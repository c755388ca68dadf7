#include "bench/peer_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "bench/peer_shapes_text.h"
#include "plan/tsv.h"

namespace tilewright::bench {
namespace {

/// The numbers of a text. Empty if a word is not a number.
std::vector<std::int64_t> numbers(std::string_view text) {
    std::vector<std::int64_t> list;
    for (const std::string_view word : planner::split(text, ' ')) {
        std::int64_t number = 0;
        const char* end = word.data() + word.size();
        const auto [stopped, error] = std::from_chars(word.data(), end, number);
        if (error != std::errc{} || stopped != end) return {};
        list.push_back(number);
    }
    return list;
}

bool is_shape_of(const PeerShape& row) {
    return std::ranges::any_of(all_groupings, [&](Grouping grouping) {
        return row.operation == operation_name(grouping) && shape_of_key(grouping, row.key);
    });
}

const std::vector<PeerShape>& embedded_shapes() {
    static const std::vector<PeerShape> rows = parse_peer_shapes(peer_shapes_text);
    return rows;
}

}  // namespace

std::vector<PeerShape> parse_peer_shapes(std::string_view text) {
    const planner::Tsv tsv = planner::parse_tsv(text, {"suite", "op", "shape"});
    std::vector<std::string> problems;
    for (const planner::TsvProblem& problem : tsv.problems) problems.push_back(problem.text());
    std::vector<PeerShape> rows;
    for (const planner::TsvRow& each : tsv.rows) {
        PeerShape row{.suite = std::string(each.cells[0]),
                      .operation = std::string(each.cells[1]),
                      .key = numbers(each.cells[2])};
        if (!is_shape_of(row)) {
            problems.push_back(fmt::format("line {}: got {} '{}'; expected an operation and the numbers of its shape",
                                           each.line, planner::shown(each.cells[1]), planner::shown(each.cells[2])));
        }
        rows.push_back(std::move(row));
    }
    if (problems.empty()) return rows;
    throw std::runtime_error(fmt::format("benchmarks/peers/shapes.tsv: {}", fmt::join(problems, "; ")));
}

std::vector<std::string> peer_suites() {
    std::vector<std::string> suites;
    for (const PeerShape& row : embedded_shapes()) {
        if (std::ranges::find(suites, row.suite) == suites.end()) suites.push_back(row.suite);
    }
    return suites;
}

std::vector<BenchShape> peer_shapes(const std::string& suite, Grouping grouping) {
    std::vector<BenchShape> shapes;
    for (const PeerShape& row : embedded_shapes()) {
        if (row.suite != suite || row.operation != operation_name(grouping)) continue;
        shapes.push_back(shape_of_key(grouping, row.key).value());
    }
    return shapes;
}

}  // namespace tilewright::bench
