// The header of packed weights: read, and believed only as far as it can be checked.
#include "formats/packed_layout.h"

#include <tilewright/problem.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tilewright {
namespace {

using formats::PackedHeader;

constexpr std::int64_t largest_size = std::int64_t{1} << 40;

[[noreturn]] void refuse(const std::string& given, const std::string& expected, const std::string& advice = {}) {
    throw Error({{.operand = "packed", .given = given, .expected = expected, .advice = advice}});
}

/// Sizes whose sections can be computed in 64 bits.
bool has_sound_sizes(const PackedHeader& header) {
    const auto sound = [](std::int64_t size) { return size >= 0 && size < largest_size; };
    if (!sound(header.groups) || !sound(header.n) || !sound(header.k) || !sound(header.tensor_scales)) return false;
    const double elements = (static_cast<double>(header.n) + 64) * (static_cast<double>(header.k) + 128);
    return (static_cast<double>(header.groups) + 1) * elements < 0x1p55;
}

bool has_known_words(const PackedHeader& header) {
    const bool kinds =
        (header.recipe == 1 || header.recipe == 2) && (header.activations == 1 || header.activations == 2);
    const bool may_have_windows = header.recipe == 1 && header.activations == 1;
    if (header.windows < 0 || header.windows > (may_have_windows ? formats::BlockWindows::blocks : 0)) return false;
    const bool may_have_wide_rows = header.recipe == 1 && header.activations == 2;
    const std::int64_t rows = may_have_wide_rows ? header.groups * header.n : 0;
    if (header.wide_rows < 0 || header.wide_rows > rows) return false;
    return kinds && header.grouped <= 1 && (header.grouped == 1 || header.groups == 1);
}

PackedHeader read_header(const void* data) {
    PackedHeader header;
    std::memcpy(&header, data, sizeof header);
    if (header.magic != formats::packed_magic) {
        refuse("bytes without the header of packed weights", "bytes written by pack_weights");
    }
    return header;
}

/// The sections end at the header's end, and have the lengths that the sizes need.
bool has_sound_sections(const PackedHeader& header, const formats::PackedSections& sections) {
    const bool nvfp4 = header.recipe == 2;
    const std::int64_t scales = header.tensor_scales;
    if (nvfp4 ? scales != 1 && scales != header.groups : scales != 0) return false;
    const bool has_kept = !nvfp4 || header.bytes != header.kept_at;
    return header.kept_at == sections.kept_at() && header.bytes >= header.kept_at + (has_kept ? 8 : 0);
}

}  // namespace

std::string_view name(PackedFor activations) { return activations == PackedFor::fp8 ? "fp8" : "bf16"; }

PackedFor packed_for(const OperandRecipe& activations) {
    const bool mxfp4 = activations.values == Format::e2m1 && activations.granularity == Granularity::block_1x32;
    return is_fp8(activations.values) || mxfp4 ? PackedFor::fp8 : PackedFor::bf16;
}

PackedWeights packed_weights(const void* header_bytes, void* data, std::int64_t bytes, DeviceId device) {
    if (header_bytes == nullptr || bytes < packed_header_bytes) {
        refuse(header_bytes == nullptr ? "a null pointer" : std::to_string(bytes) + " bytes",
               "at least the header's " + std::to_string(packed_header_bytes) + " bytes");
    }
    const PackedHeader header = read_header(header_bytes);
    PackedWeights packed{.data = data, .bytes = bytes, .device = device, .version = header.version};
    if (header.version < 1) refuse("layout version " + std::to_string(header.version), "a positive version");
    if (header.version != packed_version) return packed;
    if (!has_sound_sizes(header) || !has_known_words(header))
        refuse("a damaged header", "bytes written by pack_weights");
    packed.recipe = header.recipe == 1 ? OperandRecipe{Format::e2m1, Granularity::block_1x32, Format::ue8m0}
                                       : OperandRecipe{Format::e2m1, Granularity::block_1x16, Format::ue4m3};
    packed.activations = header.activations == 1 ? PackedFor::fp8 : PackedFor::bf16;
    packed.grouped = header.grouped == 1;
    packed.groups = header.groups;
    packed.n = header.n;
    packed.k = header.k;
    packed.tensor_scales = header.tensor_scales;
    packed.internal =
        formats::PackedInternal{.windows = static_cast<int>(header.windows), .wide_row = header.wide_rows - 1}.words();
    if (!has_sound_sections(header, formats::packed_sections(packed))) {
        refuse("a damaged header", "bytes written by pack_weights");
    }
    if (bytes < header.bytes) {
        refuse(std::to_string(bytes) + " bytes", std::to_string(header.bytes) + ", the size in the header",
               "the copy is incomplete: copy all bytes");
    }
    return packed;
}

PackedWeights packed_weights(const void* data, std::int64_t bytes) {
    return packed_weights(data, const_cast<void*>(data), bytes, {});
}

OwnedPackedWeights::OwnedPackedWeights(std::int64_t bytes) {
    constexpr std::int64_t alignment = formats::packed_alignment;
    memory_ = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes + alignment));
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    packed.data = memory_.get() + (alignment - static_cast<std::int64_t>(address % alignment)) % alignment;
    packed.bytes = bytes;
}

formats::PackedHeader formats::header_of(const PackedSections& sections, const OperandRecipe& recipe,
                                         PackedFor activations, bool grouped, std::int64_t bytes) {
    return {.magic = packed_magic,
            .version = packed_version,
            .recipe = static_cast<std::uint8_t>(recipe.granularity == Granularity::block_1x32 ? 1 : 2),
            .activations = static_cast<std::uint8_t>(activations == PackedFor::fp8 ? 1 : 2),
            .grouped = static_cast<std::uint8_t>(grouped ? 1 : 0),
            .groups = sections.groups,
            .n = sections.n,
            .k = sections.k,
            .tensor_scales = sections.tensor_scales,
            .windows = sections.windows,
            .kept_at = sections.kept_at(),
            .bytes = bytes,
            .wide_rows = sections.wide_row + 1};
}

formats::PackedHeader formats::checked_header(const PackedWeights& packed) {
    if (packed.device.kind != DeviceId::Kind::cpu) {
        refuse("memory of cuda:" + std::to_string(packed.device.index), "host memory", "copy it to the host");
    }
    const PackedWeights again = packed_weights(packed.data, packed.bytes);
    if (again.version != packed_version) {
        refuse("layout version " + std::to_string(again.version), std::to_string(packed_version),
               "pack the weights again");
    }
    return read_header(packed.data);
}

}  // namespace tilewright
