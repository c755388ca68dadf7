#include "safetensors/stored_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <utility>

namespace tilewright::safetensors {
namespace {

using Named = Checkpoint::Tensor;
using Shape = std::vector<std::uint64_t>;

constexpr OperandRecipe mxfp4{Format::e2m1, Granularity::block_1x32, Format::ue8m0};
constexpr OperandRecipe nvfp4{Format::e2m1, Granularity::block_1x16, Format::ue4m3};

bool is(const Named* tensor, const char* dtype) { return tensor != nullptr && tensor->stored.dtype == dtype; }

bool is_bytes(const Named& tensor) { return is(&tensor, "U8") || is(&tensor, "I8"); }

bool is_real(const Named& tensor) { return is(&tensor, "BF16") || is(&tensor, "F16") || is(&tensor, "F32"); }

/// The name without `suffix`; nothing where it ends otherwise.
std::optional<std::string> stem(const std::string& name, const std::string& suffix) {
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) return std::nullopt;
    return name.substr(0, name.size() - suffix.size());
}

/// [n, k] or [groups, n, k], where the last size counts `per_element` elements.
bool set_shape(StoredMatrix& matrix, const Shape& shape, std::uint64_t per_element) {
    const bool grouped = shape.size() == 3;
    if (shape.size() != 2 && !grouped) return false;
    matrix.grouped = grouped;
    matrix.groups = grouped ? static_cast<std::int64_t>(shape[0]) : 1;
    matrix.n = static_cast<std::int64_t>(shape[shape.size() - 2]);
    matrix.k = static_cast<std::int64_t>(shape.back() * per_element);
    return std::ranges::all_of(shape, [](std::uint64_t size) { return size > 0; });
}

/// The shape of the scales of `matrix` in a file; one for the tensor has any shape of one element.
bool fits(const StoredMatrix& matrix, const Named& scales) {
    const Dims expected = scale_shape(matrix.recipe.granularity, matrix.shape());
    return std::ranges::equal(scales.stored.shape, expected, [](std::uint64_t given, std::int64_t size) {
        return given == static_cast<std::uint64_t>(size);
    });
}

bool is_one_number(const Named* tensor) { return is(tensor, "F32") && (tensor->stored.bytes() == 4); }

/// One candidate for the tensor `values` named `name`, complete or not at all.
using Scheme = std::optional<StoredMatrix> (*)(const Checkpoint&, const std::string&, const Named&);

std::optional<StoredMatrix> complete(StoredMatrix matrix) {
    if (matrix.scales == nullptr || !fits(matrix, *matrix.scales)) return std::nullopt;
    return matrix;
}

std::optional<StoredMatrix> gpt_oss(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, "_blocks");
    const Shape& shape = values.stored.shape;
    if (!base || !is_bytes(values) || shape.size() != 4 || shape[3] != 16) return std::nullopt;
    StoredMatrix matrix{.name = *base, .scheme = "gpt-oss", .recipe = mxfp4, .values = &values};
    if (!set_shape(matrix, {shape[0], shape[1], shape[2]}, 32)) return std::nullopt;
    matrix.scales = checkpoint.find(*base + "_scales");
    if (matrix.scales == nullptr || !is_bytes(*matrix.scales)) return std::nullopt;
    return complete(matrix);
}

/// P.weight with P.weight_scale_inv or P.scale.
std::optional<StoredMatrix> deepseek(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, ".weight");
    if (!base) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "deepseek", .values = &values};
    matrix.scales = checkpoint.find(name + "_scale_inv");
    if (matrix.scales == nullptr) {
        matrix.scales = checkpoint.find(*base + ".scale");
        matrix.scheme = "deepseek-v4";
    }
    if (matrix.scales == nullptr) return std::nullopt;
    const auto scales = format_of(matrix.scales->stored.dtype);
    if (is_bytes(values) && scales == Format::ue8m0) {
        matrix.recipe = mxfp4;
        return set_shape(matrix, values.stored.shape, 2) ? complete(matrix) : std::nullopt;
    }
    if (!is(&values, "F8_E4M3") || (scales != Format::f32 && scales != Format::ue8m0)) return std::nullopt;
    matrix.recipe = {Format::e4m3, Granularity::block_128x128, *scales};
    return set_shape(matrix, values.stored.shape, 1) ? complete(matrix) : std::nullopt;
}

std::optional<StoredMatrix> compressed_tensors(const Checkpoint& checkpoint, const std::string& name,
                                               const Named& values) {
    const auto base = stem(name, "_packed");
    if (!base || !base->ends_with("weight") || !is_bytes(values)) return std::nullopt;
    StoredMatrix matrix{
        .name = *base, .scheme = "compressed-tensors", .recipe = nvfp4, .values = &values, .divides = true};
    matrix.scales = checkpoint.find(*base + "_scale");
    matrix.tensor_scale = checkpoint.find(*base + "_global_scale");
    if (!is(matrix.scales, "F8_E4M3") || !is_one_number(matrix.tensor_scale)) return std::nullopt;
    return set_shape(matrix, values.stored.shape, 2) ? complete(matrix) : std::nullopt;
}

std::optional<StoredMatrix> modelopt(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    if (!name.ends_with("weight") || !is_bytes(values)) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "modelopt", .recipe = nvfp4, .values = &values};
    matrix.scales = checkpoint.find(name + "_scale");
    matrix.tensor_scale = checkpoint.find(name + "_scale_2");
    if (!is(matrix.scales, "F8_E4M3") || !is_one_number(matrix.tensor_scale)) return std::nullopt;
    return set_shape(matrix, values.stored.shape, 2) ? complete(matrix) : std::nullopt;
}

/// What a granularity's scales look like, tried one after the other.
std::optional<StoredMatrix> tilewright_names(const Checkpoint& checkpoint, const std::string& name,
                                             const Named& values) {
    const auto format = format_of(values.stored.dtype);
    const Named* const scales = checkpoint.find(name + ".scales");
    if (!format || scales == nullptr) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "tilewright", .values = &values, .scales = scales};
    if (!set_shape(matrix, values.stored.shape, 1)) return std::nullopt;
    matrix.tensor_scale = checkpoint.find(name + ".tensor_scale");
    for (const Granularity granularity : {Granularity::block_1x128, Granularity::block_128x128, Granularity::block_1x32,
                                          Granularity::block_1x16, Granularity::row, Granularity::tensor}) {
        auto scale_format = format_of(scales->stored.dtype);
        if (granularity == Granularity::block_1x16 && scale_format == Format::e4m3) scale_format = Format::ue4m3;
        if (!scale_format) continue;
        matrix.recipe = {*format, granularity, *scale_format};
        const bool tensor = granularity != Granularity::block_1x16 || matrix.tensor_scale != nullptr;
        if (is_accepted(matrix.recipe) && tensor && fits(matrix, *scales)) return matrix;
    }
    return std::nullopt;
}

std::optional<StoredMatrix> packed(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, ".packed");
    if (!base || !is_bytes(values) || values.stored.bytes() < packed_header_bytes) return std::nullopt;
    std::vector<std::byte> header(packed_header_bytes);
    checkpoint.read(values, 0, header.data(), header.size());
    try {
        const PackedWeights weights =
            packed_weights(header.data(), header.data(), static_cast<std::int64_t>(values.stored.bytes()));
        if (weights.version != packed_version) return std::nullopt;
        return StoredMatrix{.name = *base,
                            .scheme = "packed",
                            .recipe = weights.recipe,
                            .grouped = weights.grouped,
                            .groups = weights.groups,
                            .n = weights.n,
                            .k = weights.k,
                            .values = &values,
                            .packed = true};
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<StoredMatrix> unquantised(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    static_cast<void>(checkpoint);
    if (!is_real(values)) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "unquantised", .values = &values};
    matrix.recipe = {format_of(values.stored.dtype).value(), Granularity::none, Format::f32};
    if (!set_shape(matrix, values.stored.shape, 1)) return std::nullopt;
    return matrix;
}

constexpr std::array<Scheme, 6> quantised_schemes{gpt_oss,  compressed_tensors, modelopt,
                                                  deepseek, tilewright_names,   packed};

}  // namespace

std::uint64_t StoredMatrix::bytes() const {
    std::uint64_t sum = 0;
    for (const Named* tensor : {values, scales, tensor_scale}) sum += tensor != nullptr ? tensor->stored.bytes() : 0;
    return sum;
}

StoredMatrices stored_matrices(const Checkpoint& checkpoint) {
    StoredMatrices found;
    std::set<const Named*> used;
    const auto add = [&](const StoredMatrix& matrix) {
        for (const Named* tensor : {matrix.values, matrix.scales, matrix.tensor_scale}) used.insert(tensor);
        found.matrices.push_back(matrix);
    };
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        for (const Scheme scheme : quantised_schemes) {
            const auto matrix = scheme(checkpoint, name, tensor);
            if (!matrix) continue;
            add(*matrix);
            break;
        }
    }
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        if (used.count(&tensor) != 0) continue;
        if (const auto matrix = unquantised(checkpoint, name, tensor)) {
            add(*matrix);
        } else {
            found.others.push_back(name);
        }
    }
    return found;
}

}  // namespace tilewright::safetensors
