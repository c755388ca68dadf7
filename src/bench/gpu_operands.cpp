#include "bench/gpu_operands.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/math.h"
#include "bench/blas_groups.h"
#include "check/data.h"
#include "formats/element.h"
#include "measure/span.h"
#include "problem/packed_problem.h"

namespace tilewright::bench {
namespace {

/// splitmix64: a random number for each position.
std::uint64_t mixed(std::uint64_t position) {
    std::uint64_t z = (position + 1) * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/// 65,536 bytes of codes, or of pairs of them: each 16 bits of a random number pick one.
std::vector<std::uint8_t> normal_codes(Format format) {
    const std::vector<float>& draws = check::draws(check::Distribution::normal);
    std::vector<std::uint8_t> codes(std::size_t{1} << 16);
    const std::size_t count = codes.size() * 8 / static_cast<std::size_t>(bits(format));
    for (std::size_t i = 0; i < count; ++i) {
        formats::store(codes.data(), format, static_cast<std::int64_t>(i), draws[i % draws.size()]);
    }
    return codes;
}

void fill_values(Mirrored& tensor, Format format, std::uint64_t seed) {
    const std::vector<std::uint8_t> codes = normal_codes(format);
    const std::int64_t each = bits(format) == 16 ? 2 : 1;  // bytes that belong together
    auto* bytes = reinterpret_cast<std::uint8_t*>(tensor.bytes().data());
    const auto size = static_cast<std::int64_t>(tensor.bytes().size());
#pragma omp parallel for schedule(static)
    for (std::int64_t begin = 0; begin < size; begin += 4) {
        std::uint64_t random = mixed(seed + static_cast<std::uint64_t>(begin));
        for (std::int64_t i = begin; i < std::min(begin + 4, size); i += each, random >>= 16) {
            const std::uint64_t first = (random & 0xFFFFU) / static_cast<std::uint64_t>(each) * each;
            std::memcpy(bytes + i, &codes[first], static_cast<std::size_t>(each));
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

/// Where scales of rows are neighbours, columns are padded to 16 bytes, as TMA asks.
Tensor placed_scales(const Operand& operand, ScaleLayout layout) {
    Tensor scales = operand.scales;
    switch (operand.granularity) {
        case Granularity::none:
        case Granularity::tensor:
        case Granularity::row:
        case Granularity::block_128x128:
        case Granularity::block_1x16:
        case Granularity::block_1x32: return scales;  // packed with their values
        case Granularity::block_1x128: break;
        default:
            throw Error(
                fmt::format("scales: got {}; expected tensor, row, 1x128 or 128x128 on a GPU. Use --backend cpu",
                            name(operand.granularity)));
    }
    if (layout != ScaleLayout::m) return scales;
    const int rows = scales.shape.rank() - 2;
    const std::int64_t pitch = round_up<std::int64_t>(scales.shape[rows], 16);
    scales.strides[rows] = 1;
    scales.strides[rows + 1] = pitch;
    if (rows == 1) scales.strides[0] = pitch * scales.shape[2];
    return scales;
}

void require_fp8(const Tensor& values) {
    if (bits(values.format) == 8) return;
    throw Error(fmt::format(
        "values: got {}; expected e4m3 or e5m2, or bf16 or FP4 with FP4 weights, on a GPU. Use --backend cpu",
        name(values.format)));
}

Mirrored mirrored(const Tensor& tensor) { return tensor.shape.rank() > 0 ? Mirrored(tensor) : Mirrored(); }

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

/// Normal numbers of bf16 where the operand has its values.
measure::Buffer bf16_like(Tensor values, std::uint64_t seed) {
    values.data = nullptr;
    values.format = Format::bf16;
    Mirrored wide(values);
    fill_values(wide, Format::bf16, seed);
    wide.upload();
    return wide.take_buffer();
}

/// With weights that are not packed.
Problem host_shapes_of(const ProblemSizes& sizes, ScaleLayout scales) {
    Problem shapes = problem_of(sizes);
    if (!takes_packed_weights(shapes)) {
        require_fp8(shapes.a.values);
        require_fp8(shapes.b.values);
    }
    shapes.a.scales = placed_scales(shapes.a, scales);
    shapes.b.scales = placed_scales(shapes.b, scales == ScaleLayout::k_of_a ? ScaleLayout::m : scales);
    return shapes;
}

}  // namespace

Problem shapes_of(const ProblemSizes& sizes, ScaleLayout scales) {
    const Problem shapes = host_shapes_of(sizes, scales);
    return takes_packed_weights(shapes) ? with_packed_shape(shapes, sizes) : shapes;
}

void widen_rows(const ProblemSizes& sizes, const Tensor& scales) {
    if (sizes.first_wide_row() < 0) return;
    const std::int64_t columns = scales.shape[scales.shape.rank() - 1];
    const std::int64_t rows = row_major_bytes(scales.format, scales.shape) / columns;
    auto* const codes = static_cast<std::uint8_t*>(scales.data);
    for (std::int64_t row = sizes.first_wide_row(); row < rows; row += sizes.wide_rows) {
        for (std::int64_t column = 1; column < columns; column += 2) {
            std::uint8_t& code = codes[row * columns + column];
            code = static_cast<std::uint8_t>(code - sizes.wide_difference());
        }
    }
}

Mirrored::Mirrored(Tensor shaped) : shaped_(shaped), bytes_(measure::span_bytes(shaped)), buffer_(bytes_.size()) {}

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

GpuOperands::GpuOperands(const ProblemSizes& sizes, ScaleLayout scales, const std::vector<std::int64_t>& entries,
                         bool unpacked)
    : sizes_(sizes) {
    const Problem shapes = host_shapes_of(sizes, scales);
    a_ = Mirrored(shapes.a.values);
    b_ = Mirrored(shapes.b.values);
    a_scales_ = mirrored(shapes.a.scales);
    b_scales_ = mirrored(shapes.b.scales);
    a_tensor_scale_ = mirrored(shapes.a.tensor_scale);
    b_tensor_scale_ = mirrored(shapes.b.tensor_scale);
    d_ = Mirrored(shapes.d);
    fill_values(a_, sizes.recipe.a.values, 0);
    fill_values(b_, sizes.recipe.b.values, std::uint64_t{1} << 60);
    fill_scales(a_scales_, sizes.recipe.a.scales, std::uint64_t{1} << 61);
    fill_scales(b_scales_, sizes.recipe.b.scales, std::uint64_t{1} << 62);
    fill_scales(a_tensor_scale_, Format::f32, std::uint64_t{3} << 62);
    fill_scales(b_tensor_scale_, Format::f32, std::uint64_t{1} << 63);
    widen_rows(sizes, b_scales_.given() ? b_scales_.host() : Tensor{});
    for (Mirrored* tensor : {&a_, &b_, &a_scales_, &b_scales_, &a_tensor_scale_, &b_tensor_scale_}) {
        if (tensor->given()) tensor->upload();
    }
    if (takes_packed_weights(shapes) && !unpacked) pack();
    if (sizes.with_c) {
        fill_scales(d_, sizes.output, 0);
        c_ = d_.bytes();
    }
    if (!entries.empty()) set_group_sizes(shapes.groups.sizes, entries);
    if (const std::int64_t bytes = workspace_bytes(on_device()); bytes > 0) {
        workspace_ = measure::Buffer(static_cast<std::size_t>(bytes));
    }
}

void GpuOperands::set_group_sizes(const Tensor& shape, const std::vector<std::int64_t>& entries) {
    group_sizes_ = Mirrored(shape);
    auto* to = reinterpret_cast<std::int32_t*>(group_sizes_.bytes().data());
    for (std::size_t i = 0; i < entries.size(); ++i) to[i] = static_cast<std::int32_t>(entries[i]);
    group_sizes_.upload();
}

void GpuOperands::pack() {
    const OwnedPackedWeights on_host = pack_weights(host().b, packed_for(sizes_.recipe.a));
    const auto bytes = static_cast<std::size_t>(on_host.packed.bytes);
    packed_bytes_ = measure::Buffer(bytes);
    packed_bytes_.upload(on_host.packed.data, bytes);
    packed_ = on_host;
    packed_.data = packed_bytes_.data();
    packed_.device = {.kind = DeviceId::Kind::cuda, .index = 0};
}

Problem GpuOperands::on_device() const {
    Problem on_device = problem([](const Mirrored& tensor) { return tensor.on_device(); });
    if (packed_.given()) on_device.b = {.packed = packed_};
    return on_device;
}

void GpuOperands::poison_output() {
    if (c_.empty()) {
        std::memset(d_.bytes().data(), 0xFF, d_.bytes().size());
    } else {
        d_.bytes() = c_;
    }
    d_.upload();
}

measure::BlasProduct GpuOperands::blas(measure::BlasScaling scaling) {
    const bool blocks = scaling == measure::BlasScaling::blocks;
    const std::int64_t k_blocks = ceil_div<std::int64_t>(sizes_.k, 128);
    const std::int64_t b_scales = ceil_div<std::int64_t>(sizes_.n, 128) * round_up<std::int64_t>(k_blocks, 4);
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

measure::BlasGroups GpuOperands::blas_groups(const std::vector<std::int64_t>& group_sizes, Format values) {
    if (blas_output_.size() == 0) blas_output_ = measure::Buffer(blas_output_bytes(sizes_));
    BlasMatrices at{.a = a_.buffer().data(), .b = b_.buffer().data(), .d = blas_output_.data()};
    if (values == Format::bf16) {
        blas_values_.push_back(bf16_like(a_.host(), 0));
        at.a = blas_values_.back().data();
        blas_values_.push_back(bf16_like(b_.host(), std::uint64_t{1} << 60));
        at.b = blas_values_.back().data();
    }
    blas_scales_.push_back(uploaded(random_scales(1)));
    const void* scale = blas_scales_.back().data();
    return {.values = values,
            .groups = bench::blas_groups(sizes_, group_sizes, at, values),
            .a_scale = scale,
            .b_scale = scale};
}

}  // namespace tilewright::bench
