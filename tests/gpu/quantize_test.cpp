// The quantizers on a GPU against the CPU's, bit for bit:
// - every recipe from every format in every order of memory;
// - rows and columns of tokens with groups, factors and SwiGLU;
// - NaN and infinities;
// - in a graph;
// - the reciprocal that they use.
#include <gtest/gtest.h>
#include <tilewright/quantize_tokens.h>

#include <cmath>
#include <cstring>
#include <random>

#include "cuda/compiler.h"
#include "formats/matrices.h"
#include "gpu/gpu_case.h"
#include "gpu/quantize_case.h"
#include "measure/device.h"

namespace tilewright {
namespace {

using formats::Matrix;
using formats::Order;
using measure::Buffer;
using test::expect_cpu_bits;
using test::fill;
using test::memory_of;
using test::OnGpu;

std::vector<OperandRecipe> recipes() {
    std::vector<OperandRecipe> list;
    for (const Format values : {Format::e4m3, Format::e5m2}) {
        for (const Granularity granularity :
             {Granularity::tensor, Granularity::row, Granularity::block_1x128, Granularity::block_128x128}) {
            list.push_back({values, granularity, Format::f32});
            if (k_block(granularity) > 0) list.push_back({values, granularity, Format::ue8m0});
        }
    }
    return list;
}

class GpuQuantize : public testing::TestWithParam<OperandRecipe> {};

/// Each combination is a kernel that NVRTC compiles in a second: orders are tried with bf16 and f32 scales.
TEST_P(GpuQuantize, EveryFormatInEveryOrder) {
    const test::CurrentDevice device;
    const bool every_order = GetParam().values == Format::e4m3 && GetParam().scales == Format::f32;
    for (const Dims& shape : {Dims{300, 528}, Dims{131, 77}, Dims{2, 144, 272}}) {
        for (const Format format : {Format::f32, Format::bf16, Format::f16}) {
            for (const Order from : formats::all_orders) {
                Matrix x(format, shape, from);
                if (from != Order::row_major && !(every_order && format == Format::bf16)) continue;
                fill(x, 1);
                for (const Order to : formats::all_orders) {
                    if (to != Order::row_major && !(every_order && format == Format::bf16)) continue;
                    expect_cpu_bits(x, {.recipe = GetParam()}, to);
                    if (from == to) expect_cpu_bits(x, {.recipe = GetParam(), .round_up = true}, to);
                }
            }
        }
    }
}

struct Form {
    Activation activation = Activation::none;
    SwiGlu swiglu{};
    bool folds = false;
    bool grouped = false;
};

/// Rows and columns by the same recipe.
void expect_cpu_bits(const OperandRecipe& recipe, const Form& form) {
    const bool squares = recipe.granularity == Granularity::block_128x128;
    const std::vector<std::int64_t> ends{0, 5, 300, 290, 700};
    const std::int64_t groups = form.grouped ? 5 : 1, tokens = 700, width = 2 * 272;
    const std::int64_t features = form.activation == Activation::swiglu ? width / 2 : width;
    Matrix x(Format::bf16, {tokens, width}), gradient(Format::bf16, {tokens, width / 2});
    Matrix by_token(Format::f32, {tokens, 1}), by_feature(Format::f32, {groups, features});
    fill(x, 2);
    fill(gradient, 3);
    by_token.fill_randomly(4);
    by_feature.fill_randomly(5);
    TokenSource source{.x = x.tensor(), .activation = form.activation, .swiglu = form.swiglu};
    if (form.activation == Activation::swiglu_gradient) source.gradient = gradient.tensor();
    if (form.grouped) source.ends = row_major(ends.data(), Format::i64, {groups});
    const Dims turned{features, form.grouped ? column_limit(tokens, groups) : tokens};
    Dims column_scales = scale_shape(recipe.granularity, turned);
    if (form.grouped && recipe.granularity == Granularity::row) column_scales = {groups, features};
    if (form.grouped && recipe.granularity == Granularity::tensor) column_scales = {groups};
    const Matrix rows(recipe.values, {tokens, features}), columns(recipe.values, turned);
    const Matrix row_scales(recipe.scales, scale_shape(recipe.granularity, {tokens, features}));
    const Matrix scales(recipe.scales, column_scales);
    TokenOperand first{{rows.tensor(), recipe.granularity, row_scales.tensor(), {}}};
    TokenOperand second{{columns.tensor(), recipe.granularity, scales.tensor(), {}}};
    if (form.folds) second.token_factors = row_major(by_token.tensor().data, Format::f32, {tokens});
    if (form.folds && form.grouped) first.feature_factors = by_feature.tensor();
    if (squares && form.grouped) first = {};
    OnGpu on_gpu;
    const TokenOperand first_on_gpu = on_gpu(first), second_on_gpu = on_gpu(second);
    quantize_tokens(on_gpu(source), first_on_gpu, second_on_gpu);
    quantize_tokens(source, first, second);
    EXPECT_EQ(on_gpu.differences(), 0) << name(recipe) << " activation " << int(form.activation) << " folds "
                                       << form.folds << " grouped " << form.grouped;
}

TEST_P(GpuQuantize, RowsAndColumnsOfTokens) {
    if (GetParam().values == Format::e5m2 && GetParam().scales == Format::f32) GTEST_SKIP() << "as e4m3";
    const test::CurrentDevice device;
    const SwiGlu gpt_oss{.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = true};
    for (const bool grouped : {false, true}) {
        for (const bool folds : {false, true}) {
            for (const Activation activation : {Activation::none, Activation::swiglu, Activation::swiglu_gradient}) {
                expect_cpu_bits(GetParam(), {activation, {}, folds, grouped});
                if (activation != Activation::none) expect_cpu_bits(GetParam(), {activation, gpt_oss, folds, grouped});
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, GpuQuantize, testing::ValuesIn(recipes()), [](const auto& tested) {
    std::string text = name(tested.param);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return text;
});

TEST(GpuQuantizeGraph, CapturedCallsReadWhatIsThereWhenTheyAreLaunched) {
    const test::CurrentDevice device;
    const test::Stream stream;
    const cuda::Driver& driver = cuda::driver();
    Matrix x(Format::bf16, {300, 512});
    const Matrix values(Format::e4m3, {300, 512}), scales(Format::f32, {300, 1});
    const Operand out{values.tensor(), Granularity::row, row_major(scales.tensor().data, Format::f32, {300}), {}};
    const QuantizeOptions options{.recipe = {Format::e4m3, Granularity::row}};
    OnGpu on_gpu;
    const Tensor source = on_gpu(x.tensor());
    const Operand out_on_gpu = on_gpu(out);
    cuda::GraphHandle graph = nullptr;
    cuda::GraphExecutionHandle executable = nullptr;
    driver.require(driver.call.stream_begin_capture(stream.handle(), 0), "cuStreamBeginCapture", 0);
    quantize(source, options, out_on_gpu, {.stream = stream.handle()});
    driver.require(driver.call.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture", 0);
    driver.require(driver.call.graph_instantiate(&executable, graph, 0), "cuGraphInstantiate", 0);
    for (const unsigned seed : {6U, 7U}) {
        fill(x, seed);
        const std::size_t bytes = memory_of(x.tensor());
        driver.require(driver.call.write(reinterpret_cast<cuda::DeviceAddress>(source.data), x.tensor().data, bytes),
                       "cuMemcpyHtoD", 0);
        driver.require(driver.call.graph_launch(executable, stream.handle()), "cuGraphLaunch", 0);
        stream.wait();
        quantize(x.tensor(), options, out);
        EXPECT_EQ(on_gpu.differences(), 0);
    }
    driver.call.graph_execution_destroy(executable);
    driver.call.graph_destroy(graph);
}

TEST(GpuQuantizeTranspose, CodesAreShiftedAsOnTheCpu) {
    const test::CurrentDevice device;
    const std::vector<std::int32_t> ends{100, 100, 500};
    for (const Format scale_format : {Format::f32, Format::ue8m0}) {
        for (const Granularity to : {Granularity::block_1x128, Granularity::block_128x128}) {
            for (const std::int64_t features : {272, 131}) {
                Matrix x(Format::f32, {500, features});
                fill(x, 9);
                const OwnedOperand rows = quantize(
                    x.tensor(), {.recipe = {Format::e4m3, Granularity::block_1x128, scale_format}, .round_up = true});
                const Dims shape{features, column_limit(500, 3)};
                const Matrix values(Format::e4m3, shape), scales(scale_format, scale_shape(to, shape));
                const Operand columns{values.tensor(), to, scales.tensor(), {}};
                const Tensor of_groups = row_major(ends.data(), Format::i32, {3});
                OnGpu on_gpu;
                const Operand columns_on_gpu = on_gpu(columns);
                transpose_codes(on_gpu(rows.operand()), on_gpu(of_groups), columns_on_gpu);
                transpose_codes(rows, of_groups, columns);
                EXPECT_EQ(on_gpu.differences(), 0) << name(scale_format) << " " << name(to) << " " << features;
            }
        }
    }
}

// Scales are multiplied with by their inverses, which must be correctly rounded (src/hopper/quantize/scale.h).
const char* const reciprocals = R"(
#include "hopper/ptx/ptx_numbers_sm90.h"
template <int exponent> __global__ void wrong_reciprocals(unsigned* count) {
    const unsigned bits = unsigned(exponent + 127) << 23 | (blockIdx.x * 256 + threadIdx.x);
    const float x = __uint_as_float(bits);
    if (tilewright::formats::reciprocal(x) != __frcp_rn(x)) atomicAdd(count, 1u);
}
)";

template <int exponent>
unsigned wrong_reciprocals(const cuda::Compiler& compiler) {
    const cuda::Driver& driver = cuda::driver();
    const std::string expression = "wrong_reciprocals<" + std::to_string(exponent) + ">";
    const cuda::CompiledKernel compiled = compiler.compile({.text = reciprocals, .expression = expression}).kernel;
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    driver.require(driver.call.library_load(&library, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                   "cuLibraryLoadData", 0);
    driver.require(driver.call.library_kernel(&kernel, library, compiled.name.c_str()), "cuLibraryGetKernel", 0);
    const Buffer count(4);
    count.fill(0);
    cuda::DeviceAddress address = count.address();
    void* parameters[] = {&address};
    const cuda::LaunchConfig config{.grid = {(1U << 23) / 256, 1, 1}, .block = {256, 1, 1}};
    driver.require(driver.call.launch(&config, kernel, parameters, nullptr), "cuLaunchKernelEx", 0);
    driver.require(driver.call.context_synchronize(), "cuCtxSynchronize", 0);
    unsigned wrong = 1;
    count.download(&wrong, sizeof wrong);
    return wrong;
}

TEST(GpuQuantizeReciprocal, IsCorrectlyRoundedForEverySignificand) {
    const test::CurrentDevice device;
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    EXPECT_EQ(wrong_reciprocals<0>(compiler), 0U);
    EXPECT_EQ(wrong_reciprocals<-62>(compiler), 0U);
    EXPECT_EQ(wrong_reciprocals<119>(compiler), 0U);
}

}  // namespace
}  // namespace tilewright
