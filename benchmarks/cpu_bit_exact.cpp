// Speed of the CPU's arithmetic `bit_exact`: multiply-adds a second and core, by recipe and instruction level.
// A core's second is one of CPU time, which other programs on the machine do not stretch.
// Values are normal random numbers, so that products differ in exponent and are cut as in real matrices.
#include "cpu/exact/exact.h"
#include "formats/element.h"

#include <tilewright/quantize.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tilewright;

constexpr const char* help_text = R"(cpu_bit_exact: multiply-adds a second and core of the CPU arithmetic `bit_exact`

  --m N --n N --k N   sizes (256, 256, 2048)
  --recipe NAME       one recipe, such as 1x128:128x128 (a selection of all kinds)
  --isa NAME          baseline, avx2 or avx512 (the best of this CPU)
  --threads N         OpenMP threads (1)
  --repeats N         runs, of which the fastest counts (5)
)";

struct Arguments {
    std::int64_t m = 256;
    std::int64_t n = 256;
    std::int64_t k = 2048;
    int threads = 1;
    int repeats = 5;
    cpu::Isa isa = cpu::best_isa();
    std::vector<std::string> recipes{"tensor:tensor",    "row:row",     "1x128:128x128", "1x128.ue8m0:1x128.ue8m0",
                                     "e5m2.1x128:1x128", "mxfp8:mxfp8", "mxfp8:mxfp4",   "mxfp4:mxfp4",
                                     "bf16:bf16",        "bf16:mxfp4",  "bf16:nvfp4",    "nvfp4:nvfp4",
                                     "1x128:nvfp4"};
};

constexpr const char* isa_names[] = {"baseline", "avx2", "avx512"};

[[noreturn]] void fail(const std::string& text) {
    fmt::print(stderr, "cpu_bit_exact: {}; see --help\n", text);
    std::exit(2);
}

std::int64_t parse_size(const std::string& option, const char* text) {
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < 1)
        fail(fmt::format("{} {}: a whole number from 1 expected", option, text));
    return value;
}

cpu::Isa parse_isa(const char* text) {
    for (int i = 0; i < 3; ++i) {
        if (std::strcmp(text, isa_names[i]) != 0) continue;
        if (i > static_cast<int>(cpu::best_isa())) fail(fmt::format("--isa {}: this CPU does not have it", text));
        return static_cast<cpu::Isa>(i);
    }
    fail(fmt::format("--isa {}: baseline, avx2 or avx512 expected", text));
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; i += 2) {
        const std::string option = words[i];
        if (option == "--help" || option == "-h") {
            fmt::print("{}", help_text);
            std::exit(0);
        }
        if (i + 1 == count) fail(option + ": a value expected");
        const char* value = words[i + 1];
        if (option == "--m")
            arguments.m = parse_size(option, value);
        else if (option == "--n")
            arguments.n = parse_size(option, value);
        else if (option == "--k")
            arguments.k = parse_size(option, value);
        else if (option == "--threads")
            arguments.threads = static_cast<int>(parse_size(option, value));
        else if (option == "--repeats")
            arguments.repeats = static_cast<int>(parse_size(option, value));
        else if (option == "--isa")
            arguments.isa = parse_isa(value);
        else if (option == "--recipe")
            arguments.recipes = {value};
        else
            fail(option + ": no such option");
    }
    return arguments;
}

/// An operand that owns its memory.
class RandomOperand {
public:
    RandomOperand(const OperandRecipe& recipe, std::int64_t rows, std::int64_t k, unsigned seed) {
        std::mt19937 random(seed);
        operand_.granularity = recipe.granularity;
        operand_.values = make(values_, recipe.values, {rows, k});
        std::normal_distribution<double> normal(0, bits(recipe.values) == 4 ? 2 : 16);
        for (std::int64_t i = 0; i < rows * k; ++i) formats::store(values_.data(), recipe.values, i, normal(random));
        if (recipe.granularity == Granularity::none) return;

        const Dims shape = scale_shape(recipe.granularity, {rows, k});
        operand_.scales = make(scales_, recipe.scales, shape);
        const std::int64_t count = shape.rank() == 2 ? shape[0] * shape[1] : shape[0];
        std::uniform_real_distribution<double> scale(0.5, 2);
        for (std::int64_t i = 0; i < count; ++i) put_scale(recipe.scales, i, scale(random));
    }

    const Operand& operand() const { return operand_; }

private:
    static Tensor make(std::vector<std::byte>& memory, Format format, const Dims& shape) {
        memory.resize(static_cast<std::size_t>(row_major_bytes(format, shape)));
        return row_major(memory.data(), format, shape);
    }
    void put_scale(Format format, std::int64_t i, double value) {
        if (format == Format::ue8m0) {
            scales_[static_cast<std::size_t>(i)] = static_cast<std::byte>(value < 1 ? 126 : 127);
        } else {
            formats::store(scales_.data(), format, i, value);
        }
    }

    std::vector<std::byte> values_;
    std::vector<std::byte> scales_;
    Operand operand_;
};

struct Times {
    double wall = std::numeric_limits<double>::infinity();
    double core = std::numeric_limits<double>::infinity();  // of all cores together
};

/// The smallest of each over all repeats.
Times fastest_seconds(const Problem& problem, const Arguments& arguments) {
    const Geometry g = geometry(problem);
    Times fastest;
    for (int i = 0; i < arguments.repeats; ++i) {
        const std::clock_t core_begin = std::clock();
        const auto begin = std::chrono::steady_clock::now();
        cpu::run_exact(g, cpu::ExactOptions{.threads = arguments.threads, .isa = arguments.isa});
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        const auto core = static_cast<double>(std::clock() - core_begin) / CLOCKS_PER_SEC;
        fastest = {.wall = std::min(fastest.wall, time.count()), .core = std::min(fastest.core, core)};
    }
    return fastest;
}

void measure(const std::string& name, const Arguments& arguments) {
    const std::optional<Recipe> recipe = parse_recipe(name);
    if (!recipe || !is_accepted(*recipe)) fail("--recipe " + name + ": no such recipe");
    const RandomOperand a(recipe->a, arguments.m, arguments.k, 1);
    const RandomOperand b(recipe->b, arguments.n, arguments.k, 2);
    std::vector<float> d(static_cast<std::size_t>(arguments.m * arguments.n));
    Problem problem;
    problem.a = a.operand();
    problem.b = b.operand();
    problem.d = row_major(d.data(), Format::f32, {arguments.m, arguments.n});
    const Times times = fastest_seconds(problem, arguments);
    const double products = static_cast<double>(arguments.m * arguments.n) * static_cast<double>(arguments.k);
    fmt::print("{:<26}{:>10.1f}{:>24.2f}\n", name, times.wall * 1e3, products / times.core * 1e-9);
}

}  // namespace

int main(int count, char** words) {
    const Arguments arguments = parse(count, words);
    fmt::print("m {} n {} k {}, {}, {} thread(s)\n\n", arguments.m, arguments.n, arguments.k,
               isa_names[static_cast<int>(arguments.isa)], arguments.threads);
    fmt::print("{:<26}{:>10}{:>24}\n", "recipe", "ms", "multiply-adds/ns/core");
    for (const std::string& recipe : arguments.recipes) {
        try {
            measure(recipe, arguments);
        } catch (const std::invalid_argument& error) {
            fail(error.what());
        }
    }
    return 0;
}
