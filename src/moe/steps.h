// The steps of a layer around its two products. Each is described once; the functions here run it on the CPU, and
// launch/moe.h lowers it to a kernel that returns the same bits.
//
// In a matrix of rows, "masked" means [E, room, columns], otherwise it is [rows, columns]. Steps of a layer are checked
// before they run (api/moe_check.h).
#pragma once

#include <tilewright/moe.h>

#include <cstdint>

namespace tilewright::moe {

/// The memory of the ranks of a group. Their pieces are alike: an address in the piece of this rank plus a shift is the
/// same place in another rank's. Row i of a matrix of all ranks is row i % room of rank i / room.
struct RankMemory {
    int rank = 0;
    int size = 0;                          // 0: everything is in this rank's memory
    const std::int64_t* shifts = nullptr;  // in bytes, one per rank
    std::int64_t room = 0;                 // rows of each rank

    bool given() const { return size > 0; }
};

/// Which rows of a matrix exist. By default all do.
struct ExistingRows {
    Tensor ends{};               // int32 or int64 [E], as in `Grouping::m_grouped_offsets`.
    std::int64_t alignment = 1;  // A group begins at a multiple of it.
    bool sorted = false;         // `route` wrote the ends: they ascend and are in range.
    Tensor counts{};             // Masked: int32 or int64 [E], the rows of each group that exist. Clamped to 0 .. room.
};

struct RouteStep {
    Routing routing{};
    std::int64_t first = 0;    // without a map: the number of local expert 0
    std::int64_t experts = 0;  // local
    Routed out{};
    /// The tokens are those of all ranks. Each rank gets the rows of its tokens: int32 [room, choices] in its memory,
    /// at this rank's address. Choices that are not here are not written.
    RankMemory owners{};
    Tensor owner_rows{};
};

/// Rows for the first product: x or its codes, by row.
struct PermuteStep {
    Tensor x{};           // real: [T, hidden] with `places`, otherwise rows
    Operand quantized{};  // or values with scales of the same rows
    /// int32 [T, choices]: the row of `out` that each choice of a token is copied to; -1: none. Not given: row i of x
    /// is row i of `out`, if it exists.
    Tensor places{};
    ExistingRows existing{};  // of x; without places, they are those of `out`
    /// Rows of x, or of `quantized`, are those of all ranks, [ranks * room, hidden]. The addresses are those of this
    /// rank's rows.
    RankMemory ranks{};
    /// A number per copy of x, which multiplies it ahead of quantization. With places: real [T, k], k <= choices, and 1
    /// for further choices. Without: f32 [rows] or [E, room]. Not given: 1.
    Tensor factors{};
    /// bf16, f16 or f32 values without scales, or values with scales that are quantized as `quantize` does. With
    /// `quantized`: values and scales of its formats.
    Operand out{};
    bool round_up = false;
    bool clears = false;  // rows that do not exist are written as zeros; without places, for `out` without scales
};

/// h for the second product.
struct ActivateStep {
    Tensor gate_up{};  // bf16 rows of 2 inner columns; relu_squared: inner
    GatedUnit unit{};
    ExistingRows existing{};
    Tensor factors{};  // f32 [rows] or [E, room], multiplies h ahead of quantization; may be not given
    Operand out{};     // as in PermuteStep
    bool round_up = false;
    bool clears = false;  // as in PermuteStep
};

/// The sum of the rows of each token.
struct CombineStep {
    Tensor y{};               // bf16 rows, or f32 sums of ranks
    RankMemory y_ranks{};     // with places: rows of y are those of all ranks
    Tensor places{};          // int32 [T, choices], or not given: row t
    ExistingRows existing{};  // without places
    Tensor weights{};         // as the factors of PermuteStep
    Tensor addend{};          // real, the shape of out. May be out's memory. Not given: 0
    Tensor out{};             // bf16, f16 or f32: [T, hidden], or as y
    RankMemory out_ranks{};   // with places: rows of out are those of all ranks
    bool skips = false;       // with places: tokens without a row are not written
};

/// Training: the gradient of gate_up.
struct UnitGradientStep {
    Tensor gate_up{};  // as in ActivateStep
    GatedUnit unit{};
    Tensor gradient{};  // of h: bf16 rows of inner columns
    ExistingRows existing{};
    Tensor out{};  // f32, the shape of gate_up
};

/// Training: the gradient of the weight of each choice, the dot product of h and the gradient of h.
struct WeightGradientStep {
    Tensor gate_up{};  // as in ActivateStep
    GatedUnit unit{};
    Tensor gradient{};  // of h: bf16 [rows, inner]
    Tensor places{};    // int32 [T, choices]; -1: no row, and a gradient of 0
    Tensor out{};       // f32 [T, k], k <= choices
};

void run_on_cpu(const RouteStep& step);
void run_on_cpu(const PermuteStep& step, const ConversionOptions& how);
void run_on_cpu(const ActivateStep& step, const ConversionOptions& how);
void run_on_cpu(const CombineStep& step, const ConversionOptions& how);
void run_on_cpu(const UnitGradientStep& step, const ConversionOptions& how);
void run_on_cpu(const WeightGradientStep& step, const ConversionOptions& how);

}  // namespace tilewright::moe
