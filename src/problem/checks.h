// The parts of `validate`. Each part adds its own findings and does not depend on the others. It skips checks that a
// mistake of another part makes impossible.
#pragma once

#include "problem/axes.h"
#include "problem/findings.h"

#include <array>
#include <optional>

namespace tilewright::validation {

/// Enumerators that exist. Without known layout and grouping the shapes mean nothing.
bool check_words(const Problem& problem, Findings& findings);

/// Every tensor by itself: rank, sizes, strides, packing, extent; D's elements do not overlap.
void check_tensors(const Problem& problem, Findings& findings);

/// Value, scale, output and index formats; granularities; the pair of recipes.
void check_formats(const Problem& problem, Findings& findings);

/// Sizes that the tensors agree on, as far as they are known, each with the tensor that it comes from.
struct Sizes {
    struct Size {
        std::optional<std::int64_t> value;
        std::string_view source;
    };
    std::array<Size, 4> by_axis{};
    const Size& operator[](Axis axis) const { return by_axis[static_cast<std::size_t>(axis)]; }
    Size& operator[](Axis axis) { return by_axis[static_cast<std::size_t>(axis)]; }
};
Sizes sizes_of(const Problem& problem);

/// a.values, b.values, d, c, bias and groups.sizes: there or not, ranks, and sizes that must agree.
void check_shapes(const Problem& problem, const Sizes& sizes, Findings& findings);

/// The numbers in groups.sizes, which are read where they are in host memory. Needs a call without other findings.
void check_group_sizes(const Problem& problem, const Sizes& sizes, Findings& findings);

/// Packed weights of b by themselves and with the rest of the call.
void check_packed(const Problem& problem, Check check, Findings& findings);

/// The call as it would be with ordinary weights in the memory of the packed ones, which is larger: all other themes
/// judge this one. The call itself where b is not packed.
Problem with_ordinary_weights(const Problem& problem);

/// Packed in another version, or without memory where a call has some: there is nothing more to judge.
bool packed_is_unknown(const Problem& problem, Check check);

/// Scales and tensor scales: there or not, and the shapes that problem.h documents.
void check_scales(const Problem& problem, const Sizes& sizes, Findings& findings);

/// Alignment, accumulation, arithmetic, limits and hints.
void check_options(const Problem& problem, Findings& findings);

/// Null, misaligned and unreachable pointers; memory that D shares with others.
void check_memory(const Problem& problem, Backend backend, Findings& findings);

/// A backend that exists.
void check_backend(Backend backend, Findings& findings);

/// The Hopper backend's additional requirements. The call has ordinary weights in place of packed ones, which are in
/// `packed`.
void check_hopper(const Problem& problem, const PackedWeights& packed, Check check, Findings& findings);

/// Addresses of A and B on the Hopper backend.
void check_hopper_addresses(const Problem& problem, const PackedWeights& packed, Findings& findings);

}  // namespace tilewright::validation
