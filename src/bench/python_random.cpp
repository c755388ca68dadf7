#include "bench/python_random.h"

#include <array>
#include <sstream>

namespace tilewright::bench {
namespace {

constexpr std::size_t words = std::mt19937::state_size;

/// A key of one word.
std::array<std::uint32_t, words> first_state(std::uint32_t key) {
    std::array<std::uint32_t, words> state{};
    state[0] = 19650218U;
    for (std::size_t i = 1; i < words; ++i) {
        state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
    }
    std::size_t at = 1;
    const auto mix = [&](std::uint32_t factor, std::uint32_t term, bool add) {
        state[at] = (state[at] ^ ((state[at - 1] ^ (state[at - 1] >> 30)) * factor)) + (add ? term : 0U - term);
        if (++at < words) return;
        state[0] = state[words - 1];
        at = 1;
    };
    for (std::size_t i = 0; i < words; ++i) mix(1664525U, key, true);
    for (std::size_t i = 1; i < words; ++i) mix(1566083941U, static_cast<std::uint32_t>(at), false);
    state[0] = 0x80000000U;
    return state;
}

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
    // The state in the form that the standard's operator>> reads; the last number is libstdc++'s position.
    std::stringstream text;
    for (const std::uint32_t word : first_state(seed)) text << word << ' ';
    text << words;
    text >> engine_;
}

double PythonRandom::next() {
    const std::uint32_t high = engine_() >> 5;
    const std::uint32_t low = engine_() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

}  // namespace tilewright::bench
