#include "safetensors/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "output/file.h"
#include "safetensors/conversion.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

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
        const auto write = [&](const std::string& suffix, const Tensor& tensor) {
            if (!tensor.given()) return;
            writer.write(matrix.name + suffix, 0, tensor.data,
                         static_cast<std::uint64_t>(row_major_bytes(tensor.format, tensor.shape)));
        };
        write("", operand.values);
        write(".scales", operand.scales);
        write(".tensor_scale", operand.tensor_scale);
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

void write_shard(Conversion& c, const OutputShard& shard) {
    if (shard.complete) {
        c.result.kept_files.push_back(shard.name);
        return;
    }
    SafetensorsWriter writer(shard.path, shard.outputs,
                             {{"format", "pt"}, {"tilewright.version", c.job.version}, {digest_key, shard.digest}});
    for (const auto* tensor : shard.copied) copy(c, *tensor, writer);
    for (const StoredMatrix* matrix : shard.matrices) write_matrix(c, *matrix, writer);
    writer.commit();
}

void write_index(const Conversion& c) {
    nlohmann::json map = nlohmann::json::object();  // by name: the same after a run that went on
    for (const OutputShard& shard : c.shards) {
        for (const StoredTensor& tensor : shard.outputs) map[tensor.name] = shard.name;
    }
    const nlohmann::json index{{"metadata", {{"total_size", c.result.output_bytes}}}, {"weight_map", map}};
    output::write_text((fs::path(c.job.output) / index_name).string(), index.dump(2) + "\n");
}

/// config.json with the conversion in place of how the input was quantised.
void write_config(const Conversion& c) {
    if (c.checkpoint.config().empty()) return;
    auto config = nlohmann::ordered_json::parse(c.checkpoint.config(), nullptr, false);
    if (!config.is_object())
        throw SafetensorsError((fs::path(c.checkpoint.folder()) / config_name).string() + ": is no JSON object");
    nlohmann::ordered_json how{{"quant_method", "tilewright"}, {"version", c.job.version}};
    how["recipe"] = c.job.recipe ? name(*c.job.recipe) : "as it was";
    if (c.job.pack) how["packed_for"] = name(*c.job.pack);
    if (c.job.stack_experts) how["stacked_experts"] = true;
    config["quantization_config"] = how;
    output::write_text((fs::path(c.job.output) / config_name).string(), config.dump(2) + "\n");
}

}  // namespace

ConvertResult convert(const ConvertJob& job) {
    Conversion c(job);
    refuse_output(c);
    distribute(c);
    if (c.checkpoint.is_folder()) fs::create_directories(job.output);
    refuse_full_disk(c);
    c.result.input_bytes = c.total_bytes;
    for (const OutputShard& shard : c.shards) {
        c.result.output_bytes += shard.bytes();
        write_shard(c, shard);
    }
    if (c.checkpoint.is_folder()) {
        write_config(c);
        if (has_index(c)) write_index(c);
    }
    return std::move(c.result);
}

}  // namespace tilewright::safetensors
