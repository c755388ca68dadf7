// A matrix from the shapes and dtypes of its values and scales: which format it has, which way round experts are
// stored, which recipe holds it.
#include <fmt/format.h>

#include <algorithm>

#include "safetensors/fnuz.h"
#include "safetensors/schemes.h"

namespace tilewright::safetensors {
namespace {

constexpr OperandRecipe numbers{Format::f32, Granularity::none, Format::f32};
constexpr ScaleBlocks mx{1, 32};
constexpr ScaleBlocks nvfp4{1, 16};

enum class ScaleKind { real, powers, e4m3, other };

ScaleKind kind_of(const Named& scales) {
    if (is_real(&scales)) return ScaleKind::real;
    if (is(&scales, "F8_E8M0") || is(&scales, "U8") || is(&scales, "I8")) return ScaleKind::powers;
    return is(&scales, "F8_E4M3") ? ScaleKind::e4m3 : ScaleKind::other;
}

/// Which way round the sizes of config.json say that the last two of an expert's weights are; nothing where they do
/// not.
std::optional<bool> told_transposed(const std::string& name, const QuantizationConfig& config, std::int64_t rows,
                                    std::int64_t columns) {
    const bool up = name.find("gate_up_proj") != std::string::npos || name.find("w13") != std::string::npos;
    const bool single = name.find("gate_proj") != std::string::npos || name.find("up_proj") != std::string::npos;
    const bool down = name.find("down_proj") != std::string::npos || name.find("w2") != std::string::npos;
    if (!up && !single && !down) return std::nullopt;
    const auto is_inner = [&](std::int64_t size) {
        const std::int64_t halves = up ? 2 : 1;
        return size % halves == 0 && config.inner.count(size / halves) != 0;
    };
    const auto matches = [&](std::int64_t n, std::int64_t k) {
        return down ? config.hidden.count(n) != 0 && is_inner(k) : is_inner(n) && config.hidden.count(k) != 0;
    };
    const bool straight = matches(rows, columns);
    const bool turned = matches(columns, rows);
    if (straight == turned) return std::nullopt;
    return turned;
}

/// Everything that is known while a matrix is put together.
struct Assembly {
    const SchemeTensors& tensors;
    const QuantizationConfig& config;
    StoredMatrix matrix{};
    bool fp4 = false;
    ScaleKind kind = ScaleKind::real;
    StoredShape straight{};  // in elements, as if rows were n
    StoredShape turned{};    // ... and k

    Candidate unreadable(const Named& tensor, const std::string& given, const std::string& expected) const {
        return {.matrix = matrix, .finding = Finding{tensor.stored.name, given, expected, ""}};
    }
    Candidate unreadable_scales(const std::string& expected) const {
        return unreadable(
            *matrix.scales, described(*matrix.scales),
            fmt::format("{} for {} with {}", expected, matrix.values->stored.name, described(*matrix.values)));
    }
    BlockRules rules() const {
        BlockRules rules{.squares = tensors.squares, .powers = kind == ScaleKind::powers};
        if (fp4) rules.fixed = kind == ScaleKind::e4m3 ? nvfp4 : mx;
        if (!fp4 && kind == ScaleKind::powers && !is(tensors.scales, "F8_E8M0")) rules.fixed = mx;  // U8 is MX's
        if (!fp4) rules.configured = config.blocks;
        return rules;
    }
};

void set_stored_shapes(Assembly& a) {
    std::vector<std::uint64_t> shape = a.tensors.shape;
    const std::uint64_t per_element = a.fp4 && !is(a.tensors.values, "F4") ? 2 : 1;
    shape.back() *= per_element;
    a.straight = {.rows = static_cast<std::int64_t>(shape[shape.size() - 2]),
                  .columns = static_cast<std::int64_t>(shape.back())};
    if (shape.size() == 3) a.straight.groups = static_cast<std::int64_t>(shape[0]);
    a.turned = a.straight;
    a.turned.transposed = true;
    if (a.fp4) {  // two codes of k to a byte, whichever way round
        a.turned.rows *= 2;
        a.turned.columns /= 2;
    }
}

bool is_exact(const ScaleFit& fit) { return fit.scales && !fit.scales->padded; }

std::string orientations(const Assembly& a) {
    return fmt::format("a config.json or scales that tell [experts, n, k] from [experts, k, n] for {} with {}",
                       a.matrix.values->stored.name, described(*a.matrix.values));
}

/// Whether an expert's weights are [k, n]; nothing where neither scales nor config.json nor the name say it. Scales by
/// row, or for 16 or 32 of k, have the right shape one way only; one for a square of n and k has it both ways.
std::optional<bool> way_round(const Assembly& a, const ScaleFit& straight, const ScaleFit& turned) {
    if (is_exact(straight) != is_exact(turned)) return is_exact(turned);
    if (const auto told = told_transposed(a.matrix.name, a.config, a.straight.rows, a.straight.columns)) return told;
    const bool neither = !straight.scales && !turned.scales;
    if (neither || a.matrix.name.ends_with("weight")) return false;
    return std::nullopt;
}

/// Sets the way round and the scales; the finding otherwise.
std::optional<Candidate> set_scales(Assembly& a) {
    const std::vector<std::uint64_t>& shape = a.matrix.scales->stored.shape;
    ScaleFit fit = fit_scales(a.straight, shape, a.rules());
    bool transposed = false;
    if (a.straight.groups && !a.tensors.rows_are_n) {
        const ScaleFit turned = fit_scales(a.turned, shape, a.rules());
        const auto told = way_round(a, fit, turned);
        if (!told) return a.unreadable(*a.matrix.scales, described(*a.matrix.scales), orientations(a));
        transposed = *told;
        if (transposed) fit = turned;
    }
    if (!fit.scales) return a.unreadable_scales(fit.expected);
    const StoredShape& values = transposed ? a.turned : a.straight;
    a.matrix.transposed = transposed;
    a.matrix.stored_scales = *fit.scales;
    a.matrix.grouped = values.groups.has_value();
    a.matrix.groups = values.groups.value_or(1);
    a.matrix.n = transposed ? values.columns : values.rows;
    a.matrix.k = transposed ? values.rows : values.columns;
    return std::nullopt;
}

/// The recipe whose blocks divide those of fp8 values, so that each of its scales is one of theirs.
OperandRecipe holding_recipe(Format values, const ScaleBlocks& blocks, bool powers) {
    const Format scales = powers ? Format::ue8m0 : Format::f32;
    if (!powers && blocks.columns == 0 && blocks.rows <= 1) {
        return {values, blocks.rows == 0 ? Granularity::tensor : Granularity::row, scales};
    }
    if (blocks.columns % 128 == 0) {
        return {values, blocks.rows % 128 == 0 ? Granularity::block_128x128 : Granularity::block_1x128, scales};
    }
    if (powers && blocks.columns % 32 == 0) return {values, Granularity::block_1x32, scales};
    return numbers;
}

void set_recipe(Assembly& a) {
    if (a.fp4) {
        const bool is_nvfp4 = a.kind == ScaleKind::e4m3;
        a.matrix.recipe = {Format::e2m1, is_nvfp4 ? Granularity::block_1x16 : Granularity::block_1x32,
                           is_nvfp4 ? Format::ue4m3 : Format::ue8m0};
        return;
    }
    const std::string& dtype = a.matrix.values->stored.dtype;
    const Format format = fnuz_sibling(dtype) ? *fnuz_sibling(dtype) : format_of(dtype).value();
    ScaleBlocks blocks = a.matrix.stored_scales.blocks;
    if (a.matrix.transposed) blocks = {blocks.columns, blocks.rows};
    const bool powers = a.kind == ScaleKind::powers;
    a.matrix.recipe = holding_recipe(format, blocks, powers);
    if (a.matrix.recipe != numbers) return;
    // Blocks that are larger than the matrix are the matrix.
    if (blocks.rows >= a.matrix.n) blocks.rows = 0;
    if (blocks.columns >= a.matrix.k) blocks.columns = 0;
    a.matrix.recipe = holding_recipe(format, blocks, powers);
}

std::optional<Candidate> refuse_tensor_scale(const Assembly& a) {
    const Named* const scale = a.matrix.tensor_scale;
    const std::string values = fmt::format("{} with {}", a.matrix.values->stored.name, described(*a.matrix.values));
    if (!a.fp4 || a.kind != ScaleKind::e4m3) {
        if (scale == nullptr) return std::nullopt;
        return a.unreadable(*scale, described(*scale), "no second scale for " + values);
    }
    if (scale == nullptr) {
        return a.unreadable(*a.matrix.scales, described(*a.matrix.scales) + " without an F32 scale per tensor",
                            "an F32 scale per tensor too, for " + values);
    }
    const std::vector<std::uint64_t>& shape = scale->stored.shape;
    std::uint64_t count = 1;
    for (const std::uint64_t size : shape) count *= size;
    const bool of_groups = !shape.empty() && shape[0] == count && count == static_cast<std::uint64_t>(a.matrix.groups);
    if (is(scale, "F32") && (count == 1 || of_groups)) return std::nullopt;
    return a.unreadable(
        *scale, described(*scale),
        a.matrix.grouped ? fmt::format("F32 [1] or [{}] for {}", a.matrix.groups, values) : "F32 [1] for " + values);
}

/// What can be said of values and scales by their dtypes.
std::optional<Candidate> refuse_dtypes(const Assembly& a) {
    const Named& values = *a.matrix.values;
    if (a.tensors.shape.size() != 2 && a.tensors.shape.size() != 3) {
        return a.unreadable(values, described(values), "2 or 3 dimensions");
    }
    if (is(&values, "F4") && a.tensors.shape.back() % 2 != 0) {
        return a.unreadable(values, described(values), "an even number of columns, because rows start on whole bytes");
    }
    if (a.matrix.scales == nullptr) {
        return a.unreadable(values, described(values) + " without scales", "a tensor with its scales");
    }
    if (a.fp4 && a.kind == ScaleKind::real) {
        return a.unreadable(values,
                            fmt::format("{} with {} {}, which are integers", described(values),
                                        a.matrix.scales->stored.name, described(*a.matrix.scales)),
                            "fp8 or FP4 weights");
    }
    if (a.fp4 && a.kind == ScaleKind::other) return a.unreadable_scales("F8_E8M0, U8 or F8_E4M3");
    const bool fits_fp8 = a.kind == ScaleKind::real || a.kind == ScaleKind::powers;
    if (!a.fp4 && !fits_fp8) return a.unreadable_scales("F32, BF16, F16 or F8_E8M0");
    return std::nullopt;
}

}  // namespace

Candidate scaled_matrix(const SchemeTensors& tensors, const QuantizationConfig& config) {
    Assembly a{.tensors = tensors, .config = config};
    a.matrix = {.name = tensors.name,
                .scheme = tensors.scheme,
                .values = tensors.values,
                .scales = tensors.scales,
                .tensor_scale = tensors.tensor_scale,
                .divides = tensors.divides};
    a.fp4 = is_fp4_bytes(*tensors.values);
    if (tensors.scales != nullptr) a.kind = kind_of(*tensors.scales);
    if (auto refused = refuse_dtypes(a)) return *refused;
    set_stored_shapes(a);
    if (auto refused = set_scales(a)) return *refused;
    if (auto refused = refuse_tensor_scale(a)) return *refused;
    set_recipe(a);
    return {.matrix = a.matrix};
}

}  // namespace tilewright::safetensors
