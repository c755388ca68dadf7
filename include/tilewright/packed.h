// Packed weights: MXFP4 and NVFP4 weights in the order in which a tensor core's registers take them, packed once,
// offline. On a GPU weights that are not packed are at each call, but for MXFP4 codes that it takes as they are next to
// fp8: there their scales alone are prepared.
#pragma once

#include <tilewright/error.h>
#include <tilewright/recipe.h>
#include <tilewright/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace tilewright {

struct Operand;
struct ConversionOptions;
class OwnedOperand;

/// The layout that this version writes and reads. src/formats/packed_layout.h describes it.
inline constexpr int packed_version = 3;

/// Bytes of the header with which packed weights begin.
inline constexpr std::int64_t packed_header_bytes = 128;

/// What the weights are multiplied with: the order of k in registers, and how scales are stored, differ.
enum class PackedFor : std::uint8_t {
    fp8,   // fp8 or MXFP4 activations, with any scales
    bf16,  // bf16, f16, f32 or NVFP4 activations; the one order that NVFP4 weights have, whatever they are packed for
};
std::string_view name(PackedFor activations);

/// An opaque run of bytes, header first, and what the header says: logical weights [n, k] or, grouped, [groups, n, k].
/// Owns nothing. In memory of a GPU `data` is aligned to 128 bytes.
struct PackedWeights {
    void* data = nullptr;
    std::int64_t bytes = 0;
    DeviceId device{};
    int version = 0;  // 0: not given
    OperandRecipe recipe{};
    PackedFor activations = PackedFor::fp8;
    bool grouped = false;
    std::int64_t groups = 1;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t tensor_scales = 0;  // NVFP4: 1 or groups
    /// For fp8: 0 where the scales of no row differ by more than 2^11, else the most windows of scales that 128 of k of
    /// a row have, 1 .. 4 (docs/numerics.md).
    int windows = 0;
    /// MXFP4 for bf16: the first row of all groups whose scales differ by more than 2^120, for which a GPU has other
    /// kernels; -1: there is none.
    std::int64_t wide_row = -1;

    constexpr bool given() const { return version != 0; }
    Dims shape() const { return grouped ? Dims{groups, n, k} : Dims{n, k}; }
};

/// What weights are packed for where the other side of the product is this one.
PackedFor packed_for(const OperandRecipe& activations);

/// Reads the header from host memory; `data` has all of it, header included, on `device`. A header of another layout
/// version is read as far as its version, and refused by `validate`. Throws Error for bytes that are no packed weights.
PackedWeights packed_weights(const void* header, void* data, std::int64_t bytes, DeviceId device = {});
/// The same for host memory.
PackedWeights packed_weights(const void* data, std::int64_t bytes);

/// How many bytes `weights` take when packed. They are MXFP4 or NVFP4, [n, k] or [groups, n, k] of stride 1 along k, in
/// host memory or in that of a GPU, which is waited for: the length follows from the scales. Throws Error with every
/// finding, here and below.
std::int64_t packed_bytes(const Operand& weights, PackedFor activations);

/// Packs into `out`, `packed_bytes` of memory where the weights are; on a GPU aligned to 128 bytes, and written when
/// this returns, by kernels in `how.stream`. The same weights give the same bytes, on the CPU and on a GPU.
PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes,
                           const ConversionOptions& how);

/// Packed weights that own their memory, aligned to 128 bytes: of weights in host memory.
class OwnedPackedWeights {
public:
    OwnedPackedWeights() = default;
    explicit OwnedPackedWeights(std::int64_t bytes);

    operator const PackedWeights&() const& { return packed; }
    /// A copy of the view would outlive a temporary's memory: keep the OwnedPackedWeights in a variable.
    operator PackedWeights() const&& = delete;

    PackedWeights packed{};

private:
    std::shared_ptr<std::byte[]> memory_;
};
OwnedPackedWeights pack_weights(const Operand& weights, PackedFor activations);
OwnedPackedWeights pack_weights(const Operand& weights, PackedFor activations, const ConversionOptions& how);

/// The inverse, bit for bit: values, scales (those of blocks of zeros and NaN too) and tensor scale. `out` is row-major
/// without gaps, of the shapes that `OwnedOperand` has; its tensor scale is [1] or [groups] as the packed weights had
/// it, or [groups] with the one number of all.
void unpack_weights(const PackedWeights& packed, const Operand& out, const ConversionOptions& how);
OwnedOperand unpack_weights(const PackedWeights& packed);

}  // namespace tilewright
