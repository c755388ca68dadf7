// A call, described: operands, output, layout, grouping, options. `validate` finds every mistake before anything runs.
//
//     D[m, n] = C[m, n] + alpha * sum over k of  a(m, k) * b(n, k)
//
// - a(m, k) = A[m, k] * scale of the block of (m, k), b(n, k) likewise.
// - bias[n] may take the place of C[m, n].
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

/// How A and B are stored, as in BLAS for row-major matrices. Batched and grouped tensors have the group dimension
/// first.
enum class Layout : std::uint8_t {
    nt,  // A [m, k], B [n, k]
    nn,  // A [m, k], B [k, n]
    tn,  // A [k, m], B [k, n]
    tt,  // A [k, m], B [n, k]
};
constexpr bool a_is_transposed(Layout layout) { return layout == Layout::tn || layout == Layout::tt; }
constexpr bool b_is_transposed(Layout layout) { return layout == Layout::nn || layout == Layout::tn; }

/// The groups of a call, and the meaning of `Groups::sizes`. Where an entry has no shapes, they are those of the
/// previous entry.
enum class Grouping : std::uint8_t {
    dense,              // One product; no sizes.
    batched,            // A [g, m, k], B [g, n, k], D [g, m, n]; no sizes.
    m_grouped_indices,  // A [m, k], B [g, n, k], D [m, n]; sizes [m]: the group of each row; rows with a number outside
                        // 0..g-1 are skipped.
    m_grouped_offsets,  // Sizes [g]: the row at which group i ends; group i + 1 starts there.
    m_grouped_aligned_offsets,  // Sizes [g]: the same, but group i + 1 starts at the next multiple of `alignment`.
    m_grouped_masked,           // A [g, max_m, k], D [g, max_m, n]; sizes [g]: valid rows of each group.
    k_grouped,                  // A [m, sum k], B [n, sum k], D [g, m, n]; sizes [g]: the k at which group i ends.
    k_grouped_aligned_offsets,  // Sizes [g]: the same, but group i + 1 starts at the next multiple of `alignment`.
    k_grouped_flat,  // Sizes [g]: the k of each group. A's memory is [m, k of group 0], [m, k of group 1], ...
                     // without gaps, B's likewise. Shapes and strides are those of a gapless [m, sum k] and [n, sum k].
};
constexpr bool is_k_grouped(Grouping grouping) {
    return grouping == Grouping::k_grouped || grouping == Grouping::k_grouped_aligned_offsets ||
           grouping == Grouping::k_grouped_flat;
}

/// The groups of a call. Rows that belong to no group are not written.
///
/// `sizes` is int32 or int64, in memory of the device that holds the operands. Its numbers are clamped to the buffers
/// and never trusted, because on a GPU the host does not know them when the call is made. Every backend clamps alike
/// and gives the same result. `validate` with `Check::contents` reports the numbers that would be clamped.
struct Groups {
    Grouping grouping = Grouping::dense;
    Tensor sizes{};
    std::int64_t alignment = 128;  // m_grouped_aligned_offsets and k_grouped_aligned_offsets
    /// m_grouped_indices only. A value above 1 is a promise that makes kernels faster. Rows are divided into blocks of
    /// `index_alignment` rows, the first at row 0. All rows of a block have the group of its first row, or none; rows
    /// of no group are computed with the others. A block that breaks the promise is an Error. On the CPU this call
    /// throws it before anything is written. On a GPU a later call on the device throws it, and the block has the
    /// product with the group of its first row.
    std::int64_t index_alignment = 1;
};

/// Values with their scales. Scales follow the logical operand, whatever the layout of the values, and may have any
/// strides. With rows = m for a, n for b, the shape of the scales is:
///
///   tensor   [1]            row   [rows]        1x128, 1x32, 1x16   [rows, ceil(k / block)]
///   128x128  [ceil(rows / 128), ceil(k / 128)]
///
/// - Operands with a group dimension have it first; tensor is [g], or [1], which all groups share.
/// - k-grouped: tensor [1] or [g]; row [rows] or [g, rows]. Blocks restart in each group, and the groups' scales are
///   adjacent: [rows, sum over groups of ceil(k_g / block)]. More columns are allowed. `validate` does not read the
///   sizes and requires ceil(sum k / block) columns. If the sizes need more columns than exist, the k-elements that the
///   missing columns would scale are dropped: the sizes are clamped as always.
/// - k_grouped_aligned_offsets: the alignment is a multiple of the block, and scales have the places that they have
///   without groups: [rows, ceil(sum k / block)].
/// - NVFP4 (1x16) also needs `tensor_scale`, f32, with the shape of tensor scales: [1] or [g].
/// - `packed` (b only, layouts nt and tt) replaces all other fields.
struct Operand {
    Tensor values{};
    Granularity granularity = Granularity::none;
    Tensor scales{};
    Tensor tensor_scale{};
    PackedWeights packed{};
};

/// How fp8 products are summed (docs/numerics.md). bf16 operands have no promotion.
enum class Accumulation : std::uint8_t {
    promoted,    // At most 128 products in the tensor core's 14-bit sum, then fp32.
    unpromoted,  // All of k in the tensor core; only for tensor and row scales; biased by about -1.6e-5 * k.
};

/// CPU only: the arithmetic that computes the result.
enum class Arithmetic : std::uint8_t {
    fast,       // fp32, in whatever order is fastest
    bit_exact,  // the bits that a Hopper GPU returns
};

enum class Reproducibility : std::uint8_t {
    repeatable,  // repeating a call gives the same bits
    invariant,   // an element's bits depend only on its row, column, scales and C; on the CPU implies `bit_exact`
};

enum class Backend : std::uint8_t {
    automatic,  // `hopper` if d is on a CUDA device, otherwise `cpu`.
    cpu,        // Any recipe, layout and grouping; tensors in host memory.
    hopper,     // A GPU of compute capability 9.0; all tensors on it.
};

// Every member of each enumeration, in the order in which lists and messages name them.
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

/// A call: everything that the host knows of it.
struct Problem {
    Operand a{};  // Activations.
    Operand b{};  // Weights.
    Tensor d{};   // bf16, f16 or f32; shares no memory with the inputs; no two elements share an address.
    Tensor c{};   // Format and shape of d; may be d's memory, with d's strides; not given: zero.
    /// A number per column of D in place of c, f32 or bf16. It is added like c: in f32, before the one rounding. The
    /// shape is [n], the same for all groups, or [g, n] where b has a group dimension. Not for k-grouped calls.
    Tensor bias{};
    float alpha = 1.0F;
    Layout layout = Layout::nt;
    Groups groups{};
    Accumulation accumulation = Accumulation::promoted;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;
    int sm_limit = 0;  // GPU: streaming multiprocessors that this call may use; 0 = all
    /// Groups of rows: typical rows per group, a hint for the planner; 0 = unknown. Masked groups: of those that there
    /// is room for. Groups by offsets or row indices: of m, if rows of m are expected to belong to no group.
    std::int64_t expected_m = 0;
};

/// How much `validate` checks.
enum class Check : std::uint8_t {
    shapes,    // Shapes, strides, formats and options; not data pointers, which may all be null.
    call,      // Everything that `run` requires; does not read the tensors' memory.
    contents,  // Also the numbers in groups.sizes, if they are in host memory. Offsets and counts that `run` would
               // clamp are findings, such as ends that decrease. Group indices per row never are.
};

/// Checks a call without running it. Returns every mistake, in the caller's words; empty when `backend` can run the
/// call. On a GPU the call may also need a workspace (run.h). Never throws.
std::vector<Finding> validate(const Problem& problem, Backend backend = Backend::automatic, Check check = Check::call);

/// The backend that runs the problem: `backend` itself, or the one that `automatic` selects.
Backend resolve(const Problem& problem, Backend backend);

std::string_view name(Layout layout);
std::string_view name(Grouping grouping);
std::string_view name(Accumulation accumulation);
std::string_view name(Arithmetic arithmetic);
std::string_view name(Reproducibility reproducibility);
std::string_view name(Backend backend);

}  // namespace tilewright
