#include "safetensors/published_format.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t mx_block = 32;
constexpr std::string_view weight = ".weight";

/// Why an engine would not read a matrix as it is written; empty if it would.
std::string mismatch(PublishedFormat format, const StoredMatrix& matrix) {
    if (matrix.transposed) return "experts [experts, n, k] in the input too";
    if (format == PublishedFormat::fp8) return "";
    if (!matrix.grouped) return "experts of a layer in one tensor [experts, n, k], as gpt-oss has them";
    return matrix.k % mx_block == 0 ? "" : "k of a multiple of 32";
}

}  // namespace

std::string name(PublishedFormat format) { return format == PublishedFormat::fp8 ? "fp8" : "mxfp4"; }

OperandRecipe recipe_of(PublishedFormat format) {
    return *parse_operand_recipe(format == PublishedFormat::fp8 ? "128x128" : "mxfp4");
}

std::vector<StoredTensor> published_tensors(PublishedFormat format, const StoredMatrix& matrix) {
    const Dims shape = matrix.shape();
    if (format == PublishedFormat::fp8) {
        return {{.name = matrix.name, .dtype = "F8_E4M3", .shape = stored_shape(shape)},
                {.name = matrix.name + "_scale_inv",
                 .dtype = "F32",
                 .shape = stored_shape(scale_shape(Granularity::block_128x128, shape))}};
    }
    const Dims scales = scale_shape(Granularity::block_1x32, shape);
    std::vector<std::uint64_t> blocks = stored_shape(scales);
    blocks.push_back(mx_block / 2);
    return {{.name = matrix.name + "_blocks", .dtype = "U8", .shape = blocks},
            {.name = matrix.name + "_scales", .dtype = "U8", .shape = stored_shape(scales)}};
}

PublishedDescription published_description(const Conversion& c) {
    PublishedDescription description{.format = *c.job.published};
    for (const StoredMatrix& matrix : c.found.matrices) {
        if (matrix.scheme != "unquantised" || !matrix.name.ends_with(weight)) continue;
        description.unquantised.push_back(matrix.name.substr(0, matrix.name.size() - weight.size()));
    }
    return description;
}

void refuse_unpublishable(const Conversion& c) {
    if (!c.job.published) return;
    const std::string option = "--as " + name(*c.job.published);
    if (!c.result.kept.empty()) {
        const KeptTensors& kept = c.result.kept.front();
        throw std::runtime_error(fmt::format(
            "{}: got {} that stays {} ({}); expected that all quantized tensors are converted. One description in "
            "config.json holds for all of them.",
            option, kept.name, kept.format, kept.reason));
    }
    for (const OutputShard& shard : c.shards) {
        for (const StoredMatrix* matrix : shard.matrices) {
            const std::string expected = mismatch(*c.job.published, *matrix);
            if (expected.empty()) continue;
            throw std::runtime_error(fmt::format("{}: got {} {}{}; expected {}.", option, matrix->name,
                                                 to_string(matrix->shape()),
                                                 matrix->transposed ? ", stored as [experts, k, n]" : "", expected));
        }
    }
}

}  // namespace tilewright::safetensors
