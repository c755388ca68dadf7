#include "formats/quantize_check.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "formats/recipe_of.h"

namespace tilewright::formats {

bool overlaps(const Tensor& tensor) {
    std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] > 1) dims.emplace_back(std::abs(tensor.strides[i]), tensor.shape[i]);
    }
    std::sort(dims.begin(), dims.end());
    std::int64_t extent = 0;  // distance of the last element from the first, so far
    for (const auto& [stride, size] : dims) {
        if (stride <= extent) return true;
        extent += stride * (size - 1);
    }
    return false;
}

std::string memory_of(const DeviceId& device) {
    return device.kind == DeviceId::Kind::cpu ? "host memory" : "memory of cuda:" + std::to_string(device.index);
}

bool is_empty(const Dims& shape) {
    return std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size == 0; });
}

namespace {

std::string words(std::initializer_list<Format> formats) {
    std::string text;
    std::size_t left = formats.size();
    for (const Format format : formats) {
        text += std::string(text.empty() ? "" : left == 1 ? " or " : ", ") + std::string(name(format));
        --left;
    }
    return text;
}

enum class Use { read, written };

class Findings {
public:
    /// All tensors are to be in memory of this device.
    explicit Findings(const DeviceId& device = {}) : device_(device) {}

    void add(Finding finding) { list_.push_back(std::move(finding)); }

    /// A matrix [rows, k] or [groups, rows, k] in host memory. False if its shape is of no use for further checks.
    bool matrix(const std::string& operand, const Tensor& tensor, std::initializer_list<Format> formats, Use use) {
        if (!is_matrix(operand, tensor.shape)) return false;
        if (std::find(formats.begin(), formats.end(), tensor.format) == formats.end()) {
            add({operand, std::string(name(tensor.format)), words(formats), ""});
        }
        memory(operand, tensor, use);
        packing(operand, tensor);
        return true;
    }

    bool is_matrix(const std::string& operand, const Dims& shape) {
        const std::string expected = "[rows, k] or [groups, rows, k]";
        const std::string given = shape.rank() == 0 ? "nothing" : to_string(shape);
        const bool negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; });
        if (shape.rank() == 2 || shape.rank() == 3) {
            if (negative) add({operand, given, expected + " with sizes of at least 0", ""});
            return !negative && countable(operand, shape);
        }
        add({operand, given, expected, shape.rank() == 1 ? "reshape a vector to [1, k]" : ""});
        return false;
    }

    /// Elements are few enough to count their bits, and those of their scales.
    bool countable(const std::string& operand, const Dims& shape) {
        constexpr std::int64_t most = std::int64_t{1} << 56;
        std::int64_t elements = 1;
        bool fits = true;
        for (const std::int64_t size : shape) fits = fits && !__builtin_mul_overflow(elements, size, &elements);
        if ((fits && elements <= most) || is_empty(shape)) return true;
        add({operand, to_string(shape), "at most 2^56 elements", ""});
        return false;
    }

    void accepted(const std::string& operand, const OperandRecipe& recipe) {
        if (is_accepted(recipe)) return;
        const std::string given = std::string(name(recipe.values)) + " values with " +
                                  std::string(name(recipe.granularity)) + " scales in " +
                                  std::string(name(recipe.scales));
        add({operand, given,
             "fp8 with tensor, row, 1x128 or 128x128 scales in f32 (1x128 and 128x128 also in ue8m0), fp8 or e2m1 with "
             "1x32 scales in ue8m0, e2m1 with 1x16 scales in ue4m3, or fp8, bf16, f16 or f32 without scales",
             ""});
    }

    /// Scales and the tensor scale of an operand whose values have this shape.
    void scales(const std::string& prefix, const Operand& operand, const OperandRecipe& recipe, const Dims& shape,
                Use use) {
        const std::string scaling =
            std::string(name(recipe.granularity)) + " scales of " + prefix + ".values " + to_string(shape);
        const std::string scales = prefix + ".scales";
        if (recipe.granularity == Granularity::none) {
            if (operand.scales.given()) add({scales, to_string(operand.scales.shape), "nothing", ""});
        } else {
            const bool per_tensor = recipe.granularity == Granularity::tensor;
            scale_tensor(scales, operand.scales,
                         {scale_shape(recipe.granularity, shape), recipe.scales, scaling, per_tensor}, use);
        }
        const std::string tensor_scale = prefix + ".tensor_scale";
        if (recipe.granularity == Granularity::block_1x16) {
            scale_tensor(tensor_scale, operand.tensor_scale,
                         {scale_shape(Granularity::tensor, shape), Format::f32, "NVFP4, " + scaling, true}, use);
        } else if (operand.tensor_scale.given()) {
            add({tensor_scale, to_string(operand.tensor_scale.shape), "nothing",
                 "only NVFP4 (1x16) has a tensor scale"});
        }
    }

    /// Elements one after another in host memory. False if the shape is of no use for further checks.
    bool run(const std::string& operand, const Tensor& tensor, Use use) {
        const int rank = tensor.shape.rank();
        const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size < 0; });
        if (rank < 1 || rank > Dims::capacity || negative) {
            add({operand, rank == 0 ? "nothing" : to_string(tensor.shape), "one to three dimensions of size 0 or more",
                 ""});
            return false;
        }
        if (!countable(operand, tensor.shape)) return false;
        memory(operand, tensor, use);
        if (tensor.strides.rank() != rank || is_empty(tensor.shape)) return true;
        const Dims expected = row_major_strides(tensor.format, tensor.shape);
        for (int i = 0; i < rank; ++i) {
            if (tensor.shape[i] == 1 || tensor.strides[i] == expected[i]) continue;
            add({operand, "strides " + to_string(tensor.strides), to_string(expected) + ", rows without gaps",
                 "pass a contiguous copy"});
            break;
        }
        return true;
    }

    void codes(const std::string& operand, const Tensor& tensor) {
        if (tensor.format != Format::i32 && tensor.format != Format::i64) return;
        add({operand, std::string(name(tensor.format)), "a floating-point format", ""});
    }

    void conversion(const Tensor& source, const Tensor& out) {
        const bool source_is_sound = run("source", source, Use::read);
        const bool out_is_sound = run("out", out, Use::written);
        if (!source_is_sound || !out_is_sound || source.shape == out.shape) return;
        add({"out", to_string(out.shape), to_string(source.shape) + ", the shape of source", ""});
    }

    void packing(const std::string& operand, const Tensor& tensor) {
        const int rank = tensor.shape.rank();
        if (tensor.format != Format::e2m1 || tensor.strides.rank() != rank || is_empty(tensor.shape)) return;
        int packed = -1;
        for (int i = rank - 1; i >= rank - 2 && packed < 0; --i) {
            if (tensor.strides[i] == 1 && tensor.shape[i] % 2 == 0) packed = i;
        }
        if (packed < 0) {
            return add({operand, "e2m1 " + to_string(tensor.shape) + " with strides " + to_string(tensor.strides),
                        "a stride of 1 and an even size along rows or k, because two elements share a byte",
                        "strides and sizes count elements, not bytes"});
        }
        for (int i = 0; i < rank; ++i) {
            if (i == packed || tensor.shape[i] <= 1 || tensor.strides[i] % 2 == 0) continue;
            return add({operand, "e2m1 with strides " + to_string(tensor.strides),
                        "even strides except in the packed dimension", "start every row on a whole byte"});
        }
    }

    /// A row-major tensor of this format can be made.
    void storable(const std::string& operand, const Dims& shape, Format format) {
        if (format != Format::e2m1 || shape[shape.rank() - 1] % 2 == 0) return;
        add({operand, to_string(shape), "an even k, because e2m1 stores two elements per byte", "pad k with a zero"});
    }

    std::vector<Finding> take() { return std::move(list_); }

private:
    struct Expected {
        Dims shape;
        Format format;
        std::string purpose;
        bool per_tensor;  // one number for all groups is as good as one for each
    };

    void scale_tensor(const std::string& operand, const Tensor& tensor, const Expected& expected, Use use) {
        const std::string shape = to_string(expected.shape) + " for " + expected.purpose;
        const std::string format{name(expected.format)};
        if (!tensor.given()) return add({operand, "nothing", format + " " + shape, ""});
        const bool shared = expected.per_tensor && tensor.shape == Dims{1};
        if (tensor.shape != expected.shape && !shared) return add({operand, to_string(tensor.shape), shape, ""});
        if (tensor.format != expected.format) add({operand, std::string(name(tensor.format)), format, ""});
        memory(operand, tensor, use);
    }

    void memory(const std::string& operand, const Tensor& tensor, Use use) {
        if (tensor.device != device_) {
            const bool host = device_.kind == DeviceId::Kind::cpu;
            return add({operand, memory_of(tensor.device), memory_of(device_),
                        host ? "copy it to the host" : "copy it there"});
        }
        if (tensor.strides.rank() != tensor.shape.rank()) {
            return add({operand + ".strides", to_string(tensor.strides),
                        std::to_string(tensor.shape.rank()) + " strides, one per dimension", ""});
        }
        if (is_empty(tensor.shape)) return;
        if (tensor.data == nullptr)
            return add({operand, "a null pointer", "memory for " + to_string(tensor.shape), ""});
        const auto width = static_cast<std::uintptr_t>(std::max(bits(tensor.format), 8)) / 8;
        if (reinterpret_cast<std::uintptr_t>(tensor.data) % width != 0) {
            add({operand, "an address that is not a multiple of " + std::to_string(width),
                 "elements of " + std::string(name(tensor.format)) + " aligned to their size", ""});
        }
        if (use == Use::written && overlaps(tensor)) {
            add({operand, to_string(tensor.shape) + " with strides " + to_string(tensor.strides),
                 "strides that give each element its own address", ""});
        }
    }

    DeviceId device_;
    std::vector<Finding> list_;
};

/// True if the source is of use for further checks.
bool check_input(const Tensor& source, const QuantizeOptions& options, Findings& findings) {
    const OperandRecipe& recipe = options.recipe;
    findings.accepted("options.recipe", recipe);
    const bool scaled = recipe.granularity != Granularity::none && recipe.granularity != Granularity::block_1x16;
    if (options.deep_gemm && is_accepted(recipe) && (!scaled || recipe.values == Format::e5m2)) {
        findings.add({"options.deep_gemm", "a DeepGEMM cast to " + name(recipe),
                      "e4m3 or e2m1 values with scales other than 1x16", "DeepGEMM has no such cast. Omit the option"});
    }
    return findings.matrix("source", source, {Format::f32, Format::bf16, Format::f16}, Use::read);
}

}  // namespace

std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options, const Operand& out) {
    Findings findings(source.device);
    const bool source_is_matrix = check_input(source, options, findings);
    const OperandRecipe& recipe = options.recipe;
    if (out.granularity != recipe.granularity) {
        findings.add({"out.granularity", std::string(name(out.granularity)), std::string(name(recipe.granularity)),
                      "set it to options.recipe.granularity"});
    }
    const bool values_are_matrix = findings.matrix("out.values", out.values, {recipe.values}, Use::written);
    if (source_is_matrix && values_are_matrix && source.shape != out.values.shape) {
        findings.add(
            {"out.values", to_string(out.values.shape), to_string(source.shape) + ", the shape of source", ""});
    }
    if (source_is_matrix && is_accepted(recipe)) findings.scales("out", out, recipe, source.shape, Use::written);
    return findings.take();
}

std::vector<Finding> check_quantize(const Tensor& source, const QuantizeOptions& options) {
    Findings findings;
    const bool is_matrix = check_input(source, options, findings);
    if (is_matrix) findings.storable("source", source.shape, options.recipe.values);
    return findings.take();
}

std::vector<Finding> check_dequantize(const Operand& operand, const Tensor& out) {
    Findings findings;
    const OperandRecipe recipe = recipe_of(operand);
    findings.accepted("operand", recipe);
    const bool values_are_matrix = findings.matrix("operand.values", operand.values, {recipe.values}, Use::read);
    const bool out_is_matrix = findings.matrix("out", out, {Format::f32, Format::bf16, Format::f16}, Use::written);
    if (values_are_matrix && out_is_matrix && operand.values.shape != out.shape) {
        findings.add(
            {"out", to_string(out.shape), to_string(operand.values.shape) + ", the shape of operand.values", ""});
    }
    if (values_are_matrix && is_accepted(recipe)) {
        findings.scales("operand", operand, recipe, operand.values.shape, Use::read);
    }
    return findings.take();
}

std::vector<Finding> check_encode(const Tensor& source, const Tensor& out) {
    Findings findings;
    if (source.given() && source.format != Format::f32) {
        findings.add({"source", std::string(name(source.format)), "f32", ""});
    }
    findings.codes("out", out);
    findings.conversion(source, out);
    return findings.take();
}

std::vector<Finding> check_decode(const Tensor& source, const Tensor& out) {
    Findings findings;
    if (out.given() && out.format != Format::f32) findings.add({"out", std::string(name(out.format)), "f32", ""});
    findings.codes("source", source);
    findings.conversion(source, out);
    return findings.take();
}

std::vector<Finding> check_owned(const Dims& shape, const OperandRecipe& recipe) {
    Findings findings;
    findings.accepted("recipe", recipe);
    if (findings.is_matrix("shape", shape)) findings.storable("shape", shape, recipe.values);
    return findings.take();
}

}  // namespace tilewright::formats
