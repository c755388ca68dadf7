#include "safetensors/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "safetensors/config_text.h"
#include "safetensors/conversion_record.h"
#include "safetensors/kept_quantised.h"
#include "safetensors/published_format.h"
#include "safetensors/stack_experts.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

bool is_chosen(const Conversion& c, const StoredMatrix& matrix) {
    return matrix.scheme != "unquantised" && c.job.wanted(matrix.name);
}

/// Why a matrix is not converted; empty if it is.
std::string obstacle(const Conversion& c, const StoredMatrix& matrix) {
    if (!is_chosen(c, matrix)) return "not chosen by --include and --exclude";
    const OperandRecipe recipe = c.recipe_for(matrix);
    const bool fp4 = recipe.values == Format::e2m1;
    if (c.job.pack && !fp4) return "only mxfp4 and nvfp4 can be packed; convert it with --to mxfp4";
    if (fp4 && matrix.k % 2 != 0) return "k is odd";
    return "";
}

/// Why no matrix is converted: the number of chosen matrices, and the obstacle of the first.
std::string why_none(const Conversion& c) {
    const auto chosen_here = [&](const StoredMatrix& matrix) { return is_chosen(c, matrix); };
    const std::vector<StoredMatrix>& all = c.found.matrices;
    const auto first = std::find_if(all.begin(), all.end(), chosen_here);
    if (first != all.end()) {
        const auto chosen = std::count_if(all.begin(), all.end(), chosen_here);
        return fmt::format("{} chosen, the first is {} ({}): {}", chosen, first->name, name(first->recipe),
                           obstacle(c, *first));
    }
    return "no matrix that --include and --exclude choose is quantized in a way that `tilewright inspect` knows. For "
           "bf16, f16 and f32 use `tilewright quantize`";
}

/// Unreadable matrices would be copied, and then read as another format than config.json declares.
void refuse_unreadable(const Conversion& c) {
    constexpr int most_lines = 8;
    int count = 0;
    std::string lines;
    for (const UnreadableMatrix& matrix : c.found.unreadable) {
        if (!c.job.wanted(matrix.name)) continue;
        if (++count <= most_lines) lines += "\n  " + matrix.finding.message();
    }
    if (count == 0) return;
    if (count > most_lines) lines += fmt::format("\n  and {} more", count - most_lines);
    throw SafetensorsError(fmt::format("{}: {} matrices cannot be read (--exclude copies their tensors unchanged):{}",
                                       c.job.input, count, lines));
}

/// The bytes of a packed matrix. They follow from its weights, which are read only for this number.
std::uint64_t packed_size(const Conversion& c, const StoredMatrix& matrix) {
    const Requantised weights = requantised(c.checkpoint, matrix, c.recipe_for(matrix), c.job.round_up);
    return static_cast<std::uint64_t>(packed_bytes(weights.operand, *c.job.pack));
}

void refuse_equal_names(const std::vector<OutputShard>& shards) {
    std::set<std::string> names;
    for (const OutputShard& shard : shards) {
        for (const StoredTensor& tensor : shard.outputs) {
            if (names.insert(tensor.name).second) continue;
            throw std::runtime_error(
                fmt::format("'{}' would be written twice: the input already has a tensor of that name", tensor.name));
        }
    }
}

/// Declares the tensors of each file, except in files that are already complete.
void declare_outputs(Conversion& c) {
    std::erase_if(c.shards, [](const OutputShard& shard) { return shard.matrices.empty() && shard.copied.empty(); });
    for (OutputShard& shard : c.shards) {
        shard.record = conversion_record(c, shard);
        shard.earlier = earlier_file(shard.path, shard.record);
        shard.complete = shard.earlier.exists && shard.earlier.why_not.empty();
        if (shard.complete) {
            shard.outputs = SafetensorsReader(shard.path).header().tensors;
            continue;
        }
        for (const StoredMatrix* matrix : shard.matrices) {
            for (StoredTensor& tensor : c.outputs_of(*matrix)) shard.outputs.push_back(std::move(tensor));
        }
        for (const auto* tensor : shard.copied) shard.outputs.push_back(tensor->stored);
    }
    for (const OutputShard& shard : c.shards) c.result.output_bytes += shard.bytes();
}

/// An empty file is one that is broken, unlike one that is not there.
bool has_config(const Checkpoint& checkpoint) {
    return std::ranges::any_of(checkpoint.files(),
                               [](const std::string& file) { return fs::path(file).filename() == config_name; });
}

}  // namespace

Conversion::Conversion(const ConvertJob& given)
    : job(given), checkpoint(given.input), found(stored_matrices(checkpoint)) {
    wait_until_times_tell(checkpoint);
    for (const Checkpoint::Shard& shard : checkpoint.shards()) identities.push_back(shard.reader->identity());
    if (!checkpoint.is_folder()) return;
    side = side_files(checkpoint);
    result.files_not_copied = side.left;
}

OperandRecipe Conversion::recipe_for(const StoredMatrix& matrix) const {
    return job.published ? recipe_of(*job.published) : job.recipe.value_or(matrix.recipe);
}

std::vector<StoredTensor> Conversion::outputs_of(const StoredMatrix& matrix) const {
    if (job.published) return published_tensors(*job.published, matrix);
    const std::string& name = matrix.name;
    if (job.pack) return {{.name = name + ".packed", .dtype = "U8", .shape = {packed_size(*this, matrix)}}};
    const OperandRecipe recipe = recipe_for(matrix);
    const Dims shape = matrix.shape();
    std::vector<StoredTensor> outputs{{.name = name, .dtype = dtype_of(recipe.values), .shape = stored_shape(shape)},
                                      {.name = name + ".scales",
                                       .dtype = dtype_of(recipe.scales),
                                       .shape = stored_shape(scale_shape(recipe.granularity, shape))}};
    if (recipe.granularity == Granularity::block_1x16) {
        outputs.push_back({.name = name + ".tensor_scale",
                           .dtype = "F32",
                           .shape = stored_shape(scale_shape(Granularity::tensor, shape))});
    }
    return outputs;
}

std::string output_path(const Conversion& c, const std::string& file) {
    return c.checkpoint.is_folder() ? (fs::path(c.job.output) / file).string() : c.job.output;
}

void distribute(Conversion& c) {
    for (const Checkpoint::Shard& shard : c.checkpoint.shards()) {
        c.shards.push_back({.name = shard.name, .path = output_path(c, shard.name)});
    }
    refuse_unreadable(c);
    if (c.job.stack_experts) {
        c.found.matrices =
            stacked_experts(c.found.matrices, [&](const StoredMatrix& matrix) { return is_chosen(c, matrix); });
    }
    std::set<const Checkpoint::Tensor*> consumed;
    for (const StoredMatrix& matrix : c.found.matrices) {
        if (!obstacle(c, matrix).empty()) continue;
        for (const auto* tensor : matrix.tensors()) consumed.insert(tensor);
        // An engine would take them for scales of the new format, whose activations are quantized as they come.
        if (c.job.published) consumed.insert(matrix.companions.begin(), matrix.companions.end());
        c.shards[matrix.values->shard].matrices.push_back(&matrix);
    }
    if (consumed.empty()) throw std::runtime_error(c.job.input + ": no matrix to convert: " + why_none(c));
    for (const auto& [name, tensor] : c.checkpoint.tensors()) {
        c.total_bytes += tensor.stored.bytes();
        if (consumed.count(&tensor) == 0) c.shards[tensor.shard].copied.push_back(&tensor);
    }
    c.result.kept = kept_quantised(c, consumed, [&](const StoredMatrix& matrix) { return obstacle(c, matrix); });
    refuse_unpublishable(c);
    if (c.checkpoint.is_folder() && has_config(c.checkpoint)) c.config = converted_config(c);
    declare_outputs(c);
    refuse_equal_names(c.shards);
}

}  // namespace tilewright::safetensors
