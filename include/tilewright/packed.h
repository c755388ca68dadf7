// Packed weights: MXFP4 and NVFP4 weights in the order in which a tensor core's registers take them. Pack them once,
// offline: on a GPU, a call packs unpacked weights each time. One case is cheaper: with fp8 activations, some MXFP4
// weights are read unpacked, and a call prepares only their scales.
#pragma once

#include <tilewright/error.h>
#include <tilewright/recipe.h>
#include <tilewright/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace tilewright {

struct Operand;
struct ConversionOptions;
class OwnedOperand;

/// The layout version that this library writes and reads (src/formats/packed_layout.h describes the layout).
inline constexpr int packed_version = 3;

/// Bytes of the header that packed weights begin with.
inline constexpr std::int64_t packed_header_bytes = 128;

/// The activations that the weights are packed for. It decides the order of k in registers and how scales are stored.
enum class PackedFor : std::uint8_t {
    fp8,   // fp8 or MXFP4 activations, with any scales
    bf16,  // bf16, f16, f32 or NVFP4 activations; NVFP4 weights have this order whatever they are packed for
};
std::string_view name(PackedFor activations);

/// A view of packed weights and the fields of their header: logical weights [n, k] or, grouped, [groups, n, k]. Owns
/// nothing. `data` points to opaque bytes that begin with the header; in GPU memory it is aligned to 128 bytes.
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
    /// Data of the header for the library's kernels. `packed_weights` and `pack_weights` set it.
    std::array<std::int64_t, 2> internal{};

    constexpr bool given() const { return version != 0; }
    Dims shape() const { return grouped ? Dims{groups, n, k} : Dims{n, k}; }
};

/// The `PackedFor` of weights that are multiplied with these activations.
PackedFor packed_for(const OperandRecipe& activations);

/// Reads a header and returns the view that it describes. Throws Error for bytes that are not packed weights. A header
/// of another layout version is read only up to its version, and `validate` refuses it.
///
/// @param header the header: `packed_header_bytes` of host memory.
/// @param data all packed weights, header included, in memory of `device`.
/// @param bytes the length of `data`.
/// @param device where `data` is.
PackedWeights packed_weights(const void* header, void* data, std::int64_t bytes, DeviceId device = {});
/// The same for packed weights in host memory.
PackedWeights packed_weights(const void* data, std::int64_t bytes);

/// The number of bytes that `weights` take when packed. Throws Error with every finding.
///
/// - `weights` are MXFP4 or NVFP4, [n, k] or [groups, n, k], with stride 1 along k, in host or GPU memory.
/// - The length follows from the scales, so the call waits for the GPU if they are in its memory.
std::int64_t packed_bytes(const Operand& weights, PackedFor activations);

/// Packs into `out`, memory of `bytes` bytes (see `packed_bytes`) on the device of the weights, and returns a view of
/// it. The CPU and a GPU write the same bytes. On a GPU `out` is aligned to 128 bytes; the kernels run in `how.stream`,
/// and `out` is written when this returns. Throws Error with every finding.
PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes,
                           const ConversionOptions& how);

/// Packed weights that own their host memory, which is aligned to 128 bytes. For weights in host memory.
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

/// The inverse of `pack_weights`, bit for bit: values, scales (also of blocks of zeros and NaN) and tensor scale. `out`
/// is row-major without gaps and has the shapes of `OwnedOperand`. Its tensor scale is [1] or [groups], as the packed
/// weights have it; [groups] also accepts weights with one tensor scale, which is then repeated. Throws Error with
/// every finding.
void unpack_weights(const PackedWeights& packed, const Operand& out, const ConversionOptions& how);
OwnedOperand unpack_weights(const PackedWeights& packed);

}  // namespace tilewright
