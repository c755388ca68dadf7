#include "formats/quantize_tokens_check.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/math.h"
#include "formats/quantize_check.h"

namespace tilewright::formats {
namespace {

std::string shown(const Tensor& tensor) { return tensor.given() ? to_string(tensor.shape) : "nothing"; }

/// The requirements for one tensor of a call.
struct Expected {
    std::string operand;
    std::initializer_list<Format> formats;
    bool written = false;
};

class TokenFindings {
public:
    explicit TokenFindings(const DeviceId& device) : device_(device) {}

    void add(Finding finding) { list_.push_back(std::move(finding)); }
    std::vector<Finding> take() { return std::move(list_); }

    void shape(const std::string& operand, const Tensor& tensor, const Dims& shape, const std::string& purpose) {
        if (tensor.shape != shape) add({operand, shown(tensor), to_string(shape) + purpose, ""});
    }

    /// A matrix. False if its shape is of no use for further checks.
    bool matrix(const Expected& expected, const Tensor& tensor, const std::string& sizes) {
        const bool negative =
            std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t size) { return size < 0; });
        if (tensor.shape.rank() != 2 || negative) {
            add({expected.operand, shown(tensor), sizes, ""});
            return false;
        }
        memory(expected, tensor);
        return true;
    }

    void memory(const Expected& expected, const Tensor& tensor) {
        const std::string& operand = expected.operand;
        if (std::find(expected.formats.begin(), expected.formats.end(), tensor.format) == expected.formats.end()) {
            std::string words;
            for (const Format format : expected.formats) {
                words += (words.empty() ? "" : " or ") + std::string(name(format));
            }
            add({operand, std::string(name(tensor.format)), words, ""});
        }
        if (tensor.device != device_) {
            add({operand, "memory of another device", "memory of the device of source.x", "copy it there"});
        }
        if (tensor.strides.rank() != tensor.shape.rank()) {
            return add({operand + ".strides", to_string(tensor.strides),
                        std::to_string(tensor.shape.rank()) + " strides, one per dimension", ""});
        }
        if (is_empty(tensor.shape)) return;
        if (tensor.data == nullptr) {
            return add({operand, "a null pointer", "memory for " + to_string(tensor.shape), ""});
        }
        const auto width = static_cast<std::uintptr_t>(bits(tensor.format)) / 8;
        if (reinterpret_cast<std::uintptr_t>(tensor.data) % width != 0) {
            add({operand, "an address that is not a multiple of " + std::to_string(width),
                 "elements of " + std::string(name(tensor.format)) + " aligned to their size", ""});
        }
        if (expected.written && overlaps(tensor)) {
            add({operand, to_string(tensor.shape) + " with strides " + to_string(tensor.strides),
                 "strides that give each element its own address", ""});
        }
    }

    void ends(const Tensor& ends) {
        if (!ends.given()) return;
        if (ends.shape.rank() != 1) return add({"source.ends", shown(ends), "[groups]", ""});
        memory({"source.ends", {Format::i32, Format::i64}}, ends);
    }

private:
    DeviceId device_;
    std::vector<Finding> list_{};
};

struct Sizes {
    std::int64_t tokens = 0;
    std::int64_t features = 0;
    std::int64_t groups = 0;  // 0: no ends
};

/// [features, columns] of the transposed operand.
bool has_room(const Dims& shape, const Sizes& sizes) {
    if (shape[0] != sizes.features) return false;
    return sizes.groups > 0 ? shape[1] % 128 == 0 : shape[1] >= sizes.tokens;
}

void check_columns_shape(TokenFindings& findings, const std::string& operand, const Tensor& values,
                         const Sizes& sizes) {
    if (has_room(values.shape, sizes)) return;
    const std::string features = "[" + std::to_string(sizes.features) + ", ";
    findings.add({operand, to_string(values.shape),
                  sizes.groups > 0 ? features + "a multiple of 128], because each group begins at such a column"
                                   : features + std::to_string(sizes.tokens) + " or more]",
                  "allocate column_limit(tokens, groups) columns"});
}

void check_scales(TokenFindings& findings, const std::string& prefix, const Operand& operand, const Sizes& sizes,
                  bool columns) {
    const Dims expected = scale_shape(operand.granularity, operand.values.shape);
    const std::string purpose = " for " + std::string(name(operand.granularity)) + " scales of " + prefix + ".values " +
                                to_string(operand.values.shape);
    const Dims& given = operand.scales.shape;
    if (columns && sizes.groups > 0 && operand.granularity == Granularity::row) {
        findings.shape(prefix + ".scales", operand.scales, {sizes.groups, sizes.features}, purpose);
    } else if (!(columns && operand.granularity == Granularity::tensor && given == Dims{sizes.groups})) {
        findings.shape(prefix + ".scales", operand.scales, expected, purpose);
    }
    if (!operand.scales.given()) return;
    const bool blocks = k_block(operand.granularity) > 0;
    const Expected scales{prefix + ".scales", {Format::f32}, true};
    const Expected block_scales{prefix + ".scales", {Format::f32, Format::ue8m0}, true};
    findings.memory(blocks ? block_scales : scales, operand.scales);
}

bool is_token_granularity(Granularity granularity) {
    return granularity == Granularity::tensor || granularity == Granularity::row ||
           granularity == Granularity::block_1x128 || granularity == Granularity::block_128x128;
}

void check_factors(TokenFindings& findings, const std::string& prefix, const TokenOperand& given, const Sizes& sizes) {
    if (given.token_factors.given()) {
        findings.shape(prefix + ".token_factors", given.token_factors, {sizes.tokens}, ", one per token");
        findings.memory({prefix + ".token_factors", {Format::f32}}, given.token_factors);
    }
    if (!given.feature_factors.given()) return;
    const bool grouped = sizes.groups > 0 && given.feature_factors.shape == Dims{sizes.groups, sizes.features};
    if (!grouped) {
        findings.shape(prefix + ".feature_factors", given.feature_factors, {sizes.features},
                       sizes.groups > 0 ? " or [groups, features]" : ", one per feature");
    }
    findings.memory({prefix + ".feature_factors", {Format::f32}}, given.feature_factors);
}

void check_side(TokenFindings& findings, const std::string& prefix, const TokenOperand& given, const Sizes& sizes,
                bool columns) {
    const Operand& operand = given.operand;
    if (!is_token_granularity(operand.granularity)) {
        return findings.add({prefix + ".granularity", std::string(name(operand.granularity)),
                             "tensor, row, 1x128 or 128x128", "use quantize for other scales"});
    }
    if (!columns && sizes.groups > 0 && operand.granularity == Granularity::block_128x128) {
        findings.add({prefix + ".granularity", "128x128 with source.ends", "tensor, row or 1x128",
                      "blocks of 128x128 start again in each group: write columns, or quantize without ends"});
    }
    const Expected values{prefix + ".values", {Format::e4m3, Format::e5m2}, true};
    if (!findings.matrix(values, operand.values, columns ? "[features, columns]" : "[tokens, features]")) return;
    if (columns) {
        check_columns_shape(findings, prefix + ".values", operand.values, sizes);
    } else {
        findings.shape(prefix + ".values", operand.values, {sizes.tokens, sizes.features},
                       ", the shape after the activation");
    }
    check_scales(findings, prefix, operand, sizes, columns);
    check_factors(findings, prefix, given, sizes);
}

/// The number of tokens that an index has. False if there is none.
bool check_index(TokenFindings& findings, const TokenSource& source, Sizes& sizes) {
    if (source.activation != Activation::none) {
        findings.add({"source.index", shown(source.index), "nothing with an activation", "gather x first"});
    }
    if (source.index.shape.rank() != 1) {
        findings.add({"source.index", shown(source.index), "[tokens]", ""});
        return false;
    }
    findings.memory({"source.index", {Format::i32}}, source.index);
    if (sizes.tokens == 0 && source.index.shape[0] > 0) {
        findings.add({"source.x", to_string(source.x.shape), "at least one row, because index has tokens", ""});
    }
    sizes.tokens = source.index.shape[0];
    return true;
}

/// The shape of h. False if there is none.
bool check_source(TokenFindings& findings, const TokenSource& source, Sizes& sizes) {
    const Expected x{"source.x", {Format::f32, Format::bf16, Format::f16}};
    if (!findings.matrix(x, source.x, "[tokens, features]")) return false;
    sizes = {.tokens = source.x.shape[0], .features = source.x.shape[1]};
    if (source.ends.given()) sizes.groups = source.ends.shape[0];
    findings.ends(source.ends);
    if (source.index.given() && !check_index(findings, source, sizes)) return false;
    if (source.activation != Activation::none && sizes.features % 2 != 0) {
        findings.add({"source.x", to_string(source.x.shape), "an even number of features, gate and up", ""});
    }
    if (source.activation == Activation::swiglu_gradient) {
        const Dims shape{sizes.tokens, sizes.features / 2};
        findings.shape("source.gradient", source.gradient, shape, ", the gradient of swiglu");
        if (source.gradient.given()) findings.memory({"source.gradient", {source.x.format}}, source.gradient);
    } else if (source.gradient.given()) {
        findings.add({"source.gradient", shown(source.gradient), "nothing", "only swiglu_gradient reads it"});
    }
    if (source.activation == Activation::swiglu) sizes.features /= 2;
    return true;
}

}  // namespace

std::vector<Finding> check_quantize_tokens(const TokenSource& source, const TokenOperand& rows,
                                           const TokenOperand& columns) {
    TokenFindings findings(source.x.device);
    Sizes sizes;
    if (!check_source(findings, source, sizes)) return findings.take();
    const bool has_rows = rows.operand.values.given();
    const bool has_columns = columns.operand.values.given();
    const bool scaled_by_group =
        columns.operand.granularity == Granularity::row || columns.operand.granularity == Granularity::tensor;
    if (has_columns && source.ends.given() && sizes.groups == 0 && scaled_by_group) {
        findings.add({"source.ends", "[0]", "at least one group, because each group has a scale",
                      "omit ends for the columns of one matrix"});
        return findings.take();
    }
    if (has_rows) check_side(findings, "rows", rows, sizes, false);
    if (has_columns) check_side(findings, "columns", columns, sizes, true);
    if (!has_rows && !has_columns) {
        findings.add({"rows.values", "nothing", "rows, columns or both", "nothing would be written"});
    }
    return findings.take();
}

std::vector<Finding> check_transpose_codes(const Operand& rows, const Tensor& ends, const Operand& columns) {
    TokenFindings findings(rows.values.device);
    if (!findings.matrix({"rows.values", {Format::e4m3, Format::e5m2}}, rows.values, "[tokens, features]")) {
        return findings.take();
    }
    const Sizes sizes{
        .tokens = rows.values.shape[0], .features = rows.values.shape[1], .groups = ends.given() ? ends.shape[0] : 0};
    findings.ends(ends);
    const bool has_scales = rows.granularity != Granularity::none;
    if (has_scales && rows.granularity != Granularity::block_1x128) {
        findings.add({"rows.granularity", std::string(name(rows.granularity)), "1x128, or none", ""});
        return findings.take();
    }
    const bool has_blocks =
        columns.granularity == Granularity::block_1x128 || columns.granularity == Granularity::block_128x128;
    if (has_scales ? !has_blocks : columns.granularity != Granularity::none) {
        findings.add({"columns.granularity", std::string(name(columns.granularity)),
                      has_scales ? "1x128 or 128x128" : "none, because rows have no scales", ""});
        return findings.take();
    }
    if (has_scales) check_scales(findings, "rows", rows, sizes, false);
    if (!findings.matrix({"columns.values", {rows.values.format}, true}, columns.values, "[features, columns]")) {
        return findings.take();
    }
    check_columns_shape(findings, "columns.values", columns.values, sizes);
    if (has_scales) check_scales(findings, "columns", columns, sizes, true);
    return findings.take();
}

}  // namespace tilewright::formats

namespace tilewright {

Dims columns_shape(std::int64_t tokens, std::int64_t features, std::int64_t groups) {
    return {features, groups > 0 ? column_limit(tokens, groups) : tokens};
}

Dims column_scale_shape(Granularity granularity, std::int64_t tokens, std::int64_t features, std::int64_t groups) {
    if (groups > 0 && granularity == Granularity::row) return {groups, features};
    if (groups > 0 && granularity == Granularity::tensor) return {groups};
    return scale_shape(granularity, columns_shape(tokens, features, groups));
}

}  // namespace tilewright
