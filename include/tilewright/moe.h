// A mixture-of-experts layer in one call:
//
//     rows = the tokens, each once for each expert that `routing` names for it
//
//     gate_up = bf16(rows W_up^T + up_bias), per expert
//
//     h = unit(gate_up)
//
//     y = bf16(h W_down^T + down_bias), per expert
//
//     out[t] = addend[t] + sum over the choices c of weight[t, c] * y[row of (t, c)]
//
// Both products are those of `Problem`. docs/numerics.md has every rounding ("Layers of experts").
#pragma once

#include <tilewright/quantize_tokens.h>
#include <tilewright/run.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tilewright {

/// The experts of each token. E is the number of local experts, the first dimension of the weights.
struct Routing {
    /// int32 or int64 [T, k]: the experts that a token chose. A number that names no local expert is skipped, whatever
    /// it is: -1, or an expert of another GPU.
    Tensor experts{};
    /// f32, bf16 or f16 [T, k]. Not given: 1.
    Tensor weights{};
    /// int32 [global experts]: the local place of each global number, -1 for experts that are elsewhere. Not given:
    /// numbers are local.
    Tensor map{};
    /// The last `shared` of the local experts take every token, with weight 1, after its choices.
    int shared = 0;
};

/// The function between the two products. With x the gate and u the up of a feature:
///
/// - swiglu: as in tilewright/quantize_tokens.h, with alpha, beta and limit of `swiglu`.
/// - situ: b tanh(x / b) * sigmoid(x) * v. Here v is c tanh(u / c), or u if c is infinite. Kimi-K3: b 4, c 25.
/// - geglu: x sigmoid(z) u, where z is 1.5957691 x + 0.0713548 x^3: the tanh form of GELU.
/// - relu_squared: max(x, 0)^2. There is no up: W_up is [E, inner, hidden].
///
/// SiTU follows vllm-project/vllm-ascend#14343, GeGLU is torch's `gelu(approximate="tanh")` times u.
struct GatedUnit {
    enum class Kind : std::uint8_t { swiglu, situ, geglu, relu_squared };
    Kind kind = Kind::swiglu;
    SwiGlu swiglu{};       // `interleaved` counts for every kind with a gate
    float gate_bound = 4;  // situ: b
    float up_bound = 25;   // situ: c
};
inline constexpr std::array all_gated_units{GatedUnit::Kind::swiglu, GatedUnit::Kind::situ, GatedUnit::Kind::geglu,
                                            GatedUnit::Kind::relu_squared};
std::string_view name(GatedUnit::Kind kind);

/// Where a row is multiplied by its routing weight.
enum class WeightsAt : std::uint8_t {
    combine,     // y, in the sum
    activation,  // h, ahead of its quantization
    input,       // x, ahead of its quantization (Llama 4)
};
inline constexpr std::array all_weights_at{WeightsAt::combine, WeightsAt::activation, WeightsAt::input};
std::string_view name(WeightsAt place);

/// A layer, described. There are three forms of input:
///
/// | form   | x                      | groups                                        | out            |
/// | tokens | [T, hidden]            | none; `routing.experts` is given              | [T, hidden]    |
/// | rows   | [rows, hidden]         | m_grouped_offsets, m_grouped_aligned_offsets  | [rows, hidden] |
/// | masked | [E, room, hidden]      | m_grouped_masked                              | as x           |
///
/// In the last two forms rows of no group are neither read nor written, and `row_weights` are the weights.
struct Moe {
    /// f32, bf16 or f16. Rows are adjacent numbers.
    Tensor x{};
    /// In place of x: values and scales by `activations`, without packing.
    Operand quantized{};
    Routing routing{};
    Groups groups{};
    Tensor row_weights{};  // f32 [rows] or [E, room]; may be not given
    /// [E, 2 inner, hidden], gate first or (`unit.swiglu.interleaved`) alternating; relu_squared: [E, inner, hidden].
    Operand up{};
    Operand down{};      // [E, hidden, inner]
    Tensor up_bias{};    // f32 or bf16 [E, 2 inner]; relu_squared: [E, inner]
    Tensor down_bias{};  // f32 or bf16 [E, hidden]
    /// How x and h are quantized. With both weights it is a recipe of docs/numerics.md. bf16, f16 and f32 are not
    /// quantized.
    OperandRecipe activations{Format::e4m3, Granularity::block_1x128};
    bool round_up = false;  // as in `QuantizeOptions`
    GatedUnit unit{};
    WeightsAt weights_at = WeightsAt::combine;
    Tensor
        addend{};  // f32, bf16 or f16, the shape of out: a shared expert's result or a residual. May be out's memory.
    Tensor out{};  // bf16, f16 or f32. Rows are adjacent numbers.
    Accumulation accumulation = Accumulation::promoted;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;
    int sm_limit = 0;  // of the products
    /// Typical rows per expert, a hint for the planner; 0: unknown. For masked rows, and where many choices name
    /// experts that are elsewhere. With a map, unknown means that these are chosen as often as those here.
    std::int64_t expected_m = 0;
    /// Tokens that are computed at a time; it bounds the workspace. Without `Reproducibility::invariant` the bits of
    /// the products may depend on it. Scales of a whole tensor are always those of a chunk.
    std::int64_t chunk = 16384;
};

/// As the functions of the same names do for a `Problem`.
std::vector<Finding> validate(const Moe& layer, Backend backend = Backend::automatic, Check check = Check::call);
std::int64_t workspace_bytes(const Moe& layer);
/// Runs the layer on the device of its tensors. No size is read on the host: a CUDA graph of the call can be replayed
/// with other routing. Throws Error with every finding.
void run(const Moe& layer, const RunOptions& how = {});

/// One kernel of a layer on a GPU; over ranks, a step of a round (tilewright/expert_group.h).
struct MoeStep {
    std::string name{};           // "route", "quantize", "permute", "up", "activate", "down", "combine"
    std::string what{};           // a product: its plan; another kernel: what it does
    double seconds = 0;           // predicted
    std::int64_t bytes = 0;       // through HBM
    std::int64_t link_bytes = 0;  // from other ranks
    /// Seconds of it that wait for other ranks: barriers, collectives, and bytes from other ranks where they take
    /// longer than those through HBM. No other work hides them.
    double exposed_seconds = 0;
    int launches = 1;  // kernels and collectives; 0: the kernel of the next step does it too
};

/// The kernels of a layer in their order, of one chunk, and their predicted times. Groups are expected to be of equal
/// size. A layer in memory of the host is explained as if a GPU had it. Throws Error with every finding.
std::vector<MoeStep> explain(const Moe& layer, const DeviceDescription& device = h200());

/// What `route` writes; each may be not given. R is T * (k + shared).
struct Routed {
    /// int32 [T, k + shared]: the row of each choice, -1 where it is skipped.
    Tensor rows{};
    /// int32 [R]: the choice of each row, t * (k + shared) + c. Rows of no expert are not written.
    Tensor sources{};
    /// int32 [E]: the row at which each expert ends.
    Tensor ends{};
    /// f32 [R]: the weight of each row.
    Tensor weights{};
};

/// Sorts the choices of all tokens by expert. The choices of an expert keep their order: by token, then by choice.
/// Throws Error with every finding.
void route(const Routing& routing, std::int64_t experts, const Routed& out, const ConversionOptions& how = {});

/// out[t] = addend[t] + sum over the choices c of  weight[t, c] * y[rows[t, c]], as the last step of a layer.
struct Combination {
    Tensor y{};        // bf16 [R, hidden]
    Tensor rows{};     // int32 [T, choices], as `route` writes them; -1: none
    Tensor weights{};  // f32, bf16 or f16 [T, k], where k <= choices. Not given, and for further choices: 1
    Tensor addend{};   // f32, bf16 or f16 [T, hidden]; may be out's memory. Not given: 0
    Tensor out{};      // bf16, f16 or f32 [T, hidden]
};

/// Sums the rows of each token. Throws Error with every finding.
void combine(const Combination& sum, const ConversionOptions& how = {});

/// Training: h of rows, the unit's result. f32 and not rounded, because `quantize_tokens` reads it.
struct ActivatedRows {
    Tensor gate_up{};  // bf16 [R, 2 inner]; relu_squared: [R, inner]
    GatedUnit unit{};
    /// int32 [E], as `route` writes them. Rows from the last end on are neither read nor written. Not given: R.
    Tensor ends{};
    Tensor out{};  // f32 [R, inner]
};

/// Computes h. Throws Error with every finding.
void activate(const ActivatedRows& call, const ConversionOptions& how = {});

/// Training: the gradient of gate_up, from that of h. src/formats/gated_unit.h has the order of operations.
struct UnitGradient {
    Tensor gate_up{};  // as in `ActivatedRows`
    GatedUnit unit{};
    Tensor gradient{};  // bf16 [R, inner]
    Tensor ends{};      // as in `ActivatedRows`
    Tensor out{};       // f32, the shape of gate_up
};

/// Computes the gradient. Throws Error with every finding.
void unit_gradient(const UnitGradient& call, const ConversionOptions& how = {});

/// Training: the gradient of the weight of each choice. It is the dot product of h, the unit's result of a row, and the
/// gradient of h. Both are those without the weight.
struct WeightGradient {
    Tensor gate_up{};  // bf16 [R, 2 inner]; relu_squared: [R, inner]
    GatedUnit unit{};
    Tensor gradient{};  // bf16 [R, inner]
    Tensor rows{};      // int32 [T, choices], as `route` writes them; -1: none, and a gradient of 0
    Tensor out{};       // f32 [T, k], where k <= choices
};

/// Computes the gradients in f32, in an order that depends on inner only. Throws Error with every finding.
void weight_gradient(const WeightGradient& call, const ConversionOptions& how = {});

}  // namespace tilewright
