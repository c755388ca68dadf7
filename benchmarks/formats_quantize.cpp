// How fast numbers are encoded, decoded and quantized, in GB of f32 a second, on one thread and on all of them.
#include "formats/convert.h"

#include <tilewright/quantize.h>

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <vector>

namespace {

using namespace tilewright;

double best_seconds(const std::function<void()>& work) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

void time_conversion(Format format, const std::vector<float>& numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    std::vector<std::byte> codes(numbers.size() * 4);
    std::vector<float> back(numbers.size());
    const double encoding = best_seconds(
        [&] { formats::encode(format, numbers.data(), count, codes.data(), formats::Overflow::saturate_finite); });
    const double decoding = best_seconds([&] { formats::decode(format, codes.data(), count, back.data()); });
    const double gigabytes = 4e-9 * static_cast<double>(count);
    fmt::print("{:<24} {:>8.2f} {:>8.2f}\n", name(format), gigabytes / encoding, gigabytes / decoding);
}

void time_quantisation(const OperandRecipe& recipe, const Tensor& source) {
    const OwnedOperand out(source.shape, recipe);
    std::vector<float> back(static_cast<std::size_t>(source.shape[0] * source.shape[1]));
    const double there = best_seconds([&] { quantize(source, {.recipe = recipe}, out); });
    const double again = best_seconds([&] { dequantize(out, row_major(back.data(), Format::f32, source.shape)); });
    const double gigabytes = 4e-9 * static_cast<double>(back.size());
    const bool turned = source.strides[1] != 1;
    fmt::print("{:<24} {:>8.2f} {:>8.2f}\n", name(recipe) + (turned ? ", transposed" : ""), gigabytes / there,
               gigabytes / again);
}

}  // namespace

int main() {
    const Dims shape{1024, 4096};
    std::vector<float> numbers(static_cast<std::size_t>(shape[0] * shape[1]));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
    const Tensor source = row_major(numbers.data(), Format::f32, shape);
    const Tensor transposed{.data = numbers.data(), .format = Format::f32, .shape = shape, .strides = {1, shape[0]}};

    fmt::print("GB of f32 a second       encode   decode   (one thread)\n");
    for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::bf16, Format::f16}) {
        time_conversion(format, numbers);
    }
    for (const int threads : {1, omp_get_num_procs()}) {
        omp_set_num_threads(threads);
        fmt::print("\nGB of f32 a second     quantize dequant.   ({} threads)\n", threads);
        for (const char* recipe : {"tensor", "row", "1x128", "128x128", "mxfp8", "mxfp4", "nvfp4", "bf16"}) {
            time_quantisation(*parse_operand_recipe(recipe), source);
            time_quantisation(*parse_operand_recipe(recipe), transposed);
        }
    }
    return 0;
}
