// Quantizers of matrices of more than 2^31 elements and 4 GiB, one form of each kind of kernel. Tokens repeat with a
// period, so that a small matrix on the CPU says what all outputs of the large one must be.
#include <gtest/gtest.h>
#include <tilewright/quantize_tokens.h>

#include <deque>
#include <utility>
#include <vector>

#include "formats/matrices.h"
#include "gpu/periodic.h"
#include "measure/device.h"

namespace tilewright::test {
namespace {

using formats::Matrix;
using measure::Buffer;

constexpr std::int64_t period = 1024, tokens = 299648, features = 7168;
static_assert(tokens * features > std::int64_t{1} << 31 && tokens % 128 == 0 && tokens % period != 0);

/// Tensors of the small matrix on the CPU, and of the large one on the GPU.
class LargeQuantizer {
public:
    struct Pair {
        Tensor small;
        Tensor large;
    };

    Pair input(Format format, std::int64_t columns, unsigned seed) {
        matrices_.emplace_back(format, Dims{period, columns});
        matrices_.back().fill_randomly(seed);
        const Tensor small = matrices_.back().tensor();
        const Periodic data = periodic(small, {tokens, columns});
        buffers_.push_back(data.on_gpu());
        return {small, data.tensor(buffers_.back())};
    }

    Pair output(Format format, const Dims& small, const Dims& large) {
        matrices_.emplace_back(format, small);
        const Tensor tensor = matrices_.back().tensor();
        Tensor view = row_major(static_cast<void*>(nullptr), format, large);
        buffers_.emplace_back(static_cast<std::size_t>(row_major_bytes(format, large)));
        buffers_.back().fill(0xA5);
        view.data = buffers_.back().data();
        view.device = {.kind = DeviceId::Kind::cuda, .index = 0};
        outputs_.push_back({{tensor, view}, buffers_.size() - 1});
        return outputs_.back().pair;
    }

    /// Values and scales of [rows, k], of which one is `tokens`.
    std::pair<Operand, Operand> operands(const OperandRecipe& recipe, const Dims& small, const Dims& large) {
        const Pair values = output(recipe.values, small, large);
        const Pair scales =
            output(recipe.scales, scale_shape(recipe.granularity, small), scale_shape(recipe.granularity, large));
        Pair tensor_scale;
        if (recipe.granularity == Granularity::block_1x16) tensor_scale = output(Format::f32, {1}, {1});
        return {{values.small, recipe.granularity, scales.small, tensor_scale.small},
                {values.large, recipe.granularity, scales.large, tensor_scale.large}};
    }

    const measure::Device& device() const { return device_; }

    void expect_periodic() const {
        device_.synchronize();
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const Output& out = outputs_[i];
            EXPECT_EQ(periodic(out.pair.small, out.pair.large.shape).difference(buffers_[out.buffer]), "")
                << "output " << i << " of " << outputs_.size();
        }
    }

private:
    struct Output {
        Pair pair;
        std::size_t buffer;
    };

    /// Rows repeat where they are tokens, columns where those are.
    static Periodic periodic(const Tensor& small, const Dims& large) {
        const std::int64_t rows = small.shape.rank() > 1 ? small.shape[0] : 1;
        return {small, large, [rows](std::int64_t row) { return Place{row % rows}; }};
    }

    measure::Device device_;
    std::deque<Matrix> matrices_;
    std::vector<Buffer> buffers_;
    std::vector<Output> outputs_;
};

void expect_rows_and_columns(Granularity granularity, Activation activation) {
    LargeQuantizer large;
    const OperandRecipe recipe{Format::e4m3, granularity, Format::f32};
    const auto x = large.input(Format::bf16, features, 1);
    TokenSource small_source{.x = x.small, .activation = activation};
    TokenSource large_source{.x = x.large, .activation = activation};
    if (activation == Activation::swiglu_gradient) {
        const auto gradient = large.input(Format::bf16, features / 2, 2);
        small_source.gradient = gradient.small;
        large_source.gradient = gradient.large;
    }
    const auto rows = large.operands(recipe, {period, features}, {tokens, features});
    const auto columns = large.operands(recipe, {features, period}, {features, tokens});
    large.device().synchronize();
    quantize_tokens(large_source, {rows.second, {}, {}}, {columns.second, {}, {}}, false,
                    {.stream = large.device().stream()});
    quantize_tokens(small_source, {rows.first, {}, {}}, {columns.first, {}, {}});
    large.expect_periodic();
}

TEST(GpuLargeQuantizer, Blocks1x128) { expect_rows_and_columns(Granularity::block_1x128, Activation::none); }
TEST(GpuLargeQuantizer, Blocks128x128) { expect_rows_and_columns(Granularity::block_128x128, Activation::none); }
TEST(GpuLargeQuantizer, RowsAreMeasuredBefore) { expect_rows_and_columns(Granularity::row, Activation::none); }
TEST(GpuLargeQuantizer, TensorsAreMeasuredBefore) { expect_rows_and_columns(Granularity::tensor, Activation::none); }
TEST(GpuLargeQuantizer, GradientOfSwiGlu) {
    expect_rows_and_columns(Granularity::block_1x128, Activation::swiglu_gradient);
}

void expect_short_blocks(const OperandRecipe& recipe) {
    LargeQuantizer large;
    const auto x = large.input(Format::bf16, features, 3);
    const auto out = large.operands(recipe, {period, features}, {tokens, features});
    large.device().synchronize();
    quantize(x.large, {.recipe = recipe}, out.second, {.stream = large.device().stream()});
    quantize(x.small, {.recipe = recipe}, out.first);
    large.expect_periodic();
}

TEST(GpuLargeQuantizer, Mxfp8) { expect_short_blocks({Format::e4m3, Granularity::block_1x32, Format::ue8m0}); }
TEST(GpuLargeQuantizer, Mxfp4) { expect_short_blocks({Format::e2m1, Granularity::block_1x32, Format::ue8m0}); }
TEST(GpuLargeQuantizer, Nvfp4) { expect_short_blocks({Format::e2m1, Granularity::block_1x16, Format::ue4m3}); }

TEST(GpuLargeQuantizer, TransposeOfCodes) {
    LargeQuantizer large;
    const OperandRecipe recipe{Format::e4m3, Granularity::block_1x128, Format::ue8m0};
    const auto x = large.input(Format::bf16, features, 4);
    const auto rows = large.operands(recipe, {period, features}, {tokens, features});
    const auto columns = large.operands(recipe, {features, period}, {features, tokens});
    large.device().synchronize();
    const ConversionOptions in_order{.stream = large.device().stream()};
    quantize(x.large, {.recipe = recipe}, rows.second, in_order);
    transpose_codes(rows.second, {}, columns.second, in_order);
    quantize(x.small, {.recipe = recipe}, rows.first);
    transpose_codes(rows.first, {}, columns.first);
    large.expect_periodic();
}

}  // namespace
}  // namespace tilewright::test
