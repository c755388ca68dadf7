// A call, described: operands, output, layout, grouping, options. `validate` finds every mistake before anything runs.
//
//     D[m, n] = C[m, n] + alpha * sum over k of  a(m, k) * b(n, k)      or bias[n] in place of C[m, n]
//     a(m, k) = A[m, k] * scale of the block of (m, k), b(n, k) likewise
#pragma once

#include <tilewright/error.h>
#include <tilewright/packed.h>
#include <tilewright/recipe.h>
#include <tilewright/tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

/// Which way A and B are stored, as in BLAS for row-major matrices. Batched and grouped tensors put the group in front.
enum class Layout : std::uint8_t {
    nt,  // A [m, k], B [n, k]
    nn,  // A [m, k], B [k, n]
    tn,  // A [k, m], B [k, n]
    tt,  // A [k, m], B [n, k]
};
constexpr bool a_is_transposed(Layout layout) { return layout == Layout::tn || layout == Layout::tt; }
constexpr bool b_is_transposed(Layout layout) { return layout == Layout::nn || layout == Layout::tn; }

/// What the groups of a call are, and what `Groups::sizes` says.
enum class Grouping : std::uint8_t {
    dense,              // one product; no sizes
    batched,            // A [g, m, k], B [g, n, k], D [g, m, n]; no sizes
    m_grouped_indices,  // A [m, k], B [g, n, k], D [m, n]; sizes [m]: the group of each row, outside 0..g-1 = skip the
                        // row
    m_grouped_offsets,  // ... sizes [g]: the row at which group i ends; group i + 1 starts there
    m_grouped_aligned_offsets,  // ... sizes [g]: the same, but group i + 1 starts at the next multiple of `alignment`
    m_grouped_masked,           // A [g, max_m, k], D [g, max_m, n]; sizes [g]: valid rows of each group
    k_grouped,                  // A [m, sum k], B [n, sum k], D [g, m, n]; sizes [g]: the k at which group i ends
    k_grouped_aligned_offsets,  // ... sizes [g]: the same, but group i + 1 starts at the next multiple of `alignment`
    k_grouped_flat,  // ... sizes [g]: the k of each group. A's memory is [m, k of group 0], [m, k of group 1], ... one
                     // after another (B's likewise); its shape and strides are those of a gapless [m, sum k]
};
constexpr bool is_k_grouped(Grouping grouping) {
    return grouping == Grouping::k_grouped || grouping == Grouping::k_grouped_aligned_offsets ||
           grouping == Grouping::k_grouped_flat;
}

/// Sizes are int32 or int64, live where the operands live, and are clamped into the buffers, never trusted: on a GPU
/// they are not known when the call is made, and every backend gives the same result. `validate` with `Check::contents`
/// says what would be clamped. Rows that belong to no group are not written.
struct Groups {
    Grouping grouping = Grouping::dense;
    Tensor sizes{};
    std::int64_t alignment = 128;  // m_grouped_aligned_offsets and k_grouped_aligned_offsets
    /// m_grouped_indices only. Above 1 a promise, for which kernels are faster: of each block of so many rows (the
    /// first begins at row 0) all have the group of the first row, or none; those of none are computed with the others.
    /// A block with rows of another group is an Error: on the CPU of this call, before anything is written; on a GPU of
    /// a later call on the device, and tiles with such rows are left as they are.
    std::int64_t index_alignment = 1;
};

/// Values with their scales. Scales follow the logical operand, whatever the layout of the values, in any strides:
///   tensor   [1]            row   [rows]        1x128, 1x32, 1x16   [rows, ceil(k / block)]
///   128x128  [ceil(rows / 128), ceil(k / 128)]
/// with rows = m for a, n for b. An operand with a group dimension has the group in front ([g] for tensor, where [1]
/// is shared by all groups). k-grouped: tensor [1] or [g]; row [rows] or [g, rows]; blocks start anew in each group and
/// follow one another: [rows, sum over groups of ceil(k_g / block)]; more columns than that are allowed. `validate`,
/// which does not read the sizes, asks for ceil(sum k / block) columns; sizes that need more than there are lose the k
/// that the missing columns would scale, clamped like every other size. k_grouped_aligned_offsets: the alignment is a
/// multiple of the block, and scales are where they are without groups: [rows, ceil(sum k / block)].
/// NVFP4 (1x16) takes `tensor_scale`, f32, of the shape of a tensor granularity's scales: [1] or [g].
/// Packed weights (b only, layouts nt and tt) take the place of all of these.
struct Operand {
    Tensor values{};
    Granularity granularity = Granularity::none;
    Tensor scales{};
    Tensor tensor_scale{};
    PackedWeights packed{};
};

/// How fp8 products are summed (docs/numerics.md). bf16 operands have no promotion.
enum class Accumulation : std::uint8_t {
    promoted,    // at most 128 products in the tensor core's 14-bit sum, then fp32
    unpromoted,  // all of k in the tensor core; per tensor and per row scales only; biased by about -1.6e-5 * k
};

/// CPU only: which arithmetic computes the result.
enum class Arithmetic : std::uint8_t {
    fast,       // fp32, in whatever order is fastest
    bit_exact,  // bit for bit what a Hopper GPU returns
};

enum class Reproducibility : std::uint8_t {
    repeatable,  // the same call gives the same bits again
    invariant,   // an element's bits depend on its own row, column, scales and C only; on the CPU implies `bit_exact`
};

enum class Backend : std::uint8_t {
    automatic,  // hopper if d is on a CUDA device, cpu otherwise
    cpu,        // any recipe, layout and grouping; tensors in host memory
    hopper,     // a GPU of compute capability 9.0; all tensors on it
};

// Every member of each choice, in the order in which lists and messages name them.
inline constexpr std::array all_layouts{Layout::nt, Layout::nn, Layout::tn, Layout::tt};
inline constexpr std::array all_groupings{Grouping::dense,
                                          Grouping::batched,
                                          Grouping::m_grouped_indices,
                                          Grouping::m_grouped_offsets,
                                          Grouping::m_grouped_aligned_offsets,
                                          Grouping::m_grouped_masked,
                                          Grouping::k_grouped,
                                          Grouping::k_grouped_aligned_offsets,
                                          Grouping::k_grouped_flat};
inline constexpr std::array all_accumulations{Accumulation::promoted, Accumulation::unpromoted};
inline constexpr std::array all_arithmetics{Arithmetic::fast, Arithmetic::bit_exact};
inline constexpr std::array all_reproducibilities{Reproducibility::repeatable, Reproducibility::invariant};
inline constexpr std::array all_backends{Backend::automatic, Backend::cpu, Backend::hopper};

/// All that the host knows of a call.
struct Problem {
    Operand a{};  // activations
    Operand b{};  // weights
    Tensor d{};   // bf16, f16 or f32; shares no memory with the inputs, and has an address for each element
    Tensor c{};   // same format and shape as d; may be the same memory with the same strides; not given: zero
    /// One number for each column of D, f32 or bf16, in place of c: added in f32 before the one rounding, with c's
    /// arithmetic. [n], the same for all groups, or [g, n] where b has a group dimension. Not for k-grouped calls.
    Tensor bias{};
    float alpha = 1.0F;
    Layout layout = Layout::nt;
    Groups groups{};
    Accumulation accumulation = Accumulation::promoted;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;
    int sm_limit = 0;             // GPU: streaming multiprocessors this call may use; 0 = all
    std::int64_t expected_m = 0;  // masked: typical valid rows of a group, a hint for the planner; 0 = unknown
};

/// What `validate` looks at.
enum class Check : std::uint8_t {
    shapes,    // not at the data pointers, which may all be null
    call,      // all that `run` asks for; not at the memory behind the tensors
    contents,  // also the numbers in groups.sizes where they are in host memory: those that `run` clamps are findings,
               // such as ends that descend, for sizes of groups given as ends (numbers of indices never are)
};

/// Every mistake in the call, in the caller's words; empty when `backend` can run it (on a GPU with the workspace that
/// it needs: run.h), and sizes are as they must be for `Check::contents`. Never throws.
std::vector<Finding> validate(const Problem& problem, Backend backend = Backend::automatic, Check check = Check::call);

/// The backend that runs the problem: `backend` itself, or what `automatic` means.
Backend resolve(const Problem& problem, Backend backend);

std::string_view name(Layout layout);
std::string_view name(Grouping grouping);
std::string_view name(Accumulation accumulation);
std::string_view name(Arithmetic arithmetic);
std::string_view name(Reproducibility reproducibility);
std::string_view name(Backend backend);

}  // namespace tilewright
