// The matrices of a checkpoint, by the names and shapes that the people who published it gave their tensors.
//
//     scheme              | values                            | scales                        | tensor scale
//     tilewright          | X                                 | X.scales                      | X.tensor_scale
//     gpt-oss             | P_blocks U8 [g, n, k / 32, 16]    | P_scales U8 [g, n, k / 32]    |
//     deepseek            | X fp8 [n, k]                      | X_scale_inv in blocks         |
//     deepseek-v4         | P.weight FP4 [n, k / 2] or fp8    | P.scale F8_E8M0 1x32, 128x128 |
//     compressed-tensors  | X_packed FP4 [n, k / 2]           | X_scale 1x32, or 1x16 with    | X_global_scale,
//                         |                                   |                               | its reciprocal
//     modelopt            | X FP4 [n, k / 2]                  | X_scale F8_E4M3 1x16          | X_scale_2
//     that of config.json | X fp8 [n, k], FP4 [n, k / 2]      | X_scale                       |
//     mistral             | P.weight fp8                      | P.qscale_weight               |
//     comfyui             | P.weight fp8                      | P.scale_weight                |
//     quark               | P.weight fp8, FP4                 | P.weight_quantizer.scale      |
//     tilewright          | X FP4, fnuz of other writers      | X.scales                      | X.tensor_scale
//     unquantised         | X BF16, F16 or F32 [n, k], [g, n, k] |                            |
//     packed              | X.packed U8                       |                               |
//
// - X is P.weight, or for fused experts a parameter such as P.gate_up_proj, whose scales are also X_weight_scale and
//   X_weight_scale_2.
// - Experts are [g, n, k], or [g, k, n] where shapes or config.json require it.
// - fp8 is e4m3, e5m2 or one of their fnuz kinds. It is scaled in blocks of any size, by row or as a whole, by f32,
//   bf16, f16 or powers of two.
// - FP4 is U8, I8 or F4: two codes per byte, the even one in the low nibble.
//
// The names are those of the checkpoints of openai (gpt-oss), deepseek-ai (DeepSeek-V3, V4) and mistralai. Others are
// those of the quantizers compressed-tensors (vllm-project), Model-Optimizer (NVIDIA) and Quark (AMD).
#pragma once

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <string>
#include <vector>

#include "safetensors/checkpoint.h"
#include "safetensors/scale_blocks.h"

namespace tilewright::safetensors {

struct StoredMatrix {
    std::string name{};    // The name that is written for it: "model.layers.0.mlp.experts.down_proj".
    std::string scheme{};  // As above.
    /// The recipe that holds the numbers exactly and that rows are read as. f32 without scales if no other recipe does.
    OperandRecipe recipe{};
    bool grouped = false;
    std::int64_t groups = 1;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const Checkpoint::Tensor* values = nullptr;
    const Checkpoint::Tensor* scales = nullptr;
    const Checkpoint::Tensor* tensor_scale = nullptr;
    StoredScales stored_scales{};
    bool transposed = false;  // The file has [k, n].
    bool divides = false;     // The tensor scale is a divisor.
    bool packed = false;      // `values` are packed weights.
    /// The groups of a stack, each [n, k]; the tensors above belong to the first.
    std::vector<StoredMatrix> experts{};
    /// Others of the scheme, which are not read: scales of activations and the like.
    std::vector<const Checkpoint::Tensor*> companions{};

    /// All existing tensors, of each expert.
    std::vector<const Checkpoint::Tensor*> tensors() const;
    std::uint64_t bytes() const;
    Dims shape() const { return grouped ? Dims{groups, n, k} : Dims{n, k}; }
    StoredShape stored_shape() const;
    /// The format in the file's words: "128x128", "e4m3fnuz 128x128", "e4m3 64x64, [k, n]".
    std::string format() const;
};

/// Looks like a quantized matrix but cannot be read. Its scales are missing or have another shape or dtype, it has
/// integers, or another version of the library packed it.
struct UnreadableMatrix {
    std::string name{};
    Finding finding{};
    std::vector<const Checkpoint::Tensor*> tensors{};  // that belong to it
};

/// `matrices`: complete matrices with scales of the right shape, and unquantized ones. `others`: all tensors that
/// belong to none of these, by name, tensors of unreadable matrices included.
struct StoredMatrices {
    std::vector<StoredMatrix> matrices{};
    std::vector<UnreadableMatrix> unreadable{};
    std::vector<std::string> others{};
};
StoredMatrices stored_matrices(const Checkpoint& checkpoint);

/// Rows `row` .. `row + rows` of one group as an operand [rows, k] (unquantized: only values). Rows start at a multiple
/// of
/// 128. Not for packed ones. If the recipe cannot hold a number of an fnuz format, the operand is f32 without scales.
///   Throws std::runtime_error for numbers that f32 cannot hold.
class LoadedRows {
public:
    LoadedRows(const Checkpoint& checkpoint, const StoredMatrix& matrix, std::int64_t group, std::int64_t row,
               std::int64_t rows);
    const Operand& operand() const { return operand_; }

private:
    std::vector<std::byte> values_;
    std::vector<std::byte> scales_;
    std::vector<float> numbers_;
    float tensor_scale_ = 1;
    Operand operand_;
};

/// All of a quantized matrix, [n, k] or [groups, n, k], in memory. Throws std::runtime_error where its recipe does not
/// hold all numbers (fnuz).
OwnedOperand load_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix);

}  // namespace tilewright::safetensors
