// A linear layer's forward and backward: lays out the call's memory, then quantizes and multiplies.
#include <tilewright/error.h>
#include <tilewright/linear.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/linear_check.h"
#include "base/math.h"
#include "cuda/backend.h"
#include "formats/quantize_cpu.h"
#include "launch/quantize.h"

namespace tilewright {
namespace {

constexpr std::int64_t alignment = 128;  // of a workspace and of everything in it

bool is_on_gpu(const Tensor& tensor) { return tensor.device.kind == DeviceId::Kind::cuda; }

void require_none(std::vector<Finding> findings) {
    if (!findings.empty()) throw Error(std::move(findings));
}

/// Hands out the memory of a call, one piece after another. Without memory it only counts, and pointers are null.
class Arena {
public:
    Arena(void* memory, DeviceId device) : memory_(static_cast<std::byte*>(memory)), device_(device) {}

    void* take(std::int64_t bytes) {
        const std::int64_t at = bytes_;
        bytes_ += ceil_div(bytes, alignment) * alignment;
        return memory_ == nullptr ? nullptr : memory_ + at;
    }

    Tensor tensor(Format format, const Dims& shape) {
        Tensor made = row_major(take(row_major_bytes(format, shape)), format, shape);
        made.device = device_;
        return made;
    }

    /// f32 scales of 1x128 with the rows adjacent, as TMA loads them fastest: [blocks][rows, a multiple of 4].
    Tensor adjacent_rows(const Dims& shape) {
        const std::int64_t pitch = ceil_div<std::int64_t>(shape[0], 4) * 4;
        Tensor made{.data = take(shape[1] * pitch * 4), .format = Format::f32, .shape = shape, .device = device_};
        made.strides = {1, pitch};
        return made;
    }

    Operand operand(const OperandRecipe& recipe, const Dims& shape, const Dims& scales) {
        Operand made{.values = tensor(recipe.values, shape), .granularity = recipe.granularity};
        if (recipe.granularity == Granularity::none) return made;
        const bool blocks = recipe.granularity == Granularity::block_1x128;
        made.scales = blocks ? adjacent_rows(scales) : tensor(recipe.scales, scales);
        return made;
    }

    Operand rows(const OperandRecipe& recipe, const Dims& shape) {
        return operand(recipe, shape, scale_shape(recipe.granularity, shape));
    }

    Operand columns(const OperandRecipe& recipe, std::int64_t tokens, std::int64_t features, std::int64_t groups) {
        const OperandShape shape = transposed_shape(recipe, tokens, features, groups);
        return operand(recipe, shape.values, shape.scales);
    }

    Workspace workspace_of(const Problem& product) {
        const std::int64_t bytes = is_on_device() ? workspace_bytes(product) : 0;
        return {take(bytes), bytes};
    }

    std::int64_t bytes() const { return bytes_; }

private:
    bool is_on_device() const { return device_.kind == DeviceId::Kind::cuda; }

    std::byte* memory_;
    DeviceId device_;
    std::int64_t bytes_ = 0;
};

struct Product {
    Problem problem{};
    Workspace workspace{};
};

Problem product_of(const LinearOptions& options) {
    return {.accumulation = options.accumulation, .reproducibility = options.reproducibility};
}

Groups groups_of_rows(const Tensor& ends) {
    if (!ends.given()) return {};
    return {.grouping = Grouping::m_grouped_offsets, .sizes = ends};
}

std::int64_t group_count(const Tensor& ends) { return ends.given() ? ends.shape[0] : 0; }

struct ForwardSteps {
    TokenOperand rows{};
    TokenOperand columns{};
    Product product{};
};

ForwardSteps steps(const LinearForward& call, Arena& arena) {
    const LinearRecipe& recipe = call.options.recipe;
    const bool keeps = call.kept.values.given();
    ForwardSteps made;
    made.rows.operand = keeps && recipe.folds() ? call.kept : arena.rows(recipe.activations, call.x.shape);
    if (keeps && !recipe.folds()) made.columns.operand = call.kept;
    Problem& product = made.product.problem = product_of(call.options);
    product.a = made.rows.operand;
    product.b = call.w;
    product.d = call.y;
    product.bias = call.bias;
    product.groups = groups_of_rows(call.ends);
    made.product.workspace = arena.workspace_of(product);
    return made;
}

/// The last two dimensions exchanged: scales of W [N, K] as those of the operand [K, N].
Tensor turned(Tensor tensor) {
    const int last = tensor.shape.rank() - 1;
    if (last < 1) return tensor;
    std::swap(tensor.shape[last], tensor.shape[last - 1]);
    std::swap(tensor.strides[last], tensor.strides[last - 1]);
    return tensor;
}

struct BackwardSteps {
    TokenOperand rows{};     // dY for dgrad
    TokenOperand columns{};  // dY^T for wgrad
    Operand turned{};        // X^T, if the recipe folds
    Tensor column_ends{};
    Product dgrad{};
    Product wgrad{};
};

void add_dgrad(const LinearBackward& call, Arena& arena, BackwardSteps& made) {
    const LinearRecipe& recipe = call.options.recipe;
    made.rows.operand = arena.rows(recipe.gradients, call.dy.shape);
    Problem& product = made.dgrad.problem = product_of(call.options);
    product.a = made.rows.operand;
    product.b = call.w;
    if (recipe.folds()) {
        made.rows.feature_factors = call.w.scales;
        product.b = {.values = call.w.values};
    } else if (!recipe.backward_weights && recipe.weights.granularity == Granularity::block_128x128) {
        product.b.scales = turned(call.w.scales);
    }
    product.d = call.dx;
    product.layout = recipe.dgrad_layout();
    product.groups = groups_of_rows(call.ends);
    made.dgrad.workspace = arena.workspace_of(product);
}

void add_wgrad(const LinearBackward& call, Arena& arena, BackwardSteps& made) {
    const LinearRecipe& recipe = call.options.recipe;
    const std::int64_t tokens = call.dy.shape[0], groups = group_count(call.ends);
    made.columns.operand = arena.columns(recipe.gradient_columns, tokens, call.dy.shape[1], groups);
    made.column_ends = arena.tensor(Format::i32, {call.dw.shape[0]});
    Problem& product = made.wgrad.problem = product_of(call.options);
    product.a = made.columns.operand;
    product.b = call.kept;
    if (recipe.folds()) {
        made.columns.token_factors = call.kept.scales;
        const OperandRecipe values{.values = call.kept.values.format, .granularity = Granularity::none};
        product.b = made.turned = arena.columns(values, tokens, call.dw.shape[2], groups);
    }
    product.d = call.dw;
    if (call.adds) product.c = call.dw;
    product.groups = {.grouping = Grouping::k_grouped_aligned_offsets, .sizes = made.column_ends};
    made.wgrad.workspace = arena.workspace_of(product);
}

BackwardSteps steps(const LinearBackward& call, Arena& arena) {
    BackwardSteps made;
    if (call.dx.given()) add_dgrad(call, arena, made);
    if (call.dw.given()) add_wgrad(call, arena, made);
    return made;
}

template <class Call>
std::int64_t bytes_of(const Call& call, const Tensor& source) {
    Arena counting(nullptr, source.device);
    steps(call, counting);
    return counting.bytes();
}

/// The memory of a call: the caller's workspace on a GPU, an allocation on the CPU.
class CallMemory {
public:
    CallMemory(std::int64_t bytes, const Tensor& source, const Workspace& given) : data_(given.data) {
        if (is_on_gpu(source)) {
            check(bytes, given);
        } else {
            own_.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), aligned)));
            data_ = own_.get();
        }
    }
    void* data() const { return data_; }

private:
    static constexpr std::align_val_t aligned{static_cast<std::size_t>(alignment)};
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, aligned); }
    };

    static void check(std::int64_t bytes, const Workspace& given) {
        if (bytes == 0) return;  // folded forward that keeps all it makes
        const std::string needed = std::to_string(bytes) + " bytes or more, as workspace_bytes says";
        if (given.data == nullptr) return require_none({{"workspace", "nothing", needed, ""}});
        if (given.bytes < bytes)
            return require_none({{"workspace", std::to_string(given.bytes) + " bytes", needed, ""}});
        if (reinterpret_cast<std::uintptr_t>(given.data) % alignment != 0) {
            require_none({{"workspace", "an address that is not a multiple of 128", "a multiple of 128", ""}});
        }
    }

    void* data_;
    std::unique_ptr<std::byte, Free> own_{};
};

ConversionOptions conversion(const RunOptions& how) {
    return {.threads = how.threads, .cancelled = how.cancelled, .stream = how.stream};
}

/// Writes the ends of the groups' columns, and zeros into the rows of `d` that belong to no group.
void finish_groups(const Tensor& ends, const Tensor& source, const Tensor& column_ends, const Tensor& d,
                   const RunOptions& how) {
    const std::int64_t tokens = source.shape[0];
    if (!is_on_gpu(source)) return formats::finish_groups_on_cpu(ends, tokens, column_ends, d);
    cuda::quantize(launch::lower_groups(ends, tokens, column_ends, d), source.device.index, how.stream);
}

/// result: the caller's name of D, for messages.
void multiply(const Product& product, const std::string& result, RunOptions how) {
    how.backend = Backend::automatic;
    how.workspace = product.workspace;
    try {
        run(product.problem, how);
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        std::vector<Finding> renamed = error.findings();
        for (Finding& finding : renamed) {
            if (finding.operand == "d" || finding.operand.starts_with("d.")) finding.operand.replace(0, 1, result);
        }
        throw Error(std::move(renamed));
    }
}

}  // namespace

std::int64_t workspace_bytes(const LinearForward& call) {
    if (!is_on_gpu(call.x) || !check(call).empty()) return 0;
    return bytes_of(call, call.x);
}

std::int64_t workspace_bytes(const LinearBackward& call) {
    if (!is_on_gpu(call.dy) || !check(call).empty()) return 0;
    return bytes_of(call, call.dy);
}

void run(const LinearForward& call, const RunOptions& how) {
    require_none(check(call));
    const CallMemory memory(bytes_of(call, call.x), call.x, how.workspace);
    Arena arena(memory.data(), call.x.device);
    const ForwardSteps made = steps(call, arena);
    if (call.w_real.given()) quantize(call.w_real, {.recipe = call.options.recipe.weights}, call.w, conversion(how));
    quantize_tokens({.x = call.x, .ends = call.ends}, made.rows, made.columns, false, conversion(how));
    multiply(made.product, "y", how);
    if (call.ends.given()) finish_groups(call.ends, call.x, {}, call.y, how);  // the product has checked y's memory
}

void run(const LinearBackward& call, const RunOptions& how) {
    require_none(check(call));
    const CallMemory memory(bytes_of(call, call.dy), call.dy, how.workspace);
    Arena arena(memory.data(), call.dy.device);
    const BackwardSteps made = steps(call, arena);
    quantize_tokens({.x = call.dy, .ends = call.ends}, made.rows, made.columns, false, conversion(how));
    if (call.dx.given()) multiply(made.dgrad, "dx", how);
    finish_groups(call.ends, call.dy, made.column_ends, call.dx, how);
    if (!call.dw.given()) return;
    if (made.turned.values.given()) {
        transpose_codes({.values = call.kept.values}, call.ends, made.turned, conversion(how));
    }
    multiply(made.wgrad, "dw", how);
}

}  // namespace tilewright
