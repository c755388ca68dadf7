"""The multiplications: D[m, n] = C[m, n] + alpha * sum over k of a(m, k) * b(n, k), dense, batched and grouped.

Common to all of them:

a, b: `Quantized`, `PackedWeights` (b only), or an array of bfloat16, float16 or float32 without scales (both operands in the same format, or bf16
    or f16 with an MX or NVFP4 operand; `recipes()` lists the pairs).
layout: how A and B are stored, as in BLAS: nt = A [m, k], B [n, k]; nn = B [k, n]; tn = A [k, m], B [k, n];
    tt = A [k, m], B [n, k]. The group is the first dimension. On the CPU any strides do.
out: where D goes, bfloat16, float16 or float32; without it a new array of out_dtype (bf16): of torch if A is, on A's
    device, else of numpy (bf16 is ml_dtypes.bfloat16; where ml_dtypes is not installed, its codes as uint16). Arrays of
    other libraries on a GPU need `out`.
out_dtype: "bf16", "f16" or "f32", their full names ("float32"), or such a dtype of numpy, ml_dtypes or torch, for a new array; with `out`, what its elements are where its dtype does not say.
c: added in float32 before the one rounding of D; of D's dtype and shape; may be `out` itself.
bias: a number for each column of D, added as c is, in its place: float32 or bfloat16, [n], or where b has groups [g, n],
    one for each group. Not of `k_grouped_gemm`.
alpha: D = C + alpha * A B^T, a number within float32's range.
arithmetic: of the CPU: "fast", in whatever order is fastest, or "bit_exact", the bits that a Hopper GPU returns.
    "hopper", the earlier name of "bit_exact", is still taken.
accumulation: how fp8 products are summed: "promoted" to float32 every 128, or "unpromoted".
reproducibility: "repeatable", or "invariant": an element depends on its own row, column, scales and c (or bias) only. None: what
    `set_invariant` chose for the process, "repeatable" at first.
threads: of the CPU; 0 = all. The GIL is released meanwhile, and Ctrl-C ends the call, with D written in part. Children
    of os.fork() compute on several threads too, and threads may have stacks of 128 KiB.
sm_limit: streaming multiprocessors of a GPU that the call may use; 0 = all.
backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
stream: of the GPU: an address, or a stream of torch, cupy or cuda.core; None: torch's current stream, for arrays of
    other libraries the default stream. The call is enqueued and does not wait.
overlap: of a GPU: the kernel may start while the one ahead of it in the stream ends, and waits for it inside
    (programmatic dependent launch). The result is the same; a sequence of short calls takes less time. None: what
    `set_overlap` chose for the process, False at first.
workspace: of a GPU: `workspace_bytes` of uint8, contiguous, at a multiple of 128 bytes, which the call overwrites until
    it has ended on its stream. None: taken from torch's allocator where the arrays are torch's; those of other libraries
    need it where the call does: an operand that no kernel reads as it is (as in layout tn) is copied there first, and
    FP4 weights that are not `PackedWeights`, or their scales alone, are packed there at each call, which is slower than
    `pack_weights` once, and FP4 activations, fp8 ones next to NVFP4, and MXFP8 weights next to bf16 and NVFP4 decoded. Packed weights without wide rows are expanded there where a group has many
    rows: at least 768 next to 1x128 and MXFP8, 1,280 next to other fp8, next to bf16 2,048 of MXFP4 and 1,280 of NVFP4,
    and 1 GiB at most.
device: whose bits: where k is split follows from the plan, and the plan from the GPU. It is not where the call runs: that
    is where its arrays are. On the CPU, for bit-exact and
    invariant results, the GPU to follow: "h200", "h100", "h100-pcie", "h100-nvl", "h800", "h200-nvl", "h20", "gh200". On a
    GPU: plan as that one would, anew at each call. None: what `set_planned_device` chose for the process; at first the GPU that holds the
    arrays, and on the CPU the GPU that is present (asking opens its driver, after which a forked child cannot use CUDA) or
    else the H200.

On a GPU all arrays are on it. Arrays are anything with DLPack or the buffer protocol, or a `RawArray`, memory by its
address.

All of them raise InvalidCall, a ValueError that lists every mistake, before anything is written, TypeError for an
unknown keyword, and RuntimeError if the machine fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from tilewright import _core
from tilewright._arrays import Array, integers
from tilewright._core import Explanation, Finding
from tilewright._options import (
    M_GROUPINGS,
    Accumulation,
    Arithmetic,
    Backend,
    Device,
    Grouping,
    Layout,
    Options,
    OutputFormat,
    completed,
    with_options,
)
from tilewright._packing import PackedWeights
from tilewright._quantize import Quantized
from tilewright._settings import Reproducibility

if TYPE_CHECKING:
    from typing_extensions import Never, Unpack

__all__ = [
    "Accumulation",
    "Arithmetic",
    "Backend",
    "Device",
    "Grouping",
    "Layout",
    "Operand",
    "OutputFormat",
    "Reproducibility",
    "batched_gemm",
    "explain",
    "gemm",
    "grouped_gemm",
    "k_grouped_gemm",
    "validate",
    "workspace_bytes",
]

Operand: TypeAlias = "Quantized | PackedWeights | Array"

_DENSE: dict[str, Any] = {}
_BATCHED: dict[str, Any] = {"grouping": "batched"}


def _groups(grouping: str, word: str, sizes: Array, **hints: int) -> dict[str, Any]:
    """Groups as C++ reads them. word: the keyword that gave `sizes`, for messages."""
    return {"grouping": grouping, "sizes": integers(word, sizes), "word": word, **hints}


def _one_of(choices: dict[str, tuple[str, Array | None]]) -> tuple[str, str, Array]:
    """The keyword that says where groups are, its grouping and its sizes."""
    given = [(word, grouping, sizes) for word, (grouping, sizes) in choices.items() if sizes is not None]
    if len(given) != 1:
        words = ", ".join(word for word, _, _ in given) or "none"
        _core.refuse("groups", words, "exactly one of " + ", ".join(choices))
    return given[0]


def _refuse_unnamed(function: str, words: str) -> NoReturn:
    raise TypeError(f"{function}: what follows a and b is given by name: {words} says where groups are, e.g. offsets=ends")


@with_options
def gemm(a: Operand, b: Operand, **options: Unpack[Options]) -> Array:
    """One product: A [m, k] and B [n, k] (layout nt) to D [m, n]. `help(tilewright)` describes the arguments.

    >>> import numpy as np
    >>> a = quantize(np.float32([[1, 2], [3, 4]]), "mxfp8")
    >>> b = quantize(np.float32([[1, 0], [0, 1], [1, 1]]), "mxfp8")
    >>> gemm(a, b, out_dtype="f32")
    array([[1., 2., 3.],
           [3., 4., 7.]], dtype=float32)
    """
    return _core.multiply(a, b, groups=_DENSE, options=completed(options, gemm))


@with_options
def batched_gemm(a: Operand, b: Operand, **options: Unpack[Options]) -> Array:
    """A product for each group: A [g, m, k] and B [g, n, k] (layout nt) to D [g, m, n]."""
    return _core.multiply(a, b, groups=_BATCHED, options=completed(options, batched_gemm))


@with_options
def grouped_gemm(
    a: Operand,
    b: Operand,
    *unnamed: Never,
    indices: Array | None = None,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    **options: Unpack[Options],
) -> Array:
    """Rows of A against the matrix of their group: the experts of a mixture, B [g, n, k] (layout nt).

    Exactly one of these says which rows belong to which group; int32 or int64, an array or a list:

    indices: [m], the group of each row of A [m, k]; -1 (or any other that is no group) skips the row.
    offsets: [g], the row at which each group ends; the next starts there.
    aligned_offsets: [g], the same, but the next group starts at the next multiple of `alignment`.
    counts: [g], the valid rows of each group of A [g, max_m, k]; D is [g, max_m, n]. expected_m, typical valid rows of
        a group, is a hint.

    Rows of no group are zero in a new array and left as they are in `out`.

    >>> import numpy as np
    >>> a = quantize(np.ones((3, 4), np.float32), "mxfp8")
    >>> b = quantize(np.float32([[[1, 1, 1, 1]], [[2, 2, 2, 2]]]), "mxfp4")
    >>> grouped_gemm(a, b, indices=[1, -1, 0], out_dtype="f32")
    array([[8.],
           [0.],
           [4.]], dtype=float32)
    """
    if unnamed:
        _refuse_unnamed("grouped_gemm", "indices, offsets, aligned_offsets or counts")
    complete = completed(options, grouped_gemm)
    given = {"indices": indices, "offsets": offsets, "aligned_offsets": aligned_offsets, "counts": counts}
    word, grouping, sizes = _one_of({name: (M_GROUPINGS[name], value) for name, value in given.items()})
    groups = _groups(grouping, word, sizes, alignment=alignment, expected_m=expected_m)
    return _core.multiply(a, b, groups=groups, options=complete)


def blocks_gemm(
    a: Operand, b: Operand, *, indices: Array, alignment: int, word: str, **options: Unpack[Options]
) -> Array:
    """grouped_gemm(indices=) for indices that keep a promise, which makes it faster; `tilewright.deep_gemm` calls it.

    Each block of `alignment` rows has one group, that of its first row; its rows of no group are computed with it. A
    block with rows of another raises InvalidCall about `word` on the CPU, before anything is written, and on a GPU a
    RuntimeError at a later call.
    """
    groups = _groups("m_grouped_indices", word, indices, index_alignment=alignment)
    return _core.multiply(a, b, groups=groups, options=completed(options, blocks_gemm))


@with_options
def k_grouped_gemm(
    a: Operand,
    b: Operand,
    *unnamed: Never,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    **options: Unpack[Options],
) -> Array:
    """A product for each stretch of k, as for weight gradients: A [m, sum k] and B [n, sum k] (nt) to D [g, m, n].

    Exactly one of these says where the groups are; int32 or int64, an array or a list:

    offsets: [g], the k at which each group ends; the next starts there.
    aligned_offsets: [g], the same, but the next group starts at the next multiple of `alignment`.
    counts: [g], the k of each group, of A and B as DeepGEMM has them: in memory [m, k of the first group],
        [m, k of the second] and so on, one after another. A is given as a contiguous [m, sum k] of that memory
        (`flat.view(m, -1)`). Layouts tn, and A of tt and B of nn, are the same as with offsets.

    A group may be empty (its D is c, or zeros). Scale blocks start anew in each group and follow one another: [rows, sum
    over groups of ceil(k of the group / block)]. With aligned_offsets they are where they are without groups: alignment is
    a multiple of the block.

    >>> import numpy as np
    >>> a, b = (np.ones((rows, 6), np.float32) for rows in (2, 1))
    >>> k_grouped_gemm(a, b, offsets=[4, 6], out_dtype="f32").tolist()
    [[[4.0], [4.0]], [[2.0], [2.0]]]
    """
    if unnamed:
        _refuse_unnamed("k_grouped_gemm", "offsets, aligned_offsets or counts")
    complete = completed(options, k_grouped_gemm)
    given = {
        "offsets": ("k_grouped", offsets),
        "aligned_offsets": ("k_grouped_aligned_offsets", aligned_offsets),
        "counts": ("k_grouped_flat", counts),
    }
    word, grouping, sizes = _one_of(given)
    groups = _groups(grouping, word, sizes, alignment=alignment)
    return _core.multiply(a, b, groups=groups, options=complete)


@with_options
def validate(
    a: Operand,
    b: Operand,
    *,
    grouping: Grouping = "dense",
    sizes: Array | None = None,
    alignment: int = 128,
    **options: Unpack[Options],
) -> list[Finding]:
    """All that is wrong with a call, empty if it can run. `sizes` is what the grouping's own argument would be."""
    groups = _groups(grouping, "sizes", sizes, alignment=alignment)
    return _core.validate(a, b, groups=groups, options=completed(options, validate))


@with_options
def workspace_bytes(
    a: Operand,
    b: Operand,
    *,
    grouping: Grouping = "dense",
    sizes: Array | None = None,
    alignment: int = 128,
    **options: Unpack[Options],
) -> int:
    """Bytes of `workspace` that a call on a GPU needs beyond its arrays: 0 for most, and for one that is wrong.

    It follows from shapes and strides alone: arrays in host memory tell it as well.

    >>> import numpy as np
    >>> x = quantize(np.ones((256, 64), np.float32), "tensor")
    >>> workspace_bytes(x, x), workspace_bytes(x, x, layout="tn")
    (0, 16384)
    """
    groups = _groups(grouping, "sizes", sizes, alignment=alignment)
    return _core.workspace_bytes(a, b, groups=groups, options=completed(options, workspace_bytes))


@with_options
def explain(
    a: Operand,
    b: Operand,
    *,
    grouping: Grouping = "dense",
    sizes: Array | None = None,
    alignment: int = 128,
    expected_m: int = 0,
    **options: Unpack[Options],
) -> Explanation:
    """How a GPU would compute a call, with the predicted time and what was rejected; needs no GPU.

    The GPU is `device`; without it, the one that is present, or else the H200.

    >>> import numpy as np
    >>> a, b = (quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))
    >>> plan = explain(a, b).chosen
    >>> plan.grid > 0 and plan.cost["seconds"] == plan.seconds
    True
    """
    groups = _groups(grouping, "sizes", sizes, alignment=alignment, expected_m=expected_m)
    return _core.explain(a, b, groups=groups, options=completed(options, explain))
