// A quantizer on a GPU and on the CPU: the same tensors in both memories, compared as bytes.
#pragma once

#include <gtest/gtest.h>
#include <tilewright/quantize_tokens.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "formats/matrices.h"
#include "measure/device.h"

namespace tilewright::test {

using formats::Matrix;
using formats::Order;
using measure::Buffer;

inline std::size_t memory_of(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    return static_cast<std::size_t>((last + 1) * bits(tensor.format) / 8);
}

/// Tensors of the host and their copies on the GPU.
class OnGpu {
public:
    Tensor operator()(const Tensor& tensor) {
        if (!tensor.given()) return tensor;
        copies_.push_back({tensor.data, Buffer(memory_of(tensor))});
        copies_.back().buffer.upload(tensor.data, memory_of(tensor));
        Tensor copy = tensor;
        copy.data = copies_.back().buffer.data();
        copy.device = {.kind = DeviceId::Kind::cuda};
        return copy;
    }
    Operand operator()(const Operand& operand) {
        return {(*this)(operand.values), operand.granularity, (*this)(operand.scales), (*this)(operand.tensor_scale)};
    }
    TokenOperand operator()(const TokenOperand& side) {
        return {(*this)(side.operand), (*this)(side.token_factors), (*this)(side.feature_factors)};
    }
    TokenSource operator()(const TokenSource& source) {
        return {(*this)(source.x), (*this)(source.index),    source.activation,
                source.swiglu,     (*this)(source.gradient), (*this)(source.ends)};
    }

    /// Copies whose bytes are not those of the host.
    int differences() const {
        const cuda::Driver& driver = cuda::driver();
        driver.require(driver.call.context_synchronize(), "cuCtxSynchronize", 0);
        int count = 0;
        for (const Copy& copy : copies_) {
            std::vector<std::byte> bytes(copy.buffer.size());
            copy.buffer.download(bytes.data(), bytes.size());
            count += std::memcmp(bytes.data(), copy.host, bytes.size()) != 0 ? 1 : 0;
        }
        return count;
    }

private:
    struct Copy {
        const void* host;
        Buffer buffer;
    };
    std::vector<Copy> copies_;
};

inline void fill(Matrix& matrix, unsigned seed) {
    matrix.fill_randomly(seed);
    std::mt19937 random(seed);
    for (const double number : {double{NAN}, double{INFINITY}, -double{INFINITY}, 1e-40, -0.0, 3e4, -1e-45, 1e-30}) {
        matrix.set(0, random() % matrix.rows(), random() % matrix.columns(), number);
    }
}

/// The host's outputs are written by the CPU after their copies were made, which begin with the same bytes.
inline void expect_cpu_bits(const Matrix& x, const QuantizeOptions& options, Order order) {
    const Matrix values(options.recipe.values, x.shape(), order);
    const Matrix scales(options.recipe.scales, scale_shape(options.recipe.granularity, x.shape()));
    const Matrix tensor_scale(Format::f32, scale_shape(Granularity::tensor, x.shape()));
    Operand out{values.tensor(), options.recipe.granularity, scales.tensor(), {}};
    if (options.recipe.granularity == Granularity::block_1x16) out.tensor_scale = tensor_scale.tensor();
    OnGpu on_gpu;
    const Operand out_on_gpu = on_gpu(out);
    quantize(on_gpu(x.tensor()), options, out_on_gpu);
    quantize(x.tensor(), options, out);
    EXPECT_EQ(on_gpu.differences(), 0) << name(options.recipe) << " " << to_string(x.shape()) << " of "
                                       << name(x.tensor().format) << " to order " << int(order);
}

}  // namespace tilewright::test
