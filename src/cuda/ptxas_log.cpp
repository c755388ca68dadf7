#include "cuda/ptxas_log.h"

#include <algorithm>
#include <charconv>

namespace tilewright::cuda {
namespace {

/// The number ahead of `words` in a line; -1 if there is none.
int number_before(std::string_view line, std::string_view words) {
    const std::size_t at = line.find(words);
    if (at == std::string_view::npos) return -1;
    std::size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    int value = -1;
    std::from_chars(line.data() + begin, line.data() + at, value);
    return value;
}

template <class Visitor>
void each_line(std::string_view log, const Visitor& visit) {
    while (!log.empty()) {
        const std::size_t end = std::min(log.find('\n'), log.size());
        visit(log.substr(0, end));
        log.remove_prefix(std::min(end + 1, log.size()));
    }
}

bool is_advisory(std::string_view line) {
    const std::size_t at = line.find("(C75");
    return at != std::string_view::npos && line.find(')', at) == at + 6;
}

}  // namespace

std::vector<std::string> ptxas_objections(std::string_view log) {
    std::vector<std::string> objections;
    bool looked = false;
    each_line(log, [&](std::string_view line) {
        const bool spills =
            number_before(line, " bytes spill stores") > 0 || number_before(line, " bytes spill loads") > 0;
        const bool local = number_before(line, " bytes stack frame") > 0 || number_before(line, " bytes lmem") > 0;
        looked = looked || line.find("bytes spill stores") != std::string_view::npos;
        if (spills || local || is_advisory(line)) objections.emplace_back(line);
    });
    if (!looked) objections.emplace_back("ptxas did not say whether registers were spilled");
    return objections;
}

int ptxas_registers(std::string_view log) {
    const std::size_t at = log.find(" registers");
    return at == std::string_view::npos ? 0 : std::max(number_before(log.substr(0, at + 10), " registers"), 0);
}

}  // namespace tilewright::cuda
