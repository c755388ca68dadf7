// The words for formats, and the arithmetic of shapes and strides.
#include <tilewright/tensor.h>

#include <array>
#include <utility>

namespace tilewright {
namespace {

constexpr std::array<std::pair<Format, std::string_view>, 10> format_names{{
    {Format::e4m3, "e4m3"},
    {Format::e5m2, "e5m2"},
    {Format::e2m1, "e2m1"},
    {Format::ue8m0, "ue8m0"},
    {Format::ue4m3, "ue4m3"},
    {Format::bf16, "bf16"},
    {Format::f16, "f16"},
    {Format::f32, "f32"},
    {Format::i32, "i32"},
    {Format::i64, "i64"},
}};

}  // namespace

std::string_view name(Format format) {
    for (const auto& [key, text] : format_names) {
        if (key == format) return text;
    }
    return "unknown format";
}

std::optional<Format> parse_format(std::string_view text) {
    for (const auto& [key, known] : format_names) {
        if (known == text) return key;
    }
    return std::nullopt;
}

std::string to_string(const Dims& dims) {
    std::string text = "[";
    for (int i = 0; i < dims.kept(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
    if (dims.rank() > dims.kept()) text += ", ...";
    return text + "]";
}

Dims row_major_strides(Format format, const Dims& shape) {
    Dims strides = shape;
    std::int64_t stride = 1;
    for (int i = shape.kept() - 1; i >= 0; --i) {
        strides[i] = stride;
        const bool packed = format == Format::e2m1 && i == shape.kept() - 1;
        stride *= packed ? (shape[i] + 1) / 2 * 2 : shape[i];
    }
    return strides;
}

Tensor row_major(void* data, Format format, const Dims& shape) {
    return {.data = data, .format = format, .shape = shape, .strides = row_major_strides(format, shape)};
}

Tensor row_major(const void* data, Format format, const Dims& shape) {
    return row_major(const_cast<void*>(data), format, shape);
}

std::int64_t row_major_bytes(Format format, const Dims& shape) {
    if (shape.rank() == 0) return 0;
    const Dims strides = row_major_strides(format, shape);
    std::int64_t last = shape[shape.kept() - 1];
    std::int64_t elements = shape.kept() == 1 ? last : shape[0] * strides[0];
    if (format == Format::e2m1) elements = (elements + 1) / 2 * 2;
    return elements * bits(format) / 8;
}

}  // namespace tilewright
