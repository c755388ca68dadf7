// How fast a GPU quantises what a training step holds: device time of each form, the bytes that it must move, and the
// rate. Scales are counted among the bytes of MXFP8, MXFP4 and NVFP4 alone. L2 is flushed before each call. Last, as
// many MXFP4 weights are packed.
//
//   quantize_gpu [tokens] [features] [groups] [--json FILE]        32768 7168 8
//
// --json: a line for each form is appended to the file, with commit, date and command.
#include <fmt/core.h>
#include <tilewright/packed.h>
#include <tilewright/quantize_tokens.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "bench/record.h"
#include "formats/codec.h"
#include "measure/device.h"
#include "measure/timing.h"
#include "output/file.h"

namespace {

using namespace tilewright;
using measure::Buffer;

struct Sizes {
    std::int64_t tokens = 32768;
    std::int64_t features = 7168;
    std::int64_t groups = 8;
};

Tensor on_gpu(const Buffer& memory, Format format, const Dims& shape) {
    Tensor tensor = row_major(static_cast<void*>(memory.data()), format, shape);
    tensor.device = {.kind = DeviceId::Kind::cuda};
    return tensor;
}

/// Normal numbers in bf16, a million of them again and again.
Buffer numbers(std::size_t count) {
    constexpr std::size_t chunk = std::size_t{1} << 20;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> codes(chunk);
    for (std::uint16_t& code : codes) {
        code = static_cast<std::uint16_t>(formats::encode(formats::bf16_fields, normal(random)));
    }
    Buffer memory(count * 2);
    for (std::size_t begin = 0; begin < count; begin += chunk) {
        memory.upload(codes.data(), std::min(chunk, count - begin) * 2, begin * 2);
    }
    return memory;
}

class Forms {
public:
    explicit Forms(const Sizes& sizes)
        : sizes_(sizes),
          width_(column_limit(sizes.tokens, sizes.groups)),
          x_(numbers(static_cast<std::size_t>(sizes.tokens * sizes.features * 2))),
          gradient_(numbers(static_cast<std::size_t>(sizes.tokens * sizes.features))),
          rows_(static_cast<std::size_t>(sizes.tokens * sizes.features * 2)),
          columns_(static_cast<std::size_t>(width_ * sizes.features * 2)),
          row_scales_(static_cast<std::size_t>(sizes.tokens * sizes.features / 16 + 1024)),
          column_scales_(static_cast<std::size_t>(width_ * sizes.features / 16 + sizes.features * sizes.groups * 8)),
          factors_(static_cast<std::size_t>(sizes.tokens + sizes.features * sizes.groups) * 4),
          ends_(static_cast<std::size_t>(sizes.groups) * 8),
          tensor_scale_(4),
          weight_scales_(static_cast<std::size_t>(sizes.tokens * ((sizes.features + 31) / 32))) {
        std::vector<std::uint8_t> scales(weight_scales_.size());
        for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(118 + i % 8);
        weight_scales_.upload(scales.data(), scales.size());
        std::vector<std::int64_t> ends(static_cast<std::size_t>(sizes.groups));
        for (std::int64_t g = 0; g < sizes.groups; ++g)
            ends[static_cast<std::size_t>(g)] = (g + 1) * sizes.tokens / sizes.groups;
        ends_.upload(ends.data(), ends.size() * 8);
        const std::vector<float> ones(factors_.size() / 4, 1.0F);
        factors_.upload(ones.data(), factors_.size());
    }

    TokenOperand rows(Granularity granularity, std::int64_t features) const {
        const Dims shape{sizes_.tokens, features};
        return {{on_gpu(rows_, Format::e4m3, shape),
                 granularity,
                 on_gpu(row_scales_, Format::f32, scale_shape(granularity, shape)),
                 {}}};
    }
    TokenOperand columns(Granularity granularity, std::int64_t features) const {
        const Dims shape{features, width_};
        const bool by_row = granularity == Granularity::row;
        const Dims scales = by_row ? Dims{sizes_.groups, features} : scale_shape(granularity, shape);
        return {{on_gpu(columns_, Format::e4m3, shape), granularity, on_gpu(column_scales_, Format::f32, scales), {}}};
    }
    TokenSource source(Activation activation) const {
        const std::int64_t width = activation == Activation::none ? sizes_.features : 2 * sizes_.features;
        TokenSource source{.x = on_gpu(x_, Format::bf16, {sizes_.tokens, width}), .activation = activation};
        if (activation == Activation::swiglu_gradient) {
            source.gradient = on_gpu(gradient_, Format::bf16, {sizes_.tokens, sizes_.features});
        }
        source.ends = on_gpu(ends_, Format::i64, {sizes_.groups});
        return source;
    }
    /// [tokens, features] of codes, whatever they are.
    Operand weights() const {
        const Dims shape{sizes_.tokens, sizes_.features};
        const Granularity blocks = Granularity::block_1x32;
        return {on_gpu(x_, Format::e2m1, shape),
                blocks,
                on_gpu(weight_scales_, Format::ue8m0, scale_shape(blocks, shape)),
                {}};
    }
    /// MXFP8, MXFP4 and NVFP4, whose codes are no longer than bytes and whose scales fit where f32's do.
    Operand short_blocks(Format values, Granularity granularity) const {
        const Dims shape{sizes_.tokens, sizes_.features};
        const bool nvfp4 = granularity == Granularity::block_1x16;
        return {on_gpu(rows_, values, shape), granularity,
                on_gpu(row_scales_, nvfp4 ? Format::ue4m3 : Format::ue8m0, scale_shape(granularity, shape)),
                nvfp4 ? on_gpu(tensor_scale_, Format::f32, {1}) : Tensor{}};
    }
    Tensor matrix(Format format) const { return on_gpu(x_, format, {sizes_.tokens, sizes_.features}); }
    Tensor token_factors() const { return on_gpu(factors_, Format::f32, {sizes_.tokens}); }
    Tensor feature_factors() const { return on_gpu(factors_, Format::f32, {sizes_.groups, sizes_.features}); }

private:
    Sizes sizes_;
    std::int64_t width_;
    Buffer x_, gradient_, rows_, columns_, row_scales_, column_scales_, factors_, ends_, tensor_scale_, weight_scales_;
};

/// A form and the bytes that it reads and writes for each of x's features (of h's, for SwiGLU) and token.
struct Timed {
    measure::Contestant contestant;
    double bytes = 0;
};

std::vector<Timed> all_forms(const Forms& forms, const Sizes& sizes) {
    constexpr Granularity blocks = Granularity::block_1x128, squares = Granularity::block_128x128;
    const std::int64_t f = sizes.features;
    std::vector<Timed> list;
    const auto add = [&](const char* name, double bytes, TokenSource source, TokenOperand rows, TokenOperand columns) {
        const auto call = [=](cuda::StreamHandle stream) {
            quantize_tokens(source, rows, columns, false, {.stream = stream});
        };
        list.push_back({{name, call}, bytes});
    };
    TokenOperand folded_rows = forms.rows(blocks, f), folded_columns = forms.columns(squares, f);
    folded_rows.feature_factors = forms.feature_factors();
    folded_columns.token_factors = forms.token_factors();
    const TokenSource x = forms.source(Activation::none);
    add("rows 1x128", 3, x, forms.rows(blocks, f), {});
    add("columns 1x128", 3, x, {}, forms.columns(blocks, f));
    add("columns 128x128", 3, x, {}, forms.columns(squares, f));
    add("rows and columns 1x128", 4, x, forms.rows(blocks, f), forms.columns(blocks, f));
    add("fold: rows 1x128, columns 128x128", 4, x, folded_rows, folded_columns);
    add("rows per row", 5, x, forms.rows(Granularity::row, f), {});
    add("columns per row of a group", 5, x, {}, forms.columns(Granularity::row, f));
    add("swiglu, rows 1x128", 5, forms.source(Activation::swiglu), forms.rows(blocks, f), {});
    add("swiglu, rows and columns 1x128", 6, forms.source(Activation::swiglu), forms.rows(blocks, f),
        forms.columns(blocks, f));
    add("swiglu's gradient, rows and columns 1x128", 10, forms.source(Activation::swiglu_gradient),
        forms.rows(blocks, 2 * f), forms.columns(blocks, 2 * f));
    Operand codes = forms.rows(blocks, f).operand;
    const Tensor ends = x.ends;
    const Operand turned = forms.columns(blocks, f).operand;
    list.push_back({{"transpose of codes, 1x128",
                     [=](cuda::StreamHandle stream) { transpose_codes(codes, ends, turned, {.stream = stream}); }},
                    2});
    return list;
}

/// MXFP8, MXFP4 and NVFP4 of bf16, scales counted; of NVFP4 the matrix is read twice.
std::vector<Timed> short_blocks(const Forms& forms) {
    std::vector<Timed> list;
    const auto add = [&](const char* name, double bytes, const OperandRecipe& recipe) {
        const Operand out = forms.short_blocks(recipe.values, recipe.granularity);
        const auto call = [=, x = forms.matrix(Format::bf16)](cuda::StreamHandle stream) {
            quantize(x, {.recipe = recipe}, out, {.stream = stream});
        };
        list.push_back({{name, call}, bytes});
    };
    add("rows MXFP8", 3 + 1.0 / 32, {Format::e4m3, Granularity::block_1x32, Format::ue8m0});
    add("rows MXFP4", 2.5 + 1.0 / 32, {Format::e2m1, Granularity::block_1x32, Format::ue8m0});
    add("rows NVFP4", 4.5 + 1.0 / 16, {Format::e2m1, Granularity::block_1x16, Format::ue4m3});
    return list;
}

Timed packing(const Forms& forms, const Buffer& packed) {
    const auto call = [=, weights = forms.weights(), out = packed.data(),
                       bytes = packed.size()](cuda::StreamHandle stream) {
        pack_weights(weights, PackedFor::fp8, out, static_cast<std::int64_t>(bytes), {.stream = stream});
    };
    return {{"packing MXFP4 weights, once read and written", call}, 1};
}

double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

/// Prints a table, and appends lines to `file` unless it has no name.
void report(const measure::Device& device, const Sizes& sizes, const std::vector<Timed>& list,
            const std::vector<measure::Measurement>& times, const std::string& file) {
    fmt::print("{}, {} tokens x {} features, {} groups, bf16 to e4m3 and e2m1\n{:<44} {:>9} {:>7} {:>6}\n",
               device.name(), sizes.tokens, sizes.features, sizes.groups, "", "us", "MB", "TB/s");
    std::string lines;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string name = list[i].contestant.name;
        const double bytes = list[i].bytes * static_cast<double>(sizes.tokens) * static_cast<double>(sizes.features);
        const double us = times[i].seconds * 1e6, tbs = bytes / times[i].seconds / 1e12;
        fmt::print("{:<44} {:>9.1f} {:>7.0f} {:>6.2f}\n", name, us, bytes / 1e6, tbs);
        const nlohmann::ordered_json line{
            {"figure", "quantiser"},      {"form", name},           {"tokens", sizes.tokens},
            {"features", sizes.features}, {"groups", sizes.groups}, {"us", rounded(us)},
            {"mb", rounded(bytes / 1e6)}, {"tbs", rounded(tbs)},    {"clock_ghz", rounded(times[i].hertz * 1e-9)},
            {"flush", "clean"},           {"device", device.name()}};
        lines += bench::with_origin(line).dump() + "\n";
    }
    if (!file.empty()) output::append_text(file, lines);
}

void measure_all(const Sizes& sizes, const std::string& file) {
    const measure::Device device;
    const Forms forms(sizes);
    const Buffer packed(static_cast<std::size_t>(packed_bytes(forms.weights(), PackedFor::fp8)));
    std::vector<Timed> list = all_forms(forms, sizes);
    for (const Timed& each : short_blocks(forms)) list.push_back(each);
    list.push_back(packing(forms, packed));
    std::vector<measure::Contestant> contestants(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) contestants[i] = list[i].contestant;
    measure::Stopwatch stopwatch(device, measure::Flush::clean);
    report(device, sizes, list, stopwatch.race(contestants, 9), file);
}

}  // namespace

int main(int count, char** arguments) {
    Sizes sizes;
    std::int64_t* const numbers[]{&sizes.tokens, &sizes.features, &sizes.groups};
    std::size_t given = 0;
    std::string file;
    for (int i = 1; i < count; ++i) {
        const std::string word = arguments[i];
        if (word == "--json" && i + 1 < count) {
            file = arguments[++i];
        } else if (given < std::size(numbers) && std::atoll(word.c_str()) > 0) {
            *numbers[given++] = std::atoll(word.c_str());
        } else {
            fmt::print(stderr, "quantize_gpu [tokens] [features] [groups] [--json FILE]\n");
            return 2;
        }
    }
    try {
        measure_all(sizes, file);
    } catch (const std::exception& error) {
        fmt::print(stderr, "quantize_gpu: {}\n", error.what());
        return 2;
    }
    return 0;
}
