// A linear layer in one call per direction: against float64, with groups and without, and its messages. That its bits
// are those of the quantizers and products is the subject of tests/python/test_torch_optimizers.py.
#include <tilewright/linear.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace tilewright {
namespace {

using Numbers = std::vector<float>;
constexpr float unwritten = -7777;

Numbers random_numbers(std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Numbers numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = normal(random);
    return numbers;
}

/// The root of the mean square of the differences, relative to that of `exact`.
double error(const Numbers& given, const std::vector<double>& exact) {
    double off = 0;
    double all = 1e-300;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        off += (given[i] - exact[i]) * (given[i] - exact[i]);
        all += exact[i] * exact[i];
    }
    return std::sqrt(off / all);
}

struct Layer {
    std::int64_t tokens = 0, k = 0, n = 0;
    std::vector<std::int32_t> ends{};  // empty: dense

    std::int64_t groups() const { return ends.empty() ? 1 : std::ssize(ends); }
    Tensor end_tensor() const {
        return ends.empty() ? Tensor{} : row_major(static_cast<const void*>(ends.data()), Format::i32, {groups()});
    }
    /// The group of a token; -1: none.
    std::int64_t group_of(std::int64_t token) const {
        if (ends.empty()) return 0;
        for (std::size_t i = 0; i < ends.size(); ++i) {
            if (token < ends[i]) return static_cast<std::int64_t>(i);
        }
        return -1;
    }
    Dims weights(std::int64_t rows, std::int64_t columns) const {
        return ends.empty() ? Dims{rows, columns} : Dims{groups(), rows, columns};
    }
};

/// An operand in its own memory.
struct Memory {
    Memory(const OperandRecipe& recipe, const Dims& shape, const Dims& scale_shape)
        : values(static_cast<std::size_t>(row_major_bytes(recipe.values, shape)) + 1),
          scales(static_cast<std::size_t>(row_major_bytes(Format::f32, scale_shape)) / 4 + 1),
          operand{row_major(static_cast<void*>(values.data()), recipe.values, shape),
                  recipe.granularity,
                  row_major(static_cast<void*>(scales.data()), Format::f32, scale_shape),
                  {},
                  {}} {}
    std::vector<std::uint8_t> values;
    Numbers scales;
    Operand operand;
};

Tensor turned(Tensor tensor) {
    const int last = tensor.shape.rank() - 1;
    std::swap(tensor.shape[last], tensor.shape[last - 1]);
    std::swap(tensor.strides[last], tensor.strides[last - 1]);
    return tensor;
}

/// Forward and backward of one layer, and what float64 makes of them.
struct Step {
    Step(const Layer& layer, std::string_view name)
        : size(layer),
          recipe(linear_recipe(name)),
          x(random_numbers(size.tokens * size.k, 1)),
          w(random_numbers(size.groups() * size.n * size.k, 2)),
          dy(random_numbers(size.tokens * size.n, 3)),
          y(static_cast<std::size_t>(size.tokens * size.n), unwritten),
          dx(x.size(), unwritten),
          dw(w.size(), unwritten) {
        forward.options.recipe = backward.options.recipe = recipe;
        weights = quantize(weight_tensor(), {.recipe = recipe.weights});
        forward.x = row_major(x.data(), Format::f32, {size.tokens, size.k});
        forward.w = weights;
        forward.ends = backward.ends = size.end_tensor();
        forward.y = row_major(y.data(), Format::f32, {size.tokens, size.n});
        const std::int64_t groups = size.ends.empty() ? 0 : size.groups();
        const OperandShape shape = kept_shape(recipe, size.tokens, size.k, groups);
        kept = Memory(recipe.columns.value_or(recipe.activations), shape.values, shape.scales);
        forward.kept = backward.kept = kept.operand;
        backward.dy = row_major(dy.data(), Format::f32, {size.tokens, size.n});
        backward.dx = row_major(dx.data(), Format::f32, {size.tokens, size.k});
        backward.dw = row_major(dw.data(), Format::f32, {size.groups(), size.n, size.k});
        if (recipe.backward_weights) {
            backward_weights = quantize(turned(weight_tensor()), {.recipe = *recipe.backward_weights});
            backward.w = backward_weights;
        } else {
            backward.w = weights.operand();
        }
    }

    Tensor weight_tensor() { return row_major(w.data(), Format::f32, size.weights(size.n, size.k)); }

    void expect_right() {
        std::vector<double> exact_y(y.size()), exact_dx(dx.size()), exact_dw(dw.size());
        for (std::int64_t t = 0; t < size.tokens; ++t) {
            const std::int64_t group = size.group_of(t);
            if (group < 0) continue;
            for (std::int64_t i = 0; i < size.n; ++i) {
                for (std::int64_t j = 0; j < size.k; ++j) {
                    const auto at = static_cast<std::size_t>((group * size.n + i) * size.k + j);
                    const auto of_x = static_cast<std::size_t>(t * size.k + j);
                    const auto of_y = static_cast<std::size_t>(t * size.n + i);
                    exact_y[of_y] += double{x[of_x]} * w[at];
                    exact_dx[of_x] += double{dy[of_y]} * w[at];
                    exact_dw[at] += double{dy[of_y]} * x[of_x];
                }
            }
        }
        EXPECT_LT(error(y, exact_y), 0.05);
        EXPECT_LT(error(dx, exact_dx), 0.05);
        EXPECT_LT(error(dw, exact_dw), 0.05);
    }

    Layer size;
    LinearRecipe recipe;
    Numbers x, w, dy, y, dx, dw;
    OwnedOperand weights{}, backward_weights{};
    Memory kept{{}, {0, 0}, {0}};
    LinearForward forward{};
    LinearBackward backward{};
};

const std::vector<Layer>& layers() {
    static const std::vector<Layer> all{{.tokens = 150, .k = 160, .n = 48},
                                        {.tokens = 200, .k = 48, .n = 144, .ends = {40, 40, 170}},
                                        {.tokens = 130, .k = 32, .n = 32, .ends = {0, 130}}};
    return all;
}

template <class Call>
std::string message_of(const Call& call) {
    try {
        run(call);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Linear, EveryRecipeIsNearFloat64AndTokensOfNoGroupAreZeros) {
    for (const std::string_view name : linear_recipe_names()) {
        for (const Layer& layer : layers()) {
            SCOPED_TRACE(std::string(name) + ", groups: " + std::to_string(layer.ends.size()));
            Step step(layer, name);
            run(step.forward);
            run(step.backward);
            step.expect_right();
            if (layer.ends.empty()) continue;
            for (std::int64_t i = layer.ends.back() * layer.n; i < layer.tokens * layer.n; ++i) {
                ASSERT_EQ(step.y[static_cast<std::size_t>(i)], 0);
            }
            for (std::int64_t i = layer.ends.back() * layer.k; i < layer.tokens * layer.k; ++i) {
                ASSERT_EQ(step.dx[static_cast<std::size_t>(i)], 0);
            }
        }
    }
}

TEST(Linear, ForwardQuantizesTheWeightsThatItIsGiven) {
    for (const std::string_view name : linear_recipe_names()) {
        Step before(layers()[1], name);
        run(before.forward);
        Step now(layers()[1], name);
        const Tensor& scales = now.forward.w.scales;
        std::memset(scales.data, 0, static_cast<std::size_t>(row_major_bytes(scales.format, scales.shape)));
        now.forward.w_real = now.weight_tensor();
        run(now.forward);
        EXPECT_EQ(now.y, before.y) << name;
        now.forward.w_real.shape[0] = 2;
        EXPECT_NE(message_of(now.forward).find("w_real: got [2, 144, 48]"), std::string::npos);
    }
}

TEST(Linear, ADirectionWritesOnlyWhatIsWanted) {
    Step whole(layers()[1], "1x128");
    run(whole.forward);
    run(whole.backward);
    Step parts(layers()[1], "1x128");
    run(parts.forward);
    LinearBackward only = parts.backward;
    only.dw = {};
    only.kept = {};
    run(only);
    EXPECT_EQ(parts.dx, whole.dx);
    EXPECT_EQ(parts.dw, Numbers(parts.dw.size(), unwritten));
    only = parts.backward;
    only.dx = {};
    only.w = {};
    run(only);
    EXPECT_EQ(parts.dw, whole.dw);
    std::fill(parts.dw.begin(), parts.dw.end(), 1.0F);
    only.adds = true;
    run(only);
    for (std::size_t i = 0; i < parts.dw.size(); ++i) ASSERT_NEAR(parts.dw[i], whole.dw[i] + 1, 1e-4);
}

TEST(Linear, EachMistakeIsNamed) {
    Step good(layers()[1], "1x128");
    const auto forward = [&](auto change) {
        LinearForward call = good.forward;
        change(call);
        return message_of(call);
    };
    const auto backward = [&](auto change) {
        LinearBackward call = good.backward;
        change(call);
        return message_of(call);
    };
    using F = LinearForward;
    using B = LinearBackward;
    EXPECT_NE(forward([](F& c) { c.x = {}; }).find("x: got nothing; expected [tokens, K]"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.x.shape[1] = 47; }).find("x: got [200, 47]"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.x.format = Format::e4m3; }).find("x: got e4m3"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.ends = {}; }).find("w.values: got [3, 144, 48]; expected [N, K]"),
              std::string::npos);
    EXPECT_NE(forward([](F& c) { c.ends.shape[0] = 2; }).find("ends: got [2]; expected [3]"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.y.shape[1] = 1; }).find("y: got [200, 1]; expected [200, 144]"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.w.granularity = Granularity::row; }).find("expected 128x128, because of the recipe"),
              std::string::npos);
    EXPECT_NE(forward([](F& c) { c.kept.values.shape[1] = 128; }).find("kept.values: got [48, 128]"),
              std::string::npos);
    EXPECT_NE(forward([](F& c) { c.options.accumulation = Accumulation::unpromoted; }).find("accumulation: got"),
              std::string::npos);
    EXPECT_NE(forward([](F& c) { c.x.data = nullptr; }).find("null pointer"), std::string::npos);
    EXPECT_NE(backward([](B& c) { c.dx = c.dw = {}; }).find("dx: got nothing; expected dx, dw or both"),
              std::string::npos);
    EXPECT_NE(backward([](B& c) { c.dw.shape[2] = 40; }).find("kept.values: got [48, 512]"), std::string::npos);
    EXPECT_NE(backward([](B& c) { c.w = {}; }).find("w.values: got nothing"), std::string::npos);
    EXPECT_NE(backward([](B& c) { c.kept = {}; }).find("kept.values: got nothing"), std::string::npos);
    // Rows of tokens of no group are cleared: memory and order are checked first.
    EXPECT_NE(forward([](F& c) { c.y.data = nullptr; }).find("y: got a null pointer"), std::string::npos);
    EXPECT_NE(forward([](F& c) {
                  c.y.strides = {1, 200};
              }).find("y: got strides [1, 200]; expected adjacent columns"),
              std::string::npos);
    EXPECT_NE(backward([](B& c) { c.dx.strides = {1, 200}; }).find("dx: got strides [1, 200]"), std::string::npos);
    EXPECT_NE(forward([](F& c) { c.ends.data = nullptr; }).find("a null pointer"), std::string::npos);
    EXPECT_EQ(message_of(good.forward), "");
    EXPECT_EQ(message_of(good.backward), "");
}

TEST(Linear, RecipesHaveNames) {
    EXPECT_TRUE(linear_recipe("fold").folds());
    EXPECT_EQ(linear_recipe("row", Format::e5m2).gradients.values, Format::e5m2);
    EXPECT_EQ(linear_recipe("row", Format::e5m2).columns->values, Format::e4m3);
    EXPECT_THROW(linear_recipe("1x64"), Error);
    EXPECT_THROW(linear_recipe("row", Format::bf16), Error);
}

/// Forward of a layer on a GPU, without its memory: what the call says where there is no GPU.
struct OnGpu {
    explicit OnGpu(std::string_view recipe) : step(layers()[0], recipe) {
        for (Tensor* tensor : {&step.forward.x, &step.forward.w.values, &step.forward.w.scales, &step.forward.y,
                               &step.forward.kept.values, &step.forward.kept.scales}) {
            tensor->device = {DeviceId::Kind::cuda, 0};
        }
        bytes = workspace_bytes(step.forward);
        message = message_of(step.forward);
    }
    Step step;
    std::int64_t bytes = 0;
    std::string message{};
};

TEST(Linear, OnAGpuACallNamesTheMemoryThatItNeeds) {
    const OnGpu call("1x128");
    EXPECT_GE(call.bytes, 150 * 160);
    EXPECT_EQ(call.bytes % 128, 0);
    EXPECT_NE(call.message.find("workspace: got nothing; expected " + std::to_string(call.bytes)), std::string::npos);
}

TEST(Linear, OnAGpuAFoldedForwardThatKeepsXNeedsNoMemory) {
    const OnGpu call("fold");
    EXPECT_EQ(call.bytes, 0);
    EXPECT_EQ(call.message.find("workspace"), std::string::npos) << call.message;
}

}  // namespace
}  // namespace tilewright
