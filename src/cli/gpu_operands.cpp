#include "cli/gpu_operands.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include <array>
#include <bit>
#include <cstring>

#include "check/data.h"
#include "formats/element.h"

namespace tilewright::cli {
namespace {

/// splitmix64: a random number for each position.
std::uint64_t mixed(std::uint64_t position) {
    std::uint64_t z = (position + 1) * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/// 65,536 codes, which four 16-bit pieces of a random number pick from.
std::vector<std::uint8_t> normal_codes(Format format) {
    const std::vector<float>& draws = check::draws(check::Distribution::normal);
    std::vector<std::uint8_t> codes(std::size_t{1} << 16);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        formats::store(codes.data(), format, static_cast<std::int64_t>(i), draws[i % draws.size()]);
    }
    return codes;
}

void fill_values(Mirrored& tensor, Format format, std::uint64_t seed) {
    const std::vector<std::uint8_t> codes = normal_codes(format);
    auto* bytes = reinterpret_cast<std::uint8_t*>(tensor.bytes().data());
    const auto size = static_cast<std::int64_t>(tensor.bytes().size());
#pragma omp parallel for schedule(static)
    for (std::int64_t begin = 0; begin < size; begin += 4) {
        std::uint64_t random = mixed(seed + static_cast<std::uint64_t>(begin));
        for (std::int64_t i = begin; i < std::min(begin + 4, size); ++i, random >>= 16) {
            bytes[i] = codes[random & 0xFFFFU];
        }
    }
}

double scale_at(std::uint64_t index) { return 0.5 + static_cast<double>(mixed(index) >> 11) * 0x1p-53; }

void fill_scales(Mirrored& tensor, Format format, std::uint64_t seed) {
    const auto elements = static_cast<std::int64_t>(tensor.bytes().size()) * 8 / bits(format);
    for (std::int64_t i = 0; i < elements; ++i) {
        formats::store(tensor.bytes().data(), format, i, scale_at(seed + static_cast<std::uint64_t>(i)));
    }
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// With rows side by side the columns are padded to 16 bytes, as TMA asks.
Tensor scale_shape(const OperandRecipe& recipe, std::int64_t rows, std::int64_t k, ScaleLayout layout) {
    switch (recipe.granularity) {
        case Granularity::tensor: return row_major(static_cast<void*>(nullptr), recipe.scales, {1});
        case Granularity::row: return row_major(static_cast<void*>(nullptr), recipe.scales, {rows});
        case Granularity::block_128x128:
            return row_major(static_cast<void*>(nullptr), recipe.scales, {divide_up(rows, 128), divide_up(k, 128)});
        case Granularity::block_1x128: break;
        default:
            throw Error(fmt::format("scales of {}: the GPU takes tensor, row, 1x128 and 128x128; use --backend cpu",
                                    name(recipe.granularity)));
    }
    Tensor scales = row_major(static_cast<void*>(nullptr), recipe.scales, {rows, divide_up(k, 128)});
    if (layout == ScaleLayout::m) scales.strides = {1, divide_up(rows, 16) * 16};
    return scales;
}

Tensor values_shape(const OperandRecipe& recipe, std::int64_t rows, std::int64_t k) {
    if (bits(recipe.values) != 8) {
        throw Error(fmt::format("values of {}: the GPU takes e4m3 and e5m2; use --backend cpu", name(recipe.values)));
    }
    return row_major(static_cast<void*>(nullptr), recipe.values, {rows, k});
}

measure::Buffer uploaded(const std::vector<float>& values) {
    measure::Buffer buffer(values.size() * sizeof(float));
    buffer.upload(values.data(), buffer.size());
    return buffer;
}

/// Every scale factor random: times do not depend on which is which.
std::vector<float> random_scales(std::int64_t count) {
    std::vector<float> scales(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(scale_at(i));
    return scales;
}

std::size_t span_bytes(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 0) return 0;
        last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return static_cast<std::size_t>((last + 1) * bits(tensor.format) / 8);
}

}  // namespace

Mirrored::Mirrored(Tensor shaped) : shaped_(shaped), bytes_(span_bytes(shaped)), buffer_(bytes_.size()) {}

Tensor Mirrored::host() const {
    Tensor view = shaped_;
    view.data = const_cast<std::byte*>(bytes_.data());
    return view;
}

Tensor Mirrored::on_device() const {
    Tensor view = shaped_;
    view.data = buffer_.data();
    view.device = {.kind = DeviceId::Kind::cuda, .index = 0};
    return view;
}

GpuOperands::GpuOperands(const planner::Sizes& sizes, ScaleLayout scales)
    : sizes_(sizes),
      a_(values_shape(sizes.recipe.a, sizes.m, sizes.k)),
      b_(values_shape(sizes.recipe.b, sizes.n, sizes.k)),
      a_scales_(scale_shape(sizes.recipe.a, sizes.m, sizes.k, scales)),
      b_scales_(scale_shape(sizes.recipe.b, sizes.n, sizes.k, scales)),
      d_(row_major(static_cast<void*>(nullptr), sizes.output, {sizes.m, sizes.n})) {
    fill_values(a_, sizes.recipe.a.values, 0);
    fill_values(b_, sizes.recipe.b.values, std::uint64_t{1} << 60);
    fill_scales(a_scales_, sizes.recipe.a.scales, std::uint64_t{1} << 61);
    fill_scales(b_scales_, sizes.recipe.b.scales, std::uint64_t{1} << 62);
    for (Mirrored* tensor : {&a_, &b_, &a_scales_, &b_scales_}) tensor->upload();
}

void GpuOperands::poison_output() {
    std::memset(d_.bytes().data(), 0xFF, d_.bytes().size());
    d_.upload();
}

measure::BlasProduct GpuOperands::blas(measure::BlasScaling scaling) {
    const bool blocks = scaling == measure::BlasScaling::blocks;
    const std::int64_t k_blocks = divide_up(sizes_.k, 128);
    const std::int64_t b_scales = divide_up(sizes_.n, 128) * divide_up(k_blocks, 4) * 4;
    if (blas_output_.size() == 0) {
        blas_output_ = measure::Buffer(static_cast<std::size_t>(sizes_.m * sizes_.n) * 2);
    }
    blas_scales_.push_back(uploaded(random_scales(blocks ? k_blocks * sizes_.m : 1)));
    blas_scales_.push_back(uploaded(random_scales(blocks ? b_scales : 1)));
    return {.m = sizes_.m,
            .n = sizes_.n,
            .k = sizes_.k,
            .a = a_.buffer().data(),
            .b = b_.buffer().data(),
            .d = blas_output_.data(),
            .a_scales = blas_scales_[blas_scales_.size() - 2].data(),
            .b_scales = blas_scales_.back().data()};
}

}  // namespace tilewright::cli
