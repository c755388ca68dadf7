// Which kernel runs each of the planner's test problems, and the file that holds it (tests/plan/choices.txt).
#pragma once

#include <tilewright/problem.h>

#include <string>
#include <vector>

namespace tilewright::planner {

/// Those of the benchmarks' records in the folder `results`, and 4,096 seeded random ones.
std::vector<Problem> choice_problems(const std::string& results);

/// "128x128x128 stages=5, fast": the kernel that runs on an H200.
std::string choice(const Problem& problem);

/// The file's text for the choices of all problems; `commit` has made them.
std::string choices_text(const std::vector<std::string>& choices, const std::string& commit);

/// The choices that such a file holds.
std::vector<std::string> read_choices(const std::string& path);

}  // namespace tilewright::planner
