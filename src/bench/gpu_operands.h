// Operands of a benchmark, twice: in host memory for the check, and on the GPU. Values are e4m3 codes of normal
// numbers, scales are between 0.5 and 1.5. The same sizes give the same data, because power, and with it the clock,
// depends on the data.
#pragma once

#include <tilewright/run.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "measure/blas_lt.h"
#include "measure/device.h"
#include "problem/problem_sizes.h"

namespace tilewright::bench {

/// Which 1x128 scales are adjacent in memory: of neighbouring rows, along k, or along k for A and of rows for B.
enum class ScaleLayout : std::uint8_t { m, k, k_of_a };

/// A problem without memory whose scales have these strides; fp8, or fp8 and bf16 with packed weights. Throws Error
/// where the recipe is another one.
Problem shapes_of(const ProblemSizes& sizes, ScaleLayout scales);

/// Makes every other block of the weights' wide rows so small that these rows are wide. Scales are ue8m0 near 1 in host
/// memory, rows one after another.
void widen_rows(const ProblemSizes& sizes, const Tensor& scales);

/// A tensor in both memories.
class Mirrored {
public:
    Mirrored() = default;
    /// Like `shaped`, whose data pointer is null: format, shape and strides.
    explicit Mirrored(Tensor shaped);

    Tensor host() const;
    Tensor on_device() const;
    bool given() const { return shaped_.shape.rank() > 0; }
    std::vector<std::byte>& bytes() { return bytes_; }
    const measure::Buffer& buffer() const { return buffer_; }
    measure::Buffer take_buffer() { return std::move(buffer_); }

    void upload() { buffer_.upload(bytes_.data(), bytes_.size()); }
    void download() { buffer_.download(bytes_.data(), bytes_.size()); }

private:
    Tensor shaped_{};
    std::vector<std::byte> bytes_;
    measure::Buffer buffer_;
};

class GpuOperands {
public:
    /// The recipes are the same. Weights are packed on the GPU except with `unpacked`. `entries` are the numbers in
    /// groups.sizes. Throws Error where the recipe is another one.
    GpuOperands(const ProblemSizes& sizes, ScaleLayout scales, const std::vector<std::int64_t>& entries = {},
                bool unpacked = false);

    Problem host() const {
        Problem host = problem([](const Mirrored& tensor) { return tensor.host(); });
        if (!c_.empty()) host.c.data = const_cast<std::byte*>(c_.data());
        return host;
    }
    Problem on_device() const;
    /// As large as the call on the device needs.
    Workspace workspace() const { return {workspace_.data(), static_cast<std::int64_t>(workspace_.size())}; }

    /// D becomes C where it is accumulated, else NaN, so that whatever is not written shows.
    void poison_output();
    void fetch_output() { d_.download(); }
    const measure::Buffer& output() const { return d_.buffer(); }

    /// The same values for cuBLASLt, with scales in its layout and a separate output. Dense, e4m3.
    measure::BlasProduct blas(measure::BlasScaling scaling);
    /// The groups, of e4m3 with the same values, or of bf16 with others. Layout nt; group_sizes as `blas_groups` has
    /// them.
    measure::BlasGroups blas_groups(const std::vector<std::int64_t>& group_sizes, Format values);

private:
    template <typename View>
    Problem problem(const View& view) const;

    void pack();
    void set_group_sizes(const Tensor& shape, const std::vector<std::int64_t>& entries);

    ProblemSizes sizes_;
    Mirrored a_;
    Mirrored b_;
    Mirrored a_scales_;
    Mirrored b_scales_;
    Mirrored a_tensor_scale_;  // NVFP4 only
    Mirrored b_tensor_scale_;
    Mirrored group_sizes_;
    Mirrored d_;
    std::vector<std::byte> c_{};  // D's contents before a call, where it is accumulated
    PackedWeights packed_{};      // the weights on the GPU, if kernels read them only packed
    measure::Buffer packed_bytes_;
    measure::Buffer workspace_;
    measure::Buffer blas_output_;
    std::vector<measure::Buffer> blas_values_;  // of bf16
    std::vector<measure::Buffer> blas_scales_;
};

template <typename View>
Problem GpuOperands::problem(const View& view) const {
    const auto if_given = [&](const Mirrored& tensor) { return tensor.given() ? view(tensor) : Tensor{}; };
    Problem problem;
    problem.a = {.values = view(a_),
                 .granularity = sizes_.recipe.a.granularity,
                 .scales = if_given(a_scales_),
                 .tensor_scale = if_given(a_tensor_scale_)};
    problem.b = {.values = view(b_),
                 .granularity = sizes_.recipe.b.granularity,
                 .scales = if_given(b_scales_),
                 .tensor_scale = if_given(b_tensor_scale_)};
    problem.d = view(d_);
    if (sizes_.with_c) problem.c = view(d_);
    problem.layout = sizes_.layout;
    problem.groups.grouping = sizes_.grouping;
    if (group_sizes_.given()) problem.groups.sizes = view(group_sizes_);
    problem.expected_m = sizes_.expected_m;
    problem.accumulation = sizes_.accumulation;
    problem.reproducibility = sizes_.reproducibility;
    problem.arithmetic = Arithmetic::bit_exact;
    problem.sm_limit = sizes_.sm_limit;
    return problem;
}

}  // namespace tilewright::bench
