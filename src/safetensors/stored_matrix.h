// The matrices of a checkpoint, by the names and shapes that the people who published it gave their tensors.
//
//     scheme               values                                 scales                            tensor scale
//     tilewright           X                                      X.scales                          X.tensor_scale
//     gpt-oss              P_blocks U8 [g, n, k / 32, 16]         P_scales U8 [g, n, k / 32]
//     deepseek             P.weight F8_E4M3 [n, k]                P.weight_scale_inv F32 128x128
//     deepseek-v4          P.weight I8 [n, k / 2], F8_E4M3        P.scale F8_E8M0 1x32, 128x128
//     compressed-tensors   P.weight_packed U8 [n, k / 2]          P.weight_scale F8_E4M3 1x16 P.weight_global_scale,
//                                                                                                   its reciprocal
//     modelopt             P.weight U8 [n, k / 2]                 P.weight_scale F8_E4M3 1x16       P.weight_scale_2
//     unquantised          X BF16, F16 or F32 [n, k], [g, n, k]
//     packed               X.packed U8
// Bytes of e2m1 hold two codes, the even one in the low nibble. The names are those of the checkpoints of openai
// (gpt-oss) and deepseek-ai (DeepSeek-V3, V4), and of the quantisers compressed-tensors (vllm-project) and
// Model-Optimizer (NVIDIA).
#pragma once

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <string>
#include <vector>

#include "safetensors/checkpoint.h"

namespace tilewright::safetensors {

struct StoredMatrix {
    std::string name{};    // of what is written for it: "model.layers.0.mlp.experts.down_proj"
    std::string scheme{};  // as above
    OperandRecipe recipe{};
    bool grouped = false;
    std::int64_t groups = 1;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const Checkpoint::Tensor* values = nullptr;
    const Checkpoint::Tensor* scales = nullptr;
    const Checkpoint::Tensor* tensor_scale = nullptr;
    bool divides = false;  // the tensor scale is a divisor
    bool packed = false;   // `values` are packed weights
    /// The groups of a stack, each [n, k]; the tensors above are those of its first.
    std::vector<StoredMatrix> experts{};

    /// All that are there, of each expert.
    std::vector<const Checkpoint::Tensor*> tensors() const;
    std::uint64_t bytes() const;
    Dims shape() const { return grouped ? Dims{groups, n, k} : Dims{n, k}; }
};

/// Named as a quantised matrix, but without its scales, with scales of another shape or dtype, or packed by another
/// version of the library.
struct UnreadableMatrix {
    std::string name{};
    Finding finding{};
};

/// `matrices`: whose scales are there, of the right shape; unquantised ones too. `others`: all tensors that belong to
/// none of them, by name, those of unreadable ones too.
struct StoredMatrices {
    std::vector<StoredMatrix> matrices{};
    std::vector<UnreadableMatrix> unreadable{};
    std::vector<std::string> others{};
};
StoredMatrices stored_matrices(const Checkpoint& checkpoint);

/// Rows `row` .. `row + rows` of one group as an operand [rows, k] (unquantised: values alone). Rows start at a
/// multiple of 128. Not for packed ones.
class LoadedRows {
public:
    LoadedRows(const Checkpoint& checkpoint, const StoredMatrix& matrix, std::int64_t group, std::int64_t row,
               std::int64_t rows);
    const Operand& operand() const { return operand_; }

private:
    std::vector<std::byte> values_;
    std::vector<std::byte> scales_;
    float tensor_scale_ = 1;
    Operand operand_;
};

/// All of a quantised matrix, [n, k] or [groups, n, k], in memory.
OwnedOperand load_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix);

}  // namespace tilewright::safetensors
