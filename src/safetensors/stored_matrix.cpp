#include "safetensors/stored_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "formats/packed_layout.h"

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

/// "F8_E8M0 [64, 3]"
std::string described(const Named* tensor) {
    if (tensor == nullptr) return "nothing";
    return fmt::format("{} [{}]", tensor->stored.dtype, fmt::join(tensor->stored.shape, ", "));
}

/// What the names of a scheme say: a matrix, or why it is none that can be read.
struct Candidate {
    StoredMatrix matrix{};
    std::optional<Finding> finding{};
};

/// A scheme for the tensor `values` named `name`; nothing where the names are others.
using Scheme = std::optional<Candidate> (*)(const Checkpoint&, const std::string&, const Named&);

Candidate unreadable(const StoredMatrix& matrix, const std::string& name, const Named* given,
                     const std::string& expected) {
    const std::string reason = fmt::format(" for {} with {}", matrix.values->stored.name, described(matrix.values));
    return {.matrix = matrix, .finding = Finding{name, described(given), expected + reason, ""}};
}

/// With the scales of this name, of one of these dtypes.
Candidate with_scales(const Checkpoint& checkpoint, StoredMatrix matrix, const std::string& name,
                      const std::vector<std::string>& dtypes) {
    matrix.scales = checkpoint.find(name);
    const bool known =
        matrix.scales != nullptr && std::ranges::find(dtypes, matrix.scales->stored.dtype) != dtypes.end();
    if (known && fits(matrix, *matrix.scales)) return {.matrix = matrix};
    const Dims shape = scale_shape(matrix.recipe.granularity, matrix.shape());
    return unreadable(matrix, name, matrix.scales, fmt::format("{} {}", fmt::join(dtypes, " or "), to_string(shape)));
}

/// ... and with a tensor scale.
Candidate with_tensor_scale(const Checkpoint& checkpoint, Candidate candidate, const std::string& name) {
    StoredMatrix& matrix = candidate.matrix;
    matrix.tensor_scale = checkpoint.find(name);
    if (candidate.finding || is_one_number(matrix.tensor_scale)) return candidate;
    return unreadable(matrix, name, matrix.tensor_scale, "F32 [1]");
}

std::optional<Candidate> gpt_oss(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, "_blocks");
    const Shape& shape = values.stored.shape;
    if (!base || !is_bytes(values) || shape.size() != 4 || shape[3] != 16) return std::nullopt;
    StoredMatrix matrix{.name = *base, .scheme = "gpt-oss", .recipe = mxfp4, .values = &values};
    if (!set_shape(matrix, {shape[0], shape[1], shape[2]}, 32)) return std::nullopt;
    return with_scales(checkpoint, matrix, *base + "_scales", {"U8", "I8"});
}

/// P.weight with P.weight_scale_inv or P.scale.
std::optional<Candidate> deepseek(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, ".weight");
    const bool fp4 = is_bytes(values);
    if (!base || (!fp4 && !is(&values, "F8_E4M3"))) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "deepseek", .recipe = mxfp4, .values = &values};
    std::string scales = name + "_scale_inv";
    if (checkpoint.find(scales) == nullptr && (fp4 || checkpoint.find(*base + ".scale") != nullptr)) {
        scales = *base + ".scale";
        matrix.scheme = "deepseek-v4";
    }
    if (!fp4) {
        const auto scale_format = is(checkpoint.find(scales), "F8_E8M0") ? Format::ue8m0 : Format::f32;
        matrix.recipe = {Format::e4m3, Granularity::block_128x128, scale_format};
    }
    if (!set_shape(matrix, values.stored.shape, fp4 ? 2 : 1)) return std::nullopt;
    if (fp4) return with_scales(checkpoint, matrix, scales, {"F8_E8M0"});
    return with_scales(checkpoint, matrix, scales, {"F32", "F8_E8M0"});
}

std::optional<Candidate> compressed_tensors(const Checkpoint& checkpoint, const std::string& name,
                                            const Named& values) {
    const auto base = stem(name, "_packed");
    if (!base || !base->ends_with("weight") || !is_bytes(values)) return std::nullopt;
    StoredMatrix matrix{
        .name = *base, .scheme = "compressed-tensors", .recipe = nvfp4, .values = &values, .divides = true};
    if (!set_shape(matrix, values.stored.shape, 2)) return std::nullopt;
    return with_tensor_scale(checkpoint, with_scales(checkpoint, matrix, *base + "_scale", {"F8_E4M3"}),
                             *base + "_global_scale");
}

std::optional<Candidate> modelopt(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    if (!name.ends_with("weight") || !is_bytes(values)) return std::nullopt;
    const bool named = checkpoint.find(name + "_scale") != nullptr || checkpoint.find(name + "_scale_2") != nullptr;
    StoredMatrix matrix{.name = name, .scheme = "modelopt", .recipe = nvfp4, .values = &values};
    if (!named || !set_shape(matrix, values.stored.shape, 2)) return std::nullopt;
    return with_tensor_scale(checkpoint, with_scales(checkpoint, matrix, name + "_scale", {"F8_E4M3"}),
                             name + "_scale_2");
}

/// F32, for the tensor or for each group.
bool is_tensor_scale(const StoredMatrix& matrix) {
    const Named* const scale = matrix.tensor_scale;
    return is_one_number(scale) ||
           (is(scale, "F32") && scale->stored.bytes() == 4 * static_cast<std::uint64_t>(matrix.groups));
}

/// What a granularity's scales look like, tried one after the other.
std::optional<Candidate> tilewright_names(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto format = format_of(values.stored.dtype);
    const Named* const scales = checkpoint.find(name + ".scales");
    const bool quantised = format && (is_fp8(*format) || *format == Format::e2m1);
    if (!quantised || (scales == nullptr && *format != Format::e2m1)) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "tilewright", .values = &values, .scales = scales};
    if (!set_shape(matrix, values.stored.shape, 1)) return std::nullopt;
    matrix.tensor_scale = checkpoint.find(name + ".tensor_scale");
    for (const Granularity granularity : {Granularity::block_1x128, Granularity::block_128x128, Granularity::block_1x32,
                                          Granularity::block_1x16, Granularity::row, Granularity::tensor}) {
        if (scales == nullptr) break;
        auto scale_format = format_of(scales->stored.dtype);
        if (granularity == Granularity::block_1x16 && scale_format == Format::e4m3) scale_format = Format::ue4m3;
        if (!scale_format) continue;
        matrix.recipe = {*format, granularity, *scale_format};
        const bool tensor = granularity != Granularity::block_1x16 || is_tensor_scale(matrix);
        if (is_accepted(matrix.recipe) && tensor && fits(matrix, *scales)) return Candidate{.matrix = matrix};
    }
    const bool nvfp4_scales = is(scales, "F8_E4M3") && *format == Format::e2m1;
    return unreadable(
        matrix, name + ".scales", scales,
        nvfp4_scales ? fmt::format("those of nvfp4 and {}.tensor_scale F32 [1]", name) : "the scales of a recipe");
}

/// Without the header's first word it is someone else's tensor of that name.
std::optional<Candidate> packed(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    const auto base = stem(name, ".packed");
    if (!base || !is_bytes(values) || values.stored.bytes() < packed_header_bytes) return std::nullopt;
    std::vector<std::byte> header(packed_header_bytes);
    checkpoint.read(values, 0, header.data(), header.size());
    if (std::memcmp(header.data(), formats::packed_magic.data(), formats::packed_magic.size()) != 0) {
        return std::nullopt;
    }
    StoredMatrix matrix{.name = *base, .scheme = "packed", .values = &values, .packed = true};
    try {
        const PackedWeights weights =
            packed_weights(header.data(), header.data(), static_cast<std::int64_t>(values.stored.bytes()));
        if (weights.version != packed_version) {
            return Candidate{.matrix = matrix,
                             .finding = Finding{name, fmt::format("layout version {}", weights.version),
                                                fmt::format("version {}", packed_version),
                                                "pack the weights again with this version"}};
        }
        matrix.recipe = weights.recipe;
        matrix.grouped = weights.grouped;
        matrix.groups = weights.groups;
        matrix.n = weights.n;
        matrix.k = weights.k;
        return Candidate{.matrix = matrix};
    } catch (const Error& error) {
        Finding finding = error.findings().front();
        finding.operand = name;
        return Candidate{.matrix = matrix, .finding = finding};
    }
}

/// What the first scheme that can read it makes of a tensor; else what is wrong for one of whose scales some are there.
std::optional<Candidate> best_candidate(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    std::optional<Candidate> best;
    for (const Scheme scheme : {gpt_oss, compressed_tensors, modelopt, deepseek, tilewright_names, packed}) {
        auto candidate = scheme(checkpoint, name, values);
        if (!candidate) continue;
        if (!candidate->finding) return candidate;
        if (!best || best->matrix.scales == nullptr) best = candidate;
    }
    return best;
}

std::optional<StoredMatrix> unquantised(const Checkpoint& checkpoint, const std::string& name, const Named& values) {
    static_cast<void>(checkpoint);
    if (!is_real(values)) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "unquantised", .values = &values};
    matrix.recipe = {format_of(values.stored.dtype).value(), Granularity::none, Format::f32};
    if (!set_shape(matrix, values.stored.shape, 1)) return std::nullopt;
    return matrix;
}

}  // namespace

std::vector<const Named*> StoredMatrix::tensors() const {
    std::vector<const Named*> all;
    for (const StoredMatrix& expert : experts) {
        const std::vector<const Named*> of_expert = expert.tensors();
        all.insert(all.end(), of_expert.begin(), of_expert.end());
    }
    if (!experts.empty()) return all;
    for (const Named* tensor : {values, scales, tensor_scale}) {
        if (tensor != nullptr) all.push_back(tensor);
    }
    return all;
}

std::uint64_t StoredMatrix::bytes() const {
    std::uint64_t sum = 0;
    for (const Named* tensor : tensors()) sum += tensor->stored.bytes();
    return sum;
}

StoredMatrices stored_matrices(const Checkpoint& checkpoint) {
    StoredMatrices found;
    std::set<const Named*> used;
    const auto add = [&](const StoredMatrix& matrix) {
        for (const Named* tensor : matrix.tensors()) used.insert(tensor);
        found.matrices.push_back(matrix);
    };
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        const auto candidate = best_candidate(checkpoint, name, tensor);
        if (!candidate) continue;
        if (candidate->finding) {
            found.unreadable.push_back({.name = candidate->matrix.name, .finding = *candidate->finding});
        } else {
            add(candidate->matrix);
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
