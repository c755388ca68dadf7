#include "plan/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "plan/choose.h"
#include "plan/planned_tile.h"
#include "plan/random_problems.h"
#include "plan/record_problems.h"
#include "plan/variant.h"

namespace tilewright::planner {
namespace {

constexpr std::size_t letters = 26;
constexpr std::size_t line_problems = 60;
constexpr int random_count = 4096;

std::string two_letters(std::size_t index) {
    return {static_cast<char>('A' + index / letters), static_cast<char>('A' + index % letters)};
}

}  // namespace

std::vector<Problem> choice_problems(const std::string& results) {
    std::vector<Problem> problems =
        record_problems({results + "/h200.jsonl", results + "/h200_candidates.jsonl", results + "/h200_random.jsonl"});
    for (const Problem& problem : random_problems(random_count)) problems.push_back(problem);
    return problems;
}

std::string choice(const Problem& problem) {
    const Geometry g = geometry(problem);
    const hopper::Kernel tile = variant(g, chosen_tile(problem, gpu_call(g), h200()));
    return name(planned_tile(tile)) + ", " + std::string(variant_name(tile));
}

std::string choices_text(const std::vector<std::string>& choices, const std::string& commit) {
    std::vector<std::string> kernels;
    std::string problems;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const auto found = std::find(kernels.begin(), kernels.end(), choices[i]);
        const auto index = static_cast<std::size_t>(found - kernels.begin());
        if (found == kernels.end()) kernels.push_back(choices[i]);
        if (i % line_problems == 0) problems += i == 0 ? "problems " : "\nproblems ";
        problems += two_letters(index);
    }
    std::string text = fmt::format(
        "# The kernel that runs each problem of choice_problems() as planned at commit {}: first the names of the\n"
        "# kernels, then two letters a problem, AA for the first name. Written by tools/record_choices.\n",
        commit);
    for (const std::string& kernel : kernels) text += "kernel " + kernel + "\n";
    return text + problems + "\n";
}

std::vector<std::string> read_choices(const std::string& path) {
    std::vector<std::string> kernels;
    std::vector<std::string> choices;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("kernel ")) kernels.push_back(line.substr(7));
        if (!line.starts_with("problems ")) continue;
        for (std::size_t at = 9; at + 1 < line.size(); at += 2) {
            choices.push_back(kernels.at(static_cast<std::size_t>((line[at] - 'A') * 26 + line[at + 1] - 'A')));
        }
    }
    return choices;
}

}  // namespace tilewright::planner
