#include "safetensors/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "safetensors/conversion_record.h"
#include "safetensors/output_folder.h"

namespace tilewright::safetensors {
namespace {

constexpr std::uint64_t copy_bytes = std::uint64_t{32} << 20;

void write_matrix(Conversion& c, const StoredMatrix& matrix, SafetensorsWriter& writer) {
    const OperandRecipe recipe = c.recipe_for(matrix);
    const Requantised weights = requantised(c.checkpoint, matrix, recipe, c.job.round_up);
    const Operand& operand = weights.operand.operand();
    std::string to = name(recipe);
    if (c.job.pack) {
        const OwnedPackedWeights packed = pack_weights(operand, *c.job.pack);
        writer.write(matrix.name + ".packed", 0, packed.packed.data, static_cast<std::uint64_t>(packed.packed.bytes));
        to += " packed for " + std::string(name(*c.job.pack));
    } else {
        const std::array parts{&operand.values, &operand.scales, &operand.tensor_scale};
        const std::vector<StoredTensor> outputs = c.outputs_of(matrix);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const auto bytes = static_cast<std::uint64_t>(row_major_bytes(parts[i]->format, parts[i]->shape));
            writer.write(outputs[i].name, 0, parts[i]->data, bytes);
        }
    }
    std::string from = matrix.format() + (matrix.packed ? " packed" : "");
    if (!matrix.experts.empty()) from += fmt::format(", {} experts", matrix.groups);
    c.result.matrices.push_back({.name = matrix.name, .from = from, .to = to, .error = weights.error});
    c.report(matrix.bytes(), matrix.name);
}

void copy(Conversion& c, const Checkpoint::Tensor& tensor, SafetensorsWriter& writer) {
    std::vector<std::byte> bytes;
    for (std::uint64_t at = 0; at < tensor.stored.bytes(); at += copy_bytes) {
        bytes.resize(std::min(copy_bytes, tensor.stored.bytes() - at));
        c.checkpoint.read(tensor, at, bytes.data(), bytes.size());
        writer.write(tensor.stored.name, at, bytes.data(), bytes.size());
        c.report(bytes.size(), tensor.stored.name);
    }
    ++c.result.copied;
}

/// The file stays open, so that another one in its place changes nothing; writing into it does.
void refuse_changed_input(const Conversion& c) {
    for (std::size_t i = 0; i < c.identities.size(); ++i) {
        const Checkpoint::Shard& shard = c.checkpoint.shards()[i];
        const FileIdentity now = shard.reader->identity();
        if (now.bytes == c.identities[i].bytes && now.modified == c.identities[i].modified) continue;
        throw SafetensorsError(shard.path + ": changed while it was read; run again");
    }
}

/// The input's metadata, without the entries in which this program or an earlier one describes how the file was made.
Metadata output_metadata(const Conversion& c, const OutputShard& shard) {
    Metadata metadata{{"format", "pt"}};
    for (const Checkpoint::Shard& input : c.checkpoint.shards()) {
        if (input.name != shard.name) continue;
        for (const auto& [key, value] : input.reader->header().metadata) {
            if (!key.starts_with("tilewright.")) metadata[key] = value;
        }
    }
    metadata["tilewright.version"] = c.job.version;
    metadata[record_key] = shard.record;
    metadata[file_digest_key] = "";
    return metadata;
}

void write_shard(Conversion& c, const OutputShard& shard) {
    if (shard.complete) {
        c.result.kept_files.push_back(shard.name);
        return;
    }
    if (shard.earlier.exists) c.result.made_again.push_back({.name = shard.name, .reason = shard.earlier.why_not});
    SafetensorsWriter writer(shard.path, shard.outputs, output_metadata(c, shard));
    for (const auto* tensor : shard.copied) copy(c, *tensor, writer);
    for (const StoredMatrix* matrix : shard.matrices) write_matrix(c, *matrix, writer);
    refuse_changed_input(c);
    writer.commit();
}

}  // namespace

ConvertResult convert(const ConvertJob& job) {
    Conversion c(job);
    refuse_output(c);
    distribute(c);
    std::optional<OutputFolder> folder;
    if (c.checkpoint.is_folder()) folder.emplace(c);
    refuse_full_disk(c);
    if (folder) folder->begin();
    c.result.input_bytes = c.total_bytes;
    for (const OutputShard& shard : c.shards) write_shard(c, shard);
    if (folder) folder->finish();
    for (const SideFile& file : c.side.copied) c.result.copied_files.push_back(file.name);
    return std::move(c.result);
}

}  // namespace tilewright::safetensors
