#include "safetensors/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/packed_layout.h"
#include "safetensors/fnuz.h"

namespace tilewright::safetensors {
namespace {

using Shape = std::vector<std::uint64_t>;

/// How publishers call the scales of X or, with a suffix of P, those of P.weight.
struct ScaleName {
    const char* of_values;  // what follows X; null: `of_module` it is
    const char* of_module;  // what follows P
    const char* tensor_scale;
    const char* scheme;  // null: that of config.json
    bool squares;
};
constexpr std::array scale_names{ScaleName{"_scale_inv", nullptr, nullptr, "deepseek", true},
                                 ScaleName{"_scale", nullptr, "_scale_2", nullptr, false},
                                 ScaleName{"_weight_scale", nullptr, "_weight_scale_2", nullptr, false},
                                 ScaleName{nullptr, ".scale", nullptr, "deepseek-v4", true},
                                 ScaleName{nullptr, ".qscale_weight", nullptr, "mistral", false},
                                 ScaleName{nullptr, ".scale_weight", nullptr, "comfyui", false},
                                 ScaleName{nullptr, ".weight_quantizer.scale", nullptr, "quark", false},
                                 ScaleName{".scales", nullptr, ".tensor_scale", "tilewright", false}};

/// F32, for the tensor or for each group.
bool is_tensor_scale(const StoredMatrix& matrix) {
    const Named* const scale = matrix.tensor_scale;
    const std::uint64_t bytes = scale == nullptr ? 0 : scale->stored.bytes();
    return is(scale, "F32") && (bytes == 4 || bytes == 4 * static_cast<std::uint64_t>(matrix.groups));
}

/// The shape of scales as `convert` and `quantize` write them; one for the tensor may be shared by all groups.
bool fits(const StoredMatrix& matrix, const Named& scales) {
    const Dims expected = scale_shape(matrix.recipe.granularity, matrix.shape());
    const bool same = std::ranges::equal(scales.stored.shape, expected, [](std::uint64_t given, std::int64_t size) {
        return given == static_cast<std::uint64_t>(size);
    });
    return same || (matrix.recipe.granularity == Granularity::tensor && scales.stored.shape == Shape{1});
}

StoredScales own_scales(const StoredMatrix& matrix) {
    const std::int64_t rows = row_block(matrix.recipe.granularity);
    const std::int64_t columns = k_block(matrix.recipe.granularity);
    const bool one = matrix.scales->stored.shape == Shape{1};
    return {.blocks = {rows, columns},
            .lines = rows == 0 ? 1 : (matrix.n + rows - 1) / rows,
            .columns = columns == 0 ? 1 : (matrix.k + columns - 1) / columns,
            .shared = !matrix.grouped || (rows == 0 && one)};
}

}  // namespace

bool is(const Named* tensor, const char* dtype) { return tensor != nullptr && tensor->stored.dtype == dtype; }

bool is_fp4_bytes(const Named& tensor) { return is(&tensor, "U8") || is(&tensor, "I8") || is(&tensor, "F4"); }

bool is_fp8_codes(const Named& tensor) {
    return is(&tensor, "F8_E4M3") || is(&tensor, "F8_E5M2") || fnuz_sibling(tensor.stored.dtype).has_value();
}

bool is_real(const Named* tensor) { return is(tensor, "BF16") || is(tensor, "F16") || is(tensor, "F32"); }

std::string described(const Named& tensor) {
    return fmt::format("{} [{}]", tensor.stored.dtype, fmt::join(tensor.stored.shape, ", "));
}

std::optional<std::string> stem(const std::string& name, const std::string& suffix) {
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) return std::nullopt;
    return name.substr(0, name.size() - suffix.size());
}

bool set_shape(StoredMatrix& matrix, const Shape& shape) {
    const bool grouped = shape.size() == 3;
    if (shape.size() != 2 && !grouped) return false;
    matrix.grouped = grouped;
    matrix.groups = grouped ? static_cast<std::int64_t>(shape[0]) : 1;
    matrix.n = static_cast<std::int64_t>(shape[shape.size() - 2]);
    matrix.k = static_cast<std::int64_t>(shape.back());
    return std::ranges::all_of(shape, [](std::uint64_t size) { return size > 0; });
}

std::optional<Candidate> Schemes::gpt_oss(const std::string& name, const Named& values) const {
    const auto base = stem(name, "_blocks");
    const Shape& shape = values.stored.shape;
    const std::uint64_t line = is(&values, "F4") ? 32 : 16;
    if (!base || !is_fp4_bytes(values) || shape.size() != 4 || shape[3] != line) return std::nullopt;
    return scaled_matrix({.name = *base,
                          .scheme = "gpt-oss",
                          .values = &values,
                          .scales = checkpoint.find(*base + "_scales"),
                          .shape = {shape[0], shape[1], shape[2] * shape[3]},
                          .rows_are_n = true},
                         config);
}

std::optional<Candidate> Schemes::compressed_tensors(const std::string& name, const Named& values) const {
    const auto base = stem(name, "_packed");
    if (!base || !is_fp4_bytes(values)) return std::nullopt;
    return scaled_matrix({.name = *base,
                          .scheme = "compressed-tensors",
                          .values = &values,
                          .scales = checkpoint.find(*base + "_scale"),
                          .tensor_scale = checkpoint.find(*base + "_global_scale"),
                          .shape = values.stored.shape,
                          .divides = true},
                         config);
}

/// What a granularity's scales look like, tried one after the other.
std::optional<Candidate> Schemes::tilewright_names(const std::string& name, const Named& values) const {
    const auto format = format_of(values.stored.dtype);
    const Named* const scales = checkpoint.find(name + ".scales");
    const bool quantised = format && (is_fp8(*format) || *format == Format::e2m1);
    if (!quantised || scales == nullptr) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "tilewright", .values = &values, .scales = scales};
    if (!set_shape(matrix, values.stored.shape)) return std::nullopt;
    const auto unreadable = [&](const Named& given, const std::string& expected) {
        return Candidate{.matrix = matrix, .finding = Finding{given.stored.name, described(given), expected, ""}};
    };
    if (*format == Format::e2m1 && matrix.k % 2 != 0) {
        return unreadable(values, "an even number of columns, because rows start on whole bytes");
    }
    matrix.tensor_scale = checkpoint.find(name + ".tensor_scale");
    for (const Granularity granularity : {Granularity::block_1x128, Granularity::block_128x128, Granularity::block_1x32,
                                          Granularity::block_1x16, Granularity::row, Granularity::tensor}) {
        auto scale_format = format_of(scales->stored.dtype);
        if (granularity == Granularity::block_1x16 && scale_format == Format::e4m3) scale_format = Format::ue4m3;
        if (!scale_format) continue;
        matrix.recipe = {*format, granularity, *scale_format};
        const bool tensor = granularity != Granularity::block_1x16 || is_tensor_scale(matrix);
        if (!is_accepted(matrix.recipe) || !tensor || !fits(matrix, *scales)) continue;
        matrix.stored_scales = own_scales(matrix);
        return Candidate{.matrix = matrix};
    }
    const std::string of = fmt::format(" for {} with {}", name, described(values));
    const bool nvfp4_scales = is(scales, "F8_E4M3") && *format == Format::e2m1;
    if (!nvfp4_scales) return unreadable(*scales, "scales of a known recipe" + of);
    return unreadable(*scales, "nvfp4 scales and an F32 scale per tensor" + of);
}

/// Without the header's first word it is someone else's tensor of that name.
std::optional<Candidate> Schemes::packed(const std::string& name, const Named& values) const {
    const auto base = stem(name, ".packed");
    const bool bytes = is(&values, "U8") || is(&values, "I8");
    if (!base || !bytes || values.stored.bytes() < packed_header_bytes) return std::nullopt;
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

/// Values with scales next to them under one of the names that are known. Two kinds of them would be two answers.
std::optional<Candidate> Schemes::named_scales(const std::string& name, const Named& values) const {
    const bool fp8 = is_fp8_codes(values);
    if (!fp8 && !is_fp4_bytes(values)) return std::nullopt;
    const auto module = stem(name, ".weight");
    SchemeTensors found{.name = name, .values = &values, .shape = values.stored.shape};
    for (const ScaleName& one : scale_names) {
        if (one.of_values == nullptr && !module) continue;
        const Named* const scales =
            checkpoint.find(one.of_values != nullptr ? name + one.of_values : *module + one.of_module);
        if (scales == nullptr) continue;
        if (found.scales != nullptr) {
            return Candidate{.matrix = {.name = name, .values = &values, .scales = found.scales},
                             .finding = Finding{name, found.scales->stored.name + " and " + scales->stored.name,
                                                "the scales of one scheme", ""}};
        }
        found.scales = scales;
        found.squares = one.squares;
        if (one.tensor_scale != nullptr) found.tensor_scale = checkpoint.find(name + one.tensor_scale);
        const std::string method = config.method.empty() ? "weight_scale" : config.method;
        found.scheme = one.scheme != nullptr ? one.scheme : found.tensor_scale != nullptr ? "modelopt" : method;
    }
    if (found.scales == nullptr && !fp8 && !is(&values, "F4")) return std::nullopt;
    return scaled_matrix(found, config);
}

/// Zero points of fp8 are zeros, where there are any; others would be added to the codes.
std::optional<Finding> Schemes::zero_point(const StoredMatrix& matrix) const {
    const Named* const points = checkpoint.find(matrix.name + "_zero_point");
    if (points == nullptr) return std::nullopt;
    std::vector<char> bytes(points->stored.bytes());
    checkpoint.read(*points, 0, bytes.data(), bytes.size());
    if (std::ranges::all_of(bytes, [](char byte) { return byte == 0; })) return std::nullopt;
    return Finding{points->stored.name, described(*points) + " other than zeros", "weights without zero points", ""};
}

std::optional<Candidate> Schemes::candidate(const std::string& name, const Named& values) const {
    if (values.stored.bytes() == 0) return std::nullopt;
    if (is(&values, "F6_E2M3") || is(&values, "F6_E3M2")) {
        return Candidate{.matrix = {.name = name, .values = &values},
                         .finding = Finding{name, described(values), "fp8 or FP4 weights", ""}};
    }
    for (const auto scheme : {&Schemes::gpt_oss, &Schemes::compressed_tensors, &Schemes::packed,
                              &Schemes::tilewright_names, &Schemes::named_scales}) {
        auto found = (this->*scheme)(name, values);
        if (!found) continue;
        if (!found->finding) found->finding = zero_point(found->matrix);
        return found;
    }
    return integer_weights(checkpoint, config, name, values);
}

}  // namespace tilewright::safetensors
