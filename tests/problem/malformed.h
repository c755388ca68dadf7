// Malformed calls, each with the exact messages that validation must give: a table for each theme.
#pragma once

#include "problem/sample.h"

#include <functional>
#include <string>
#include <vector>

namespace tilewright::test {

struct Malformed {
    std::string mistake;
    SampleSpec spec;
    std::function<void(Problem&)> make;
    std::vector<std::string> messages;
    Backend backend = Backend::automatic;
    Check check = Check::call;
};

std::vector<Malformed> malformed_shapes();
std::vector<Malformed> malformed_groups();
std::vector<Malformed> malformed_scales();
std::vector<Malformed> malformed_block_scales();
std::vector<Malformed> malformed_formats();
std::vector<Malformed> malformed_strides();
std::vector<Malformed> malformed_memory();
std::vector<Malformed> malformed_options();
std::vector<Malformed> malformed_hopper();
std::vector<Malformed> malformed_packed();
std::vector<Malformed> malformed_bias();

}  // namespace tilewright::test
