#include "safetensors/quantize_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <utility>

#include "safetensors/quantised_tensors.h"

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t row_step = 128;  // blocks of 128x128 are never cut

/// The matrices of one tensor.
struct Matrices {
    const StoredTensor* stored = nullptr;
    Format format = Format::f32;
    bool grouped = false;
    std::int64_t groups = 1;
    std::int64_t rows = 0;
    std::int64_t k = 0;
};

/// The shapes of an operand [rows, k], as tilewright::Operand documents them.
struct OperandShape {
    Dims values;
    Dims scales;
    bool has_tensor_scale = false;
};

bool rows_share_scale(const OperandRecipe& recipe) {
    return recipe.granularity == Granularity::tensor || recipe.granularity == Granularity::block_1x16;
}

std::int64_t block_count(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

OperandShape operand_shape(const OperandRecipe& recipe, std::int64_t rows, std::int64_t k) {
    OperandShape shape{.values = {rows, k}, .scales = {1}};
    const int row_block = tilewright::row_block(recipe.granularity);
    const int k_block = tilewright::k_block(recipe.granularity);
    if (k_block != 0) {
        shape.scales = {block_count(rows, row_block), block_count(k, k_block)};
    } else if (row_block != 0) {
        shape.scales = {rows};
    }
    shape.has_tensor_scale = recipe.granularity == Granularity::block_1x16;
    return shape;
}

bool is_matrix(const StoredTensor& tensor) {
    const bool real = tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
    return real && (tensor.shape.size() == 2 || tensor.shape.size() == 3);
}

/// What is quantised already and what scales it, which no quantiser takes for a matrix.
class QuantisedAlready {
public:
    explicit QuantisedAlready(const std::vector<StoredTensor>& tensors) {
        std::vector<const StoredTensor*> all;
        all.reserve(tensors.size());
        for (const StoredTensor& tensor : tensors) all.push_back(&tensor);
        for (const QuantisedTensor& one : quantised_tensors(all)) add(one);
    }

    bool has(const StoredTensor& tensor) const { return parts_.contains(&tensor); }
    const std::vector<Kept>& kept() const { return kept_; }

private:
    void add(const QuantisedTensor& one) {
        std::string scales;
        for (const StoredTensor* scale : one.scales) {
            parts_.insert(scale);
            scales += (scales.empty() ? "; its scales: " : ", ") + scale->name;
        }
        if (one.values != nullptr) {
            parts_.insert(one.values);
            kept_.push_back({one.values->name, dtype_and_shape(*one.values) + ", already quantized" + scales});
        } else if (is_matrix(*one.scales.front())) {
            kept_.push_back({one.scales.front()->name, "it is named as a scale"});
        }
    }

    std::set<const StoredTensor*> parts_;
    std::vector<Kept> kept_;
};

Matrices matrices_of(const StoredTensor& tensor) {
    const std::size_t rank = tensor.shape.size();
    return {.stored = &tensor,
            .format = format_of(tensor.dtype).value(),
            .grouped = rank == 3,
            .groups = rank == 3 ? static_cast<std::int64_t>(tensor.shape[0]) : 1,
            .rows = static_cast<std::int64_t>(tensor.shape[rank - 2]),
            .k = static_cast<std::int64_t>(tensor.shape[rank - 1])};
}

/// Why a matrix cannot be quantised; empty if it can.
std::string obstacle(const Matrices& matrices, const OperandRecipe& recipe) {
    if (matrices.stored->bytes() == 0) return "it has no elements";
    if (recipe.values == Format::e2m1 && matrices.k % 2 != 0) {
        return fmt::format("k = {} is odd, but e2m1 stores two elements of a row per byte", matrices.k);
    }
    return "";
}

std::vector<std::uint64_t> stored_shape(const Matrices& matrices, const Dims& shape) {
    std::vector<std::uint64_t> stored;
    if (matrices.grouped) stored.push_back(static_cast<std::uint64_t>(matrices.groups));
    const bool only_groups = matrices.grouped && shape == Dims{1};  // one scale for each group: [g], not [g, 1]
    if (!only_groups) stored.insert(stored.end(), shape.begin(), shape.end());
    return stored;
}

void declare(const Matrices& matrices, const OperandRecipe& recipe, std::vector<StoredTensor>& outputs) {
    const OperandShape shape = operand_shape(recipe, matrices.rows, matrices.k);
    const std::string& name = matrices.stored->name;
    outputs.push_back({.name = name, .dtype = dtype_of(recipe.values), .shape = stored_shape(matrices, shape.values)});
    outputs.push_back(
        {.name = name + ".scales", .dtype = dtype_of(recipe.scales), .shape = stored_shape(matrices, shape.scales)});
    if (!shape.has_tensor_scale) return;
    outputs.push_back({.name = name + ".tensor_scale", .dtype = "F32", .shape = stored_shape(matrices, {1})});
}

void refuse_equal_names(const std::string& input, const std::vector<StoredTensor>& outputs) {
    std::set<std::string> names;
    for (const StoredTensor& tensor : outputs) {
        if (names.insert(tensor.name).second) continue;
        throw std::runtime_error(
            fmt::format("{}: '{}' would be written twice: the input already has a tensor of that name; exclude the "
                        "tensor whose output it would be",
                        input, tensor.name));
    }
}

/// The work itself: what goes where is settled.
class Converter {
public:
    Converter(const QuantizeJob& job, const SafetensorsReader& reader, SafetensorsWriter& writer)
        : job_(job), reader_(reader), writer_(writer) {
        for (const StoredTensor& tensor : reader.header().tensors) total_bytes_ += tensor.bytes();
    }

    void copy(const StoredTensor& tensor) {
        for (std::uint64_t offset = 0; offset < tensor.bytes(); offset += job_.block_bytes) {
            const std::uint64_t bytes = std::min(job_.block_bytes, tensor.bytes() - offset);
            source_.resize(bytes);
            reader_.read(tensor, offset, source_.data(), bytes);
            writer_.write(tensor.name, offset, source_.data(), bytes);
            report(tensor, bytes);
        }
    }

    void quantize(const Matrices& matrices) {
        const std::int64_t row_bytes = row_major_bytes(matrices.format, {matrices.k});
        std::int64_t step =
            std::max(row_step, static_cast<std::int64_t>(job_.block_bytes) / row_bytes / row_step * row_step);
        if (rows_share_scale(job_.options.recipe)) step = matrices.rows;
        for (std::int64_t group = 0; group < matrices.groups; ++group) {
            for (std::int64_t row = 0; row < matrices.rows; row += step) {
                quantize_rows(matrices, group, row, std::min(step, matrices.rows - row));
            }
        }
    }

private:
    void quantize_rows(const Matrices& matrices, std::int64_t group, std::int64_t row, std::int64_t rows) {
        const OperandRecipe& recipe = job_.options.recipe;
        const std::int64_t row_bytes = row_major_bytes(matrices.format, {matrices.k});
        const auto bytes = static_cast<std::uint64_t>(rows * row_bytes);
        source_.resize(bytes);
        reader_.read(*matrices.stored, static_cast<std::uint64_t>((group * matrices.rows + row) * row_bytes),
                     source_.data(), bytes);
        const OwnedOperand owned = [&] {
            const Tensor source = row_major(std::as_const(source_).data(), matrices.format, {rows, matrices.k});
            return tilewright::quantize(source, job_.options);
        }();
        const Operand& operand = owned.operand();

        // This block's parts follow those of the groups and rows before it in the tensors that are written.
        const OperandShape whole = operand_shape(recipe, matrices.rows, matrices.k);
        const OperandShape before = operand_shape(recipe, row, matrices.k);
        const std::string& name = matrices.stored->name;
        write(name, operand.values,
              group * row_major_bytes(recipe.values, whole.values) + row_major_bytes(recipe.values, before.values));
        const std::int64_t scales_before = row == 0 ? 0 : row_major_bytes(recipe.scales, before.scales);
        write(name + ".scales", operand.scales, group * row_major_bytes(recipe.scales, whole.scales) + scales_before);
        if (whole.has_tensor_scale) {
            write(name + ".tensor_scale", operand.tensor_scale, group * row_major_bytes(Format::f32, {1}));
        }
        report(*matrices.stored, bytes);
    }

    void write(const std::string& name, const Tensor& part, std::int64_t offset) {
        writer_.write(name, static_cast<std::uint64_t>(offset), part.data,
                      static_cast<std::uint64_t>(row_major_bytes(part.format, part.shape)));
    }

    void report(const StoredTensor& tensor, std::uint64_t bytes) {
        done_bytes_ += bytes;
        if (job_.progress) job_.progress(done_bytes_, total_bytes_, tensor.name);
    }

    const QuantizeJob& job_;
    const SafetensorsReader& reader_;
    SafetensorsWriter& writer_;
    std::vector<std::byte> source_;
    std::uint64_t done_bytes_ = 0;
    std::uint64_t total_bytes_ = 0;
};

/// By inode: links and other spellings of the path are the same file.
void refuse_same_file(const QuantizeJob& job) {
    std::error_code error;
    if (!std::filesystem::equivalent(job.input, job.output, error)) return;
    throw std::runtime_error(
        fmt::format("{}: is the input itself, which would be lost; choose another output", job.output));
}

Metadata output_metadata(const QuantizeJob& job, const SafetensorsReader& reader) {
    Metadata metadata = reader.header().metadata;
    if (metadata.count("tilewright.recipe") != 0) {
        throw std::runtime_error(fmt::format("{}: already quantized, as {}; pass the original file", job.input,
                                             metadata.at("tilewright.recipe")));
    }
    std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("tilewright."); });
    metadata["tilewright.recipe"] = name(job.options.recipe);
    metadata["tilewright.round_up"] = job.options.round_up ? "true" : "false";
    metadata["tilewright.version"] = job.version;
    return metadata;
}

[[noreturn]] void refuse_nothing(const QuantizeJob& job, const QuantizeResult& result) {
    std::string first;
    if (!result.kept.empty()) first = fmt::format("; {}: {}", result.kept[0].name, result.kept[0].reason);
    throw std::runtime_error(job.input +
                             ": no tensor to quantize; expected a 2-D or 3-D tensor of F32, BF16 or F16 that is not "
                             "empty and that --include and --exclude choose" +
                             first);
}

}  // namespace

QuantizeResult quantize_file(const QuantizeJob& job) {
    refuse_same_file(job);
    const SafetensorsReader reader(job.input);
    const Metadata metadata = output_metadata(job, reader);
    const QuantisedAlready quantised(reader.header().tensors);
    QuantizeResult result{.kept = quantised.kept()};
    std::vector<Matrices> to_quantize;
    std::vector<const StoredTensor*> to_copy;
    std::vector<StoredTensor> outputs;
    for (const StoredTensor& tensor : reader.header().tensors) {
        result.input_bytes += tensor.bytes();
        if (is_matrix(tensor) && job.wanted(tensor.name) && !quantised.has(tensor)) {
            const Matrices matrices = matrices_of(tensor);
            const std::string reason = obstacle(matrices, job.options.recipe);
            if (reason.empty()) {
                to_quantize.push_back(matrices);
                declare(matrices, job.options.recipe, outputs);
                continue;
            }
            result.kept.push_back({.name = tensor.name, .reason = reason});
        }
        to_copy.push_back(&tensor);
        outputs.push_back(tensor);
    }
    if (to_quantize.empty()) refuse_nothing(job, result);
    refuse_equal_names(job.input, outputs);

    SafetensorsWriter writer(job.output, outputs, metadata);
    Converter converter(job, reader, writer);
    for (const StoredTensor* tensor : to_copy) converter.copy(*tensor);
    for (const Matrices& matrices : to_quantize) converter.quantize(matrices);
    writer.commit();
    result.quantized = to_quantize.size();
    result.copied = to_copy.size();
    result.output_bytes = writer.file_bytes();
    return result;
}

}  // namespace tilewright::safetensors
