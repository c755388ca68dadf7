#include "cpu_gemm_arguments.h"

#include <tilewright/recipe.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace tilewright::benchmark {
namespace {

constexpr const char* help_text =
    R"(cpu_gemm: the CPU arithmetic `fast` and OpenBLAS's sgemm on the dequantised matrices

  --recipe NAME      one recipe, such as 1x128:128x128 (one of each family)
  --m N              one m (1, 32 and 512)
  --threads N        threads of both (OpenMP's choice)
  --seconds S        time for each row of the table (0.6)
  --isa NAME         baseline, avx2 or avx512 (the best of this CPU)
  --multiplier NAME  built_in or openblas, for tiles of more than 8 rows (the faster for the level)
  --memory-only      only the memory line
  --json             JSON lines in place of the table

Targets: geometric mean of the ratios at least 0.5, none under 0.3; peak extra memory under 64 MiB for a weight of
16384 x 16384. Exit code 1 when one is missed, 2 when the call is wrong or OpenBLAS is not found.
)";

int choice(const std::string& option, const std::string& value, const std::vector<std::string>& names) {
    const auto found = std::find(names.begin(), names.end(), value);
    if (found == names.end()) fail(fmt::format("{} {}: not one of {}", option, value, fmt::join(names, ", ")));
    return static_cast<int>(found - names.begin());
}

double number(const std::string& option, const std::string& value) {
    char* end = nullptr;
    const double parsed = std::strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != '\0' || !(parsed > 0))
        fail(fmt::format("{} {}: a positive number", option, value));
    return parsed;
}

void take(Arguments& arguments, const std::string& option, const std::string& value) {
    if (option == "--recipe") {
        const std::optional<Recipe> recipe = parse_recipe(value);
        if (!recipe || !is_accepted(*recipe)) fail(fmt::format("--recipe {}: no recipe", value));
        arguments.recipes = {value};
    } else if (option == "--m") {
        arguments.rows = {static_cast<std::int64_t>(number(option, value))};
    } else if (option == "--threads") {
        arguments.options.threads = static_cast<int>(number(option, value));
    } else if (option == "--seconds") {
        arguments.seconds = number(option, value);
    } else if (option == "--isa") {
        const auto isa = static_cast<cpu::Isa>(choice(option, value, {"baseline", "avx2", "avx512"}));
        if (isa > cpu::best_isa()) fail(fmt::format("--isa {}: this CPU does not have it", value));
        arguments.options.isa = isa;
    } else if (option == "--multiplier") {
        arguments.options.multiplier = static_cast<cpu::Multiplier>(choice(option, value, {"built_in", "openblas"}));
    } else {
        fail("unknown option " + option);
    }
}

}  // namespace

void fail(const std::string& text) {
    fmt::print(stderr, "cpu_gemm: {}; see --help\n", text);
    std::exit(2);
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string option = words[i];
        if (option == "--help" || option == "-h") {
            fmt::print("{}", help_text);
            std::exit(0);
        }
        if (option == "--json") {
            arguments.json = true;
        } else if (option == "--memory-only") {
            arguments.memory_only = true;
        } else if (i + 1 == count) {
            fail(option + ": a value expected");
        } else {
            take(arguments, option, words[++i]);
        }
    }
    return arguments;
}

}  // namespace tilewright::benchmark
