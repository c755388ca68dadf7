#include "safetensors/stored_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "safetensors/fnuz.h"
#include "safetensors/schemes.h"

namespace tilewright::safetensors {
namespace {

/// Names of tensors that schemes store with weights, after the module's name or, for fused experts, after the
/// parameter's.
constexpr std::array companion_names{"input_scale",
                                     "input_global_scale",
                                     "input_scale_inv",
                                     "activation_scale",
                                     "qscale_act",
                                     "act_scale",
                                     "scale_input",
                                     "input_scale_ub",
                                     "input_quantizer.scale",
                                     "weight_zero_point",
                                     "weight_shape",
                                     "pre_quant_scale",
                                     "output_scale",
                                     "k_scale",
                                     "v_scale"};

std::vector<const Named*> companions_of(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    std::vector<const Named*> all = matrix.companions;
    const auto module = stem(matrix.name, ".weight");
    const std::string prefix = module ? *module + "." : matrix.name + "_";
    for (const char* name : companion_names) {
        if (const Named* const tensor = checkpoint.find(prefix + name)) all.push_back(tensor);
    }
    return all;
}

std::optional<StoredMatrix> unquantised(const std::string& name, const Named& values) {
    if (!is_real(&values)) return std::nullopt;
    StoredMatrix matrix{.name = name, .scheme = "unquantised", .values = &values};
    matrix.recipe = {format_of(values.stored.dtype).value(), Granularity::none, Format::f32};
    if (!set_shape(matrix, values.stored.shape)) return std::nullopt;
    return matrix;
}

/// A scale whose weights are elsewhere looks like weights without scales.
bool is_named_scale(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return name.find("scale", dot == std::string::npos ? 0 : dot) != std::string::npos;
}

/// Files in the folder that the index does not name may have the missing tensor, but no reader would look there.
void add_advice(const Checkpoint& checkpoint, Candidate& candidate) {
    if (candidate.matrix.scales != nullptr || checkpoint.unlisted().empty() || candidate.matrix.packed) return;
    candidate.finding->advice = fmt::format("the index does not name {}", fmt::join(checkpoint.unlisted(), ", "));
}

/// All candidates, without scales of other candidates, which by themselves look like values.
std::vector<Candidate> candidates_of(const Checkpoint& checkpoint) {
    const QuantizationConfig config = quantization_config(checkpoint);
    const Schemes schemes{.checkpoint = checkpoint, .config = config};
    std::vector<Candidate> all;
    std::set<const Named*> scales;
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        auto candidate = schemes.candidate(name, tensor);
        if (!candidate) continue;
        candidate->matrix.companions = companions_of(checkpoint, candidate->matrix);
        scales.insert({candidate->matrix.scales, candidate->matrix.tensor_scale});
        scales.insert(candidate->matrix.companions.begin(), candidate->matrix.companions.end());
        all.push_back(std::move(*candidate));
    }
    std::erase_if(all, [&](const Candidate& candidate) {
        const StoredMatrix& matrix = candidate.matrix;
        const bool alone = candidate.finding && matrix.scales == nullptr && !matrix.packed;
        return alone && (scales.count(matrix.values) != 0 || is_named_scale(matrix.values->stored.name));
    });
    return all;
}

std::string blocks_text(const StoredMatrix& matrix) {
    ScaleBlocks blocks = matrix.stored_scales.blocks;
    if (matrix.transposed) blocks = {blocks.columns, blocks.rows};
    if (blocks.columns == 0 && blocks.rows <= 1) return blocks.rows == 0 ? "tensor" : "row";
    const auto size = [](std::int64_t block) { return block == 0 ? "all" : std::to_string(block); };
    return size(blocks.rows) + "x" + size(blocks.columns);
}

/// The dtype of OCP's formats as the recipes call them, of others in the file's words.
std::string values_text(const StoredMatrix& matrix) {
    const std::string& dtype = matrix.values->stored.dtype;
    if (const auto sibling = fnuz_sibling(dtype)) return std::string(name(*sibling)) + "fnuz";
    const auto format = format_of(dtype);
    return format ? std::string(name(*format)) : dtype;
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

StoredShape StoredMatrix::stored_shape() const {
    StoredShape shape{.rows = transposed ? k : n, .columns = transposed ? n : k, .transposed = transposed};
    if (grouped) shape.groups = groups;
    return shape;
}

std::string StoredMatrix::format() const {
    std::string text = tilewright::name(recipe);
    const bool same = packed || scales == nullptr || recipe.values == Format::e2m1;
    if (!same) {
        const bool held = recipe.granularity != Granularity::none && text.find(blocks_text(*this)) != std::string::npos;
        const bool mx = recipe.granularity == Granularity::block_1x32 && stored_scales.blocks.columns == 32;
        const bool fnuz = fnuz_sibling(values->stored.dtype).has_value();
        if (!held && !mx) text = values_text(*this) + " " + blocks_text(*this);
        if (fnuz && (held || mx)) text = values_text(*this) + " " + text;
        if (is(scales, "BF16") || is(scales, "F16")) text += fmt::format(", scales {}", scales->stored.dtype);
    }
    if (transposed) text += ", [k, n]";
    if (stored_scales.padded) text += ", scales padded";
    return text;
}

StoredMatrices stored_matrices(const Checkpoint& checkpoint) {
    StoredMatrices found;
    std::set<const Named*> used;
    std::set<const Named*> belongs;  // to a scheme, whether it is read or not
    const auto add = [&](const StoredMatrix& matrix) {
        for (const Named* tensor : matrix.tensors()) used.insert(tensor);
        found.matrices.push_back(matrix);
    };
    for (Candidate& candidate : candidates_of(checkpoint)) {
        const StoredMatrix& matrix = candidate.matrix;
        std::vector<const Named*> all = matrix.tensors();
        all.insert(all.end(), matrix.companions.begin(), matrix.companions.end());
        belongs.insert(all.begin(), all.end());
        if (!candidate.finding) {
            add(matrix);
            continue;
        }
        add_advice(checkpoint, candidate);
        found.unreadable.push_back({.name = matrix.name, .finding = *candidate.finding, .tensors = all});
    }
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        if (used.count(&tensor) != 0) continue;
        const auto matrix = belongs.count(&tensor) != 0 ? std::nullopt : unquantised(name, tensor);
        if (matrix) {
            add(*matrix);
        } else {
            found.others.push_back(name);
        }
    }
    return found;
}

}  // namespace tilewright::safetensors
