#include "cuda/kernel_pack.h"

#include <algorithm>
#include <charconv>

namespace tilewright::cuda {
namespace {

// The form of a pack: this line; "<kernels>\n"; per kernel a line "<bytes> <name> <expression>"; then all machine code.
constexpr std::string_view first_line = "tilewright pack 1\n";

/// Removes the text up to `end` from the front and returns it; nothing if `end` does not occur.
std::optional<std::string_view> take(std::string_view& text, char end) {
    const std::size_t length = text.find(end);
    if (length == std::string_view::npos) return std::nullopt;
    const std::string_view taken = text.substr(0, length);
    text.remove_prefix(length + 1);
    return taken;
}

std::optional<std::size_t> take_number(std::string_view& text, char end) {
    const std::optional<std::string_view> digits = take(text, end);
    std::size_t value = 0;
    if (!digits) return std::nullopt;
    const auto [last, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
    if (error != std::errc{} || last != digits->data() + digits->size()) return std::nullopt;
    return value;
}

std::vector<PackedKernel> parse(std::string_view text) {
    if (text.substr(0, first_line.size()) != first_line) return {};
    text.remove_prefix(first_line.size());
    const std::optional<std::size_t> count = take_number(text, '\n');
    std::vector<PackedKernel> kernels;
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; count && i < *count; ++i) {
        const std::optional<std::size_t> size = take_number(text, ' ');
        const std::optional<std::string_view> name = take(text, ' ');
        const std::optional<std::string_view> expression = take(text, '\n');
        if (!size || !name || !expression) return {};
        sizes.push_back(*size);
        kernels.push_back({.expression = *expression, .name = *name, .cubin = {}});
    }
    for (std::size_t i = 0; i < kernels.size(); ++i) {
        if (text.size() < sizes[i]) return {};
        kernels[i].cubin = text.substr(0, sizes[i]);
        text.remove_prefix(sizes[i]);
    }
    return kernels;
}

}  // namespace

KernelPack::KernelPack(std::string_view bytes) : kernels_(parse(bytes)) {
    std::sort(kernels_.begin(), kernels_.end(),
              [](const PackedKernel& x, const PackedKernel& y) { return x.expression < y.expression; });
    for (const PackedKernel& kernel : kernels_) bytes_ += static_cast<std::int64_t>(kernel.cubin.size());
}

std::optional<PackedKernel> KernelPack::find(std::string_view expression) const {
    const auto found = std::lower_bound(
        kernels_.begin(), kernels_.end(), expression,
        [](const PackedKernel& kernel, std::string_view wanted) { return kernel.expression < wanted; });
    if (found == kernels_.end() || found->expression != expression) return std::nullopt;
    return *found;
}

std::string pack_bytes(const std::vector<PackedKernel>& kernels) {
    std::string text = std::string(first_line) + std::to_string(kernels.size()) + "\n";
    for (const PackedKernel& kernel : kernels) {
        text += std::to_string(kernel.cubin.size()) + " ";
        text.append(kernel.name).append(" ").append(kernel.expression).append("\n");
    }
    for (const PackedKernel& kernel : kernels) text.append(kernel.cubin);
    return text;
}

}  // namespace tilewright::cuda
