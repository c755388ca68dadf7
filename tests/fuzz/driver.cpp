// The fuzz target without libFuzzer: bytes from a seed, for a given time, with any compiler.
//
//     fuzz_problem --seconds 60 --seed 1     cases 1, 2, 3, ... until the time is over
//     fuzz_problem --seed 4711 --cases 1     one case again; a failure prints this line, and so does a crash
#include "check/random.h"
#include "fuzz/target.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

// Sanitizers would end the program without a signal, and so without a word on how to repeat it.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }                      // NOLINT
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }  // NOLINT

namespace {

using tilewright::fuzz::Outcome;

struct Options {
    double seconds = std::numeric_limits<double>::infinity();
    std::uint64_t seed = 1;
    std::uint64_t cases = std::numeric_limits<std::uint64_t>::max();
};

std::array<char, 1024> reproduction{};

void remember(const char* program, std::uint64_t seed) {
    std::snprintf(reproduction.data(), reproduction.size(), "reproduce with: %s --seed %llu --cases 1\n", program,
                  static_cast<unsigned long long>(seed));
}

void tell_and_die(int signal_number) {
    const auto written = write(STDERR_FILENO, reproduction.data(), std::strlen(reproduction.data()));
    static_cast<void>(written);
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

void watch_for_crashes() {
    // A handler that someone else has installed, such as a sanitizer's with its report, ends in SIGABRT.
    for (int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        const auto earlier = std::signal(signal_number, tell_and_die);
        if (signal_number != SIGABRT && earlier != SIG_DFL) std::signal(signal_number, earlier);
    }
}

Options parse(int count, char** words) {
    Options options;
    bool timed = false;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (i + 1 == count) {
            std::fprintf(stderr, "usage: %s [--seconds S] [--seed N] [--cases N]\n", words[0]);
            std::exit(2);
        }
        const char* const value = words[++i];
        if (word == "--seconds") {
            options.seconds = std::strtod(value, nullptr);
            timed = true;
        } else if (word == "--seed") {
            options.seed = std::strtoull(value, nullptr, 10);
        } else if (word == "--cases") {
            options.cases = std::strtoull(value, nullptr, 10);
            timed = true;
        } else {
            std::fprintf(stderr, "%s: no such option: %s\n", words[0], word.c_str());
            std::exit(2);
        }
    }
    if (!timed) options.seconds = 5;
    return options;
}

Outcome run_case(std::uint64_t seed) {
    std::vector<std::uint8_t> bytes(512);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(tilewright::check::random_bits(seed, static_cast<std::int64_t>(i)));
    }
    return tilewright::fuzz::fuzz(bytes);
}

}  // namespace

int main(int count, char** words) {
    const Options options = parse(count, words);
    watch_for_crashes();
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::array<std::uint64_t, 3> kinds{};
    std::uint64_t done = 0;
    for (; done < options.cases && elapsed() < options.seconds; ++done) {
        const std::uint64_t seed = options.seed + done;
        remember(words[0], seed);
        const Outcome outcome = run_case(seed);
        ++kinds[static_cast<std::size_t>(outcome.kind)];
        if (!outcome.failure.empty()) {
            std::fprintf(stderr, "%s\n%s\n%s", outcome.call.c_str(), outcome.failure.c_str(), reproduction.data());
            return 1;
        }
        if (options.cases == 1) std::printf("%s\n", outcome.call.c_str());
    }
    std::printf("%llu cases from seed %llu in %.1f s: %llu well-formed, %llu malformed, %llu noise; no failure\n",
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(options.seed), elapsed(),
                static_cast<unsigned long long>(kinds[0]), static_cast<unsigned long long>(kinds[1]),
                static_cast<unsigned long long>(kinds[2]));
    return 0;
}
