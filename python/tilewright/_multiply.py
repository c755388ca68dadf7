"""The multiplications, dense, batched and grouped, and questions about a call. Written by tools/generate_calls.py."""

from __future__ import annotations

from typing import Any, TypeAlias

from tilewright import _core, _grouping
from tilewright._arrays import Array
from tilewright._core import Explanation, Finding
from tilewright._errors import InvalidCall
from tilewright._options import Accumulation, Arithmetic, Backend, Layout, OutputFormat, helpful
from tilewright._packing import PackedWeights
from tilewright._quantize import Quantized
from tilewright._settings import PlannedDevice, settled

Operand: TypeAlias = "Quantized | PackedWeights | Array"


@helpful
def gemm(
    a: Operand,
    b: Operand,
    *,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Array:
    """Multiplies two matrices: D [m, n] = C + alpha * A B^T, with A [m, k] and B [n, k] in layout nt.

    Args:
        a: Activations [m, k] in layout nt. A `Quantized`, or an array of bfloat16, float16 or float32 without scales.
        b: Weights [n, k] in layout nt. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array [m, n] of bfloat16, float16 or float32 that D is written to. None makes a new array: of torch on A's
            device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default: None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [n]. Each column of D gets one number, added like c and in its place. Default: None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        D, which is `out` where it is given.

    Raises:
        InvalidCall: a ValueError that lists every mistake, before anything is written.
        TypeError: an unknown keyword.
        RuntimeError: the machine fails.

    >>> import numpy as np
    >>> a = quantize(np.float32([[1, 2], [3, 4]]), "mxfp8")
    >>> b = quantize(np.float32([[1, 0], [0, 1], [1, 1]]), "mxfp8")

    >>> gemm(a, b, out_dtype="f32")
    array([[1., 2., 3.],
           [3., 4., 7.]], dtype=float32)
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    return _core.multiply(a, b, groups=_grouping.DENSE, options=options)


@helpful
def batched_gemm(
    a: Operand,
    b: Operand,
    *,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Array:
    """Multiplies the matrices of each group: D [g, m, n] = C + alpha * A B^T.

    Args:
        a: Activations [g, m, k] in layout nt. A `Quantized`, or an array of bfloat16, float16 or float32 without
            scales.
        b: Weights [g, n, k] in layout nt. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array [g, m, n] of bfloat16, float16 or float32 that D is written to. None makes a new array: of torch on
            A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default: None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [g, n]. Each column of D gets one number, added like c and in its place. Default:
            None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        D, which is `out` where it is given.

    Raises:
        InvalidCall: a ValueError that lists every mistake, before anything is written.
        TypeError: an unknown keyword.
        RuntimeError: the machine fails.
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    return _core.multiply(a, b, groups=_grouping.BATCHED, options=options)


@helpful
def grouped_gemm(
    a: Operand,
    b: Operand,
    *,
    indices: Array | None = None,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Array:
    """Multiplies the rows of A with the matrix of their group: the experts of a mixture.

    Exactly one of `indices`, `offsets`, `aligned_offsets` and `counts` says which rows belong to which group. It is
    int32 or int64, an array or a list.

    A call clamps offsets into the rows and does not check them, because on a GPU the host does not know their values.
    Sizes in their place give wrong numbers and no message. `validate` checks offsets in host memory.

    Args:
        a: Activations [m, k] in layout nt, or with counts [g, max_m, k]. A `Quantized`, or an array of bfloat16,
            float16 or float32 without scales.
        b: Weights [g, n, k] in layout nt. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        indices: [m], each row's group. -1, or any other number that is not a group, skips the row. Default: None.
        offsets: [g], the row at which each group ends. The next group starts there. Default: None.
        aligned_offsets: [g], the row at which each group ends. The next group starts at the next multiple of
            `alignment`. Default: None.
        alignment: Groups of aligned_offsets start at its multiples. Default: 128.
        counts: [g], the valid rows of each group of A [g, max_m, k]. D is [g, max_m, n]. Default: None.
        expected_m: Typical rows of a group, a hint, with counts or where rows of a belong to no group; 0 = unknown.
            Default: 0.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array [m, n] or [g, max_m, n] of bfloat16, float16 or float32 that D is written to. None makes a new array:
            of torch on A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`.
            Default: None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [g, n]. Each column of D gets one number, added like c and in its place. Default:
            None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        D, which is `out` where it is given. Rows of no group are zero in a new array and keep their values in `out`.

    Raises:
        InvalidCall: a ValueError that lists every mistake, before anything is written.
        TypeError: an unknown keyword.
        RuntimeError: the machine fails.

    >>> import numpy as np
    >>> a = quantize(np.ones((3, 4), np.float32), "mxfp8")
    >>> b = quantize(np.float32([[[1, 1, 1, 1]], [[2, 2, 2, 2]]]), "mxfp4")

    >>> grouped_gemm(a, b, indices=[1, -1, 0], out_dtype="f32")
    array([[8.],
           [0.],
           [4.]], dtype=float32)
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    groups = _grouping.of_rows(indices, offsets, aligned_offsets, counts, alignment, expected_m)
    return _core.multiply(a, b, groups=groups, options=options)


@helpful
def k_grouped_gemm(
    a: Operand,
    b: Operand,
    *,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Array:
    """Multiplies each group of columns: D [g, m, n] from A [m, sum k] and B [n, sum k], as for weight gradients.

    Exactly one of `offsets`, `aligned_offsets` and `counts` says where the groups are. It is int32 or int64, an array
    or a list.

    A group may be empty: its D is C, or zeros. Scale blocks start again in each group and follow one another. Scales
    are [rows, sum over groups of ceil(k of the group / block)]. With aligned_offsets they are where they are without
    groups.

    Args:
        a: Activations [m, sum k] in layout nt. A `Quantized`, or an array of bfloat16, float16 or float32 without
            scales.
        b: Weights [n, sum k] in layout nt. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()`
            lists the accepted pairs.
        offsets: [g], the k at which each group ends. The next group starts there. Default: None.
        aligned_offsets: [g], the k at which each group ends. The next group starts at the next multiple of `alignment`.
            Default: None.
        alignment: Groups of aligned_offsets start at its multiples. It is a multiple of the block of the scales.
            Default: 128.
        counts: [g], the k of each group, for A and B in DeepGEMM's order. Memory has [m, k of the first group], then
            [m, k of the second] and so on. Pass A as a contiguous [m, sum k] of that memory (`flat.view(m, -1)`).
            Layout tn, A of tt and B of nn are as with offsets. Default: None.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array [g, m, n] of bfloat16, float16 or float32 that D is written to. None makes a new array: of torch on
            A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default: None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        D, which is `out` where it is given.

    Raises:
        InvalidCall: a ValueError that lists every mistake, before anything is written.
        TypeError: an unknown keyword.
        RuntimeError: the machine fails.

    >>> import numpy as np
    >>> a, b = (np.ones((rows, 6), np.float32) for rows in (2, 1))

    >>> k_grouped_gemm(a, b, offsets=[4, 6], out_dtype="f32").tolist()
    [[[4.0], [4.0]], [[2.0], [2.0]]]
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    groups = _grouping.of_k(offsets, aligned_offsets, counts, alignment)
    return _core.multiply(a, b, groups=groups, options=options)


@helpful
def validate(
    a: Operand,
    b: Operand,
    *,
    batched: bool = False,
    k_grouped: bool = False,
    indices: Array | None = None,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> list[Finding]:
    """Lists all mistakes of a call, and runs nothing.

    It takes the arguments of the call itself: change the name, and add batched=True or k_grouped=True where the call is
    one. Arrays in host memory are read too: ends that decrease or exceed the last row are mistakes.

    Args:
        a: Activations as the call takes them. A `Quantized`, or an array of bfloat16, float16 or float32 without
            scales.
        b: Weights as the call takes them. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        batched: True: the call is `batched_gemm`. Default: False.
        k_grouped: True: the call is `k_grouped_gemm`. Default: False.
        indices: As in `grouped_gemm`. Default: None.
        offsets: As in `grouped_gemm`, or with k_grouped=True as in `k_grouped_gemm`. Default: None.
        aligned_offsets: Likewise. Default: None.
        alignment: Likewise. Default: 128.
        counts: Likewise. Default: None.
        expected_m: As in `grouped_gemm`. Default: 0.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array as the call takes it of bfloat16, float16 or float32 that D is written to. None makes a new array: of
            torch on A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default:
            None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [n], or [g, n] where B has groups. Each column of D gets one number, added like c and
            in its place. Not in `k_grouped_gemm`. Default: None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        One `Finding` per mistake; an empty list if the call can run.

    Raises:
        TypeError: an unknown keyword.

    >>> import numpy as np
    >>> rows, experts = np.ones((10, 128), np.float32), np.ones((3, 8, 128), np.float32)

    >>> validate(rows, experts, offsets=[3, 8, 10])
    []

    >>> [finding.operand for finding in validate(rows, experts, offsets=[3, 5, 2])]  # sizes
    ['offsets']
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    try:
        groups = _grouping.of_any_call(batched, k_grouped, indices, offsets, aligned_offsets, counts, alignment, expected_m)
    except InvalidCall as error:
        return error.findings
    return _core.validate(a, b, groups=groups, options=options)


@helpful
def workspace_bytes(
    a: Operand,
    b: Operand,
    *,
    batched: bool = False,
    k_grouped: bool = False,
    indices: Array | None = None,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> int:
    """Computes how many bytes of `workspace` a call on a GPU needs beyond its arrays.

    It takes the arguments of the call itself: change the name, and add batched=True or k_grouped=True where the call is
    one. The number follows from shapes, strides and expected_m: arrays in host memory give it too.

    A call needs a workspace where kernels of the call first write operands in another form:

    - An operand that no kernel reads as it is (as in layout tn) is copied.
    - FP4 weights that are not `PackedWeights`, or only their scales, are packed at each call. `pack_weights` once is
      faster.
    - FP4 activations, fp8 activations with NVFP4 weights, and MXFP8 weights with bf16 or NVFP4 activations are decoded.
    - Packed weights without wide rows are expanded where a group has many rows, up to 1 GiB. MXFP4 and NVFP4: from 768
      rows with 1x128 or MXFP8, from 1,280 with other fp8. With bf16: from 2,048 (MXFP4) or 1,280 (NVFP4).

    Args:
        a: Activations as the call takes them. A `Quantized`, or an array of bfloat16, float16 or float32 without
            scales.
        b: Weights as the call takes them. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        batched: True: the call is `batched_gemm`. Default: False.
        k_grouped: True: the call is `k_grouped_gemm`. Default: False.
        indices: As in `grouped_gemm`. Default: None.
        offsets: As in `grouped_gemm`, or with k_grouped=True as in `k_grouped_gemm`. Default: None.
        aligned_offsets: Likewise. Default: None.
        alignment: Likewise. Default: 128.
        counts: Likewise. Default: None.
        expected_m: As in `grouped_gemm`. Default: 0.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array as the call takes it of bfloat16, float16 or float32 that D is written to. None makes a new array: of
            torch on A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default:
            None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [n], or [g, n] where B has groups. Each column of D gets one number, added like c and
            in its place. Not in `k_grouped_gemm`. Default: None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        Bytes; 0 for most calls, and for a call with mistakes.

    Raises:
        TypeError: an unknown keyword.

    >>> import numpy as np
    >>> x = quantize(np.ones((256, 64), np.float32), "tensor")

    >>> workspace_bytes(x, x), workspace_bytes(x, x, layout="tn")
    (0, 16384)
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    try:
        groups = _grouping.of_any_call(batched, k_grouped, indices, offsets, aligned_offsets, counts, alignment, expected_m)
    except InvalidCall:
        return 0
    return _core.workspace_bytes(a, b, groups=groups, options=options)


@helpful
def explain(
    a: Operand,
    b: Operand,
    *,
    batched: bool = False,
    k_grouped: bool = False,
    indices: Array | None = None,
    offsets: Array | None = None,
    aligned_offsets: Array | None = None,
    alignment: int = 128,
    counts: Array | None = None,
    expected_m: int = 0,
    layout: Layout = "nt",
    out: Array | None = None,
    out_dtype: OutputFormat | None = None,
    c: Array | None = None,
    bias: Array | None = None,
    alpha: float = 1.0,
    accumulation: Accumulation = "promoted",
    arithmetic: Arithmetic = "fast",
    invariant: bool | None = None,
    backend: Backend = "automatic",
    threads: int = 0,
    sm_limit: int = 0,
    stream: object | None = None,
    overlap: bool | None = None,
    workspace: Array | None = None,
    planned_device: PlannedDevice | None = None,
) -> Explanation:
    """Explains how a GPU would compute a call: the plan, the predicted time and the rejected plans. It needs no GPU.

    It takes the arguments of the call itself: change the name, and add batched=True or k_grouped=True where the call is
    one. The GPU is `planned_device`.

    Args:
        a: Activations as the call takes them. A `Quantized`, or an array of bfloat16, float16 or float32 without
            scales.
        b: Weights as the call takes them. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists
            the accepted pairs.
        batched: True: the call is `batched_gemm`. Default: False.
        k_grouped: True: the call is `k_grouped_gemm`. Default: False.
        indices: As in `grouped_gemm`. Default: None.
        offsets: As in `grouped_gemm`, or with k_grouped=True as in `k_grouped_gemm`. Default: None.
        aligned_offsets: Likewise. Default: None.
        alignment: Likewise. Default: 128.
        counts: Likewise. Default: None.
        expected_m: As in `grouped_gemm`. Default: 0.
        layout: How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B
            [k, n] in "tn". A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.
            Default: "nt".
        out: Array as the call takes it of bfloat16, float16 or float32 that D is written to. None makes a new array: of
            torch on A's device if A is of torch, else of numpy. Other libraries' arrays on a GPU need `out`. Default:
            None.
        out_dtype: "bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. A new
            array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed.
            With `out` it names the elements, if `out`'s dtype does not. Default: None.
        c: Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.
            Default: None.
        bias: float32 or bfloat16 [n], or [g, n] where B has groups. Each column of D gets one number, added like c and
            in its place. Not in `k_grouped_gemm`. Default: None.
        alpha: A number within float32's range: D = C + alpha * A B^T. Default: 1.0.
        accumulation: How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".
            Default: "promoted".
        arithmetic: On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU. Default:
            "fast".
        invariant: True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults`
            (False). Default: None.
        backend: "automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".
            Default: "automatic".
        threads: CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part. Default: 0.
        sm_limit: Streaming multiprocessors of a GPU that the call may use; 0 = all. Default: 0.
        stream: On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the
            default stream for arrays of other libraries. The call is enqueued and does not wait. Default: None.
        overlap: Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults`
            (False). Default: None.
        workspace: On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it
            until its work on the stream has ended. None: torch's allocator for arrays of torch. Other libraries pass
            one where the call needs it. Default: None.
        planned_device: The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It
            does not choose where the call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").
            Default: None.

    Returns:
        An `Explanation`. `print` shows it as text, a notebook as a table.

    Raises:
        InvalidCall: a ValueError that lists every mistake.
        TypeError: an unknown keyword.

    >>> import numpy as np
    >>> a, b = (quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))

    >>> plan = explain(a, b).chosen
    >>> plan.grid > 0 and plan.cost["seconds"] == plan.seconds
    True
    """
    invariant, overlap, planned_device = settled(invariant, overlap, planned_device)
    options = {
        "layout": layout,
        "out": out,
        "out_dtype": out_dtype,
        "c": c,
        "bias": bias,
        "alpha": alpha,
        "accumulation": accumulation,
        "arithmetic": arithmetic,
        "invariant": invariant,
        "backend": backend,
        "threads": threads,
        "sm_limit": sm_limit,
        "stream": stream,
        "overlap": overlap,
        "workspace": workspace,
        "planned_device": planned_device,
    }
    groups = _grouping.of_any_call(batched, k_grouped, indices, offsets, aligned_offsets, counts, alignment, expected_m)
    return _core.explain(a, b, groups=groups, options=options)


def blocks_gemm(a: Operand, b: Operand, *, indices: Array, alignment: int, word: str, **options: Any) -> Array:
    """grouped_gemm(indices=) for indices that keep a promise, which makes it faster. `tilewright.deep_gemm` calls it.

    Each block of `alignment` rows has one group, that of its first row. Rows of no group in a block are computed with it.
    A block with rows of another group raises InvalidCall about `word` on the CPU, before anything is written. On a GPU a
    later call raises RuntimeError.
    """
    invariant, overlap, planned_device = settled(
        options.pop("invariant", None), options.pop("overlap", None), options.pop("planned_device", None)
    )
    options |= {"invariant": invariant, "overlap": overlap, "planned_device": planned_device}
    return _core.multiply(a, b, groups=_grouping.of_blocks(word, indices, alignment), options=options)
