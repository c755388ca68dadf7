// What is fuzzed: `validate` and both arithmetics of the CPU backend, judged by the reference and the gates.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tilewright::fuzz {

enum class Kind : std::uint8_t { well_formed, malformed, garbage };

struct Outcome {
    Kind kind = Kind::garbage;
    std::string call;     // in one line
    std::string failure;  // empty if all is as it should be
};

/// One call, drawn from the bytes.
Outcome fuzz(std::span<const std::uint8_t> data);

}  // namespace tilewright::fuzz
