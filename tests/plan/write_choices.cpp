// Prints tests/plan/choices.txt as today's planner makes it: tools/record_choices.
#include <fmt/format.h>

#include "plan/choices.h"

int main(int count, char** values) {
    using namespace tilewright::planner;
    try {
        std::vector<std::string> choices;
        for (const tilewright::Problem& problem : choice_problems(TILEWRIGHT_RESULTS))
            choices.push_back(choice(problem));
        fmt::print("{}", choices_text(choices, count > 1 ? values[1] : "unknown"));
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "write_choices: {}\n", error.what());
        return 1;
    }
}
