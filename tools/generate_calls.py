#!/usr/bin/env python3
"""Writes python/tilewright/_multiply.py and _moe_questions.py: functions that share most of their arguments, all written out.

Signatures are complete in the files, so that help() and editors show every argument. Each fact is stated once: here for the
products, in _moe.py for layers of experts. A test compares the files with this program's output.

    tools/generate_calls.py           writes the files
    tools/generate_calls.py --print   prints them
"""

from __future__ import annotations

import pathlib
import re
import sys
import textwrap
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parents[1] / "python/tilewright"
FILE, LAYERS, QUESTIONS = (FOLDER / name for name in ("_multiply.py", "_moe.py", "_moe_questions.py"))
WIDTH = 120


class Argument(NamedTuple):
    name: str
    annotation: str
    default: str  # "" where there is none
    text: str  # type or values first, then shape and meaning


A = "Activations {a}. A `Quantized`, or an array of bfloat16, float16 or float32 without scales."
B = "Weights {b}. A `Quantized`, `PackedWeights`, or an array without scales. `recipes()` lists the accepted pairs."

COMMON = [
    Argument(
        "layout",
        "Layout",
        '"nt"',
        'How A and B are stored, as in BLAS. A [m, k], B [n, k] in "nt". A [m, k], B [k, n] in "nn". A [k, m], B [k, n] in "tn". '
        'A [k, m], B [n, k] in "tt". Groups are the first dimension. The CPU reads any strides.',
    ),
    Argument(
        "out",
        "Array | None",
        "None",
        "Array {d} of bfloat16, float16 or float32 that D is written to. None makes a new array: of torch on A's device if A is of "
        "torch, else of numpy. Other libraries' arrays on a GPU need `out`.",
    ),
    Argument(
        "out_dtype",
        "OutputFormat | None",
        "None",
        '"bf16", "f16" or "f32", a full name as "float32", or a dtype of numpy, ml_dtypes or torch. '
        'A new array has "bf16" without it: ml_dtypes.bfloat16 in numpy, or uint16 codes where ml_dtypes is not installed. '
        "With `out` it names the elements, if `out`'s dtype does not.",
    ),
    Argument(
        "c",
        "Array | None",
        "None",
        "Array with D's dtype and shape, added in float32 before the one rounding of D. It may be `out` itself.",
    ),
    Argument(
        "bias",
        "Array | None",
        "None",
        "float32 or bfloat16 {bias}. Each column of D gets one number, added like c and in its place.{bias_note}",
    ),
    Argument("alpha", "float", "1.0", "A number within float32's range: D = C + alpha * A B^T."),
    Argument(
        "accumulation",
        "Accumulation",
        '"promoted"',
        'How fp8 products are summed: "promoted" to float32 every 128 elements along k, or "unpromoted".',
    ),
    Argument(
        "arithmetic",
        "Arithmetic",
        '"fast"',
        'On the CPU, "fast" sums in the fastest order; "bit_exact" returns the bits of a Hopper GPU.',
    ),
    Argument(
        "invariant",
        "bool | None",
        "None",
        "True: an element of D does not depend on the rest of the batch. None: `options`, then `defaults` (False).",
    ),
    Argument(
        "backend",
        "Backend",
        '"automatic"',
        '"automatic" runs where the arrays are: "hopper" on a GPU of compute capability 9.0, else "cpu".',
    ),
    Argument(
        "threads",
        "int",
        "0",
        "CPU threads; 0 = all. The call releases the GIL. Ctrl-C ends it, with D written in part.",
    ),
    Argument("sm_limit", "int", "0", "Streaming multiprocessors of a GPU that the call may use; 0 = all."),
    Argument(
        "stream",
        "object | None",
        "None",
        "On a GPU: an address, or a stream of torch, cupy or cuda.core. None: torch's current stream, or the default stream for arrays "
        "of other libraries. The call is enqueued and does not wait.",
    ),
    Argument(
        "overlap",
        "bool | None",
        "None",
        "Whether the kernel on a GPU may start while the previous one ends. None: `options`, then `defaults` (False).",
    ),
    Argument(
        "workspace",
        "Array | None",
        "None",
        "On a GPU: contiguous uint8 of `workspace_bytes`, at a multiple of 128 bytes. The call overwrites it until its work on the "
        "stream has ended. None: torch's allocator for arrays of torch. Other libraries pass one where the call needs it.",
    ),
    Argument(
        "planned_device",
        "PlannedDevice | None",
        "None",
        'The GPU whose plans and bits the call follows, e.g. "h100", a device file, or "automatic". It does not choose where the '
        'call runs. None: `options`, which lists the GPUs, then `defaults` ("automatic").',
    ),
]

INDICES = Argument(
    "indices",
    "Array | None",
    "None",
    "[m], each row's group. -1, or any other number that is not a group, skips the row.",
)
OFFSETS = Argument("offsets", "Array | None", "None", "[g], the {unit} at which each group ends. The next group starts there.")
ALIGNED = Argument(
    "aligned_offsets",
    "Array | None",
    "None",
    "[g], the {unit} at which each group ends. The next group starts at the next multiple of `alignment`.",
)
ALIGNMENT = Argument("alignment", "int", "128", "Groups of aligned_offsets start at its multiples.{alignment_note}")
COUNTS = Argument("counts", "Array | None", "None", "[g], the valid rows of each group of A [g, max_m, k]. D is [g, max_m, n].")
COUNTS_OF_K = Argument(
    "counts",
    "Array | None",
    "None",
    "[g], the k of each group, for A and B in DeepGEMM's order. Memory has [m, k of the first group], then [m, k of the second] and "
    "so on. Pass A as a contiguous [m, sum k] of that memory (`flat.view(m, -1)`). Layout tn, A of tt and B of nn are as with offsets.",
)
EXPECTED_M = Argument(
    "expected_m", "int", "0", "Typical rows of a group, a hint, with counts or where rows of a belong to no group; 0 = unknown."
)
BATCHED = Argument("batched", "bool", "False", "True: the call is `batched_gemm`.")
K_GROUPED = Argument("k_grouped", "bool", "False", "True: the call is `k_grouped_gemm`.")

ROWS = [INDICES, OFFSETS, ALIGNED, ALIGNMENT, COUNTS, EXPECTED_M]
ANY = [
    BATCHED,
    K_GROUPED,
    INDICES._replace(text="As in `grouped_gemm`."),
    OFFSETS._replace(text="As in `grouped_gemm`, or with k_grouped=True as in `k_grouped_gemm`."),
    ALIGNED._replace(text="Likewise."),
    ALIGNMENT._replace(text="Likewise."),
    COUNTS._replace(text="Likewise."),
    EXPECTED_M._replace(text="As in `grouped_gemm`."),
]

SHAPES = {
    "a": "[m, k] in layout nt",
    "b": "[n, k] in layout nt",
    "d": "[m, n]",
    "bias": "[n]",
    "bias_note": "",
    "unit": "row",
    "alignment_note": "",
}
GROUPED_SHAPES = SHAPES | {"b": "[g, n, k] in layout nt", "bias": "[g, n]"}
ANY_SHAPES = SHAPES | {
    "a": "as the call takes them",
    "b": "as the call takes them",
    "d": "as the call takes it",
    "bias": "[n], or [g, n] where B has groups",
    "bias_note": " Not in `k_grouped_gemm`.",
}

RAISES = """Raises:
    InvalidCall: a ValueError that lists every mistake, before anything is written.
    TypeError: an unknown keyword.
    RuntimeError: the machine fails."""


class Function(NamedTuple):
    name: str
    own: list[Argument]
    result: str
    shapes: dict[str, str]
    summary: str
    before: str  # of Args
    returns: str
    raises: str
    after: str
    body: str  # {options} for the dictionary of common options
    without: tuple[str, ...] = ()


GEMM = Function(
    name="gemm",
    own=[],
    result="Array",
    shapes=SHAPES,
    summary="Multiplies two matrices: D [m, n] = C + alpha * A B^T, with A [m, k] and B [n, k] in layout nt.",
    before="",
    returns="D, which is `out` where it is given.",
    raises=RAISES,
    after=""">>> import numpy as np
>>> a = quantize(np.float32([[1, 2], [3, 4]]), "mxfp8")
>>> b = quantize(np.float32([[1, 0], [0, 1], [1, 1]]), "mxfp8")

>>> gemm(a, b, out_dtype="f32")
array([[1., 2., 3.],
       [3., 4., 7.]], dtype=float32)""",
    body="return _core.multiply(a, b, groups=_grouping.DENSE, options={options})",
)

BATCHED_GEMM = GEMM._replace(
    name="batched_gemm",
    shapes=SHAPES | {"a": "[g, m, k] in layout nt", "b": "[g, n, k] in layout nt", "d": "[g, m, n]", "bias": "[g, n]"},
    summary="Multiplies the matrices of each group: D [g, m, n] = C + alpha * A B^T.",
    after="",
    body="return _core.multiply(a, b, groups=_grouping.BATCHED, options={options})",
)

GROUPED_GEMM = GEMM._replace(
    name="grouped_gemm",
    own=ROWS,
    shapes=GROUPED_SHAPES | {"a": "[m, k] in layout nt, or with counts [g, max_m, k]", "d": "[m, n] or [g, max_m, n]"},
    summary="Multiplies the rows of A with the matrix of their group: the experts of a mixture.",
    before="""Exactly one of `indices`, `offsets`, `aligned_offsets` and `counts` says which rows belong to which group. It is int32 or
int64, an array or a list.

A call clamps offsets into the rows and does not check them, because on a GPU the host does not know their values. Sizes in their
place give wrong numbers and no message. `validate` checks offsets in host memory.""",
    returns="D, which is `out` where it is given. Rows of no group are zero in a new array and keep their values in `out`.",
    after=""">>> import numpy as np
>>> a = quantize(np.ones((3, 4), np.float32), "mxfp8")
>>> b = quantize(np.float32([[[1, 1, 1, 1]], [[2, 2, 2, 2]]]), "mxfp4")

>>> grouped_gemm(a, b, indices=[1, -1, 0], out_dtype="f32")
array([[8.],
       [0.],
       [4.]], dtype=float32)""",
    body="""groups = _grouping.of_rows(indices, offsets, aligned_offsets, counts, alignment, expected_m)
return _core.multiply(a, b, groups=groups, options={options})""",
)

K_GROUPED_GEMM = GEMM._replace(
    name="k_grouped_gemm",
    own=[OFFSETS, ALIGNED, ALIGNMENT, COUNTS_OF_K],
    shapes=SHAPES
    | {
        "a": "[m, sum k] in layout nt",
        "b": "[n, sum k] in layout nt",
        "d": "[g, m, n]",
        "unit": "k",
        "alignment_note": " It is a multiple of the block of the scales.",
    },
    summary="Multiplies each group of columns: D [g, m, n] from A [m, sum k] and B [n, sum k], as for weight gradients.",
    before="""Exactly one of `offsets`, `aligned_offsets` and `counts` says where the groups are. It is int32 or int64, an array or a list.

A group may be empty: its D is C, or zeros. Scale blocks start again in each group and follow one another. Scales are [rows, sum
over groups of ceil(k of the group / block)]. With aligned_offsets they are where they are without groups.""",
    after=""">>> import numpy as np
>>> a, b = (np.ones((rows, 6), np.float32) for rows in (2, 1))

>>> k_grouped_gemm(a, b, offsets=[4, 6], out_dtype="f32").tolist()
[[[4.0], [4.0]], [[2.0], [2.0]]]""",
    body="""groups = _grouping.of_k(offsets, aligned_offsets, counts, alignment)
return _core.multiply(a, b, groups=groups, options={options})""",
    without=("bias",),
)

ANY_GROUPS = "_grouping.of_any_call(batched, k_grouped, indices, offsets, aligned_offsets, counts, alignment, expected_m)"
TAKES_ALL = "It takes the arguments of the call itself: change the name, and add batched=True or k_grouped=True where the call is one."

VALIDATE = GEMM._replace(
    name="validate",
    own=ANY,
    result="list[Finding]",
    shapes=ANY_SHAPES,
    summary="Lists all mistakes of a call, and runs nothing.",
    before=TAKES_ALL + " Arrays in host memory are read too: ends that decrease or exceed the last row are mistakes.",
    returns="One `Finding` per mistake; an empty list if the call can run.",
    raises="Raises:\n    TypeError: an unknown keyword.",
    after=""">>> import numpy as np
>>> rows, experts = np.ones((10, 128), np.float32), np.ones((3, 8, 128), np.float32)

>>> validate(rows, experts, offsets=[3, 8, 10])
[]

>>> [finding.operand for finding in validate(rows, experts, offsets=[3, 5, 2])]  # sizes
['offsets']""",
    body=f"""try:
    groups = {ANY_GROUPS}
except InvalidCall as error:
    return error.findings
return _core.validate(a, b, groups=groups, options={{options}})""",
)

WORKSPACE_BYTES = VALIDATE._replace(
    name="workspace_bytes",
    result="int",
    summary="Computes how many bytes of `workspace` a call on a GPU needs beyond its arrays.",
    before=TAKES_ALL
    + """ The number follows from shapes, strides and expected_m: arrays in host memory give it too.

A call needs a workspace where kernels of the call first write operands in another form:

- An operand that no kernel reads as it is (as in layout tn) is copied.
- FP4 weights that are not `PackedWeights`, or only their scales, are packed at each call. `pack_weights` once is faster.
- FP4 activations, fp8 activations with NVFP4 weights, and MXFP8 weights with bf16 or NVFP4 activations are decoded.
- Packed weights without wide rows are expanded where a group has many rows, up to 1 GiB. MXFP4 and NVFP4: from 768 rows with 1x128
  or MXFP8, from 1,280 with other fp8. With bf16: from 2,048 (MXFP4) or 1,280 (NVFP4).""",
    returns="Bytes; 0 for most calls, and for a call with mistakes.",
    after=""">>> import numpy as np
>>> x = quantize(np.ones((256, 64), np.float32), "tensor")

>>> workspace_bytes(x, x), workspace_bytes(x, x, layout="tn")
(0, 16384)""",
    body=f"""try:
    groups = {ANY_GROUPS}
except InvalidCall:
    return 0
return _core.workspace_bytes(a, b, groups=groups, options={{options}})""",
)

EXPLAIN = VALIDATE._replace(
    name="explain",
    result="Explanation",
    summary="Explains how a GPU would compute a call: the plan, the predicted time and the rejected plans. It needs no GPU.",
    before=TAKES_ALL + " The GPU is `planned_device`.",
    returns="An `Explanation`. `print` shows it as text, a notebook as a table.",
    raises=RAISES.replace(", before anything is written", "").rsplit("\n", 1)[0],
    after=""">>> import numpy as np
>>> a, b = (quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))

>>> plan = explain(a, b).chosen
>>> plan.grid > 0 and plan.cost["seconds"] == plan.seconds
True""",
    body=f"""groups = {ANY_GROUPS}
return _core.explain(a, b, groups=groups, options={{options}})""",
)

FUNCTIONS = [GEMM, BATCHED_GEMM, GROUPED_GEMM, K_GROUPED_GEMM, VALIDATE, WORKSPACE_BYTES, EXPLAIN]

HEAD = '''"""The multiplications, dense, batched and grouped, and questions about a call. Written by tools/generate_calls.py."""

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
'''

TAIL = '''

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
'''


def _fill(text: str, first: int, later: int) -> str:
    """The text in lines, indented by spaces; shapes as [m, k] are not broken."""
    text = re.sub(r"\[[^\]]*\]", lambda shape: shape.group().replace(" ", "\0"), " ".join(text.split()))
    filled = textwrap.fill(
        text, WIDTH, initial_indent=" " * first, subsequent_indent=" " * later, break_on_hyphens=False, break_long_words=False
    )
    return filled.replace("\0", " ")


def _wrapped(text: str, indent: int) -> str:
    """Paragraphs and list items of a docstring, each filled to the width."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        items = paragraph.split("\n- ") if paragraph.startswith("- ") else [paragraph]
        for i, item in enumerate(items):
            item = "- " + item if i else item
            lines.append(_fill(item, indent, indent + 2 * item.startswith("- ")))
        lines.append("")
    return "\n".join(lines[:-1])


def _argument(argument: Argument, shapes: dict[str, str]) -> str:
    text = f"{argument.name}: {argument.text.format(**shapes)}"
    if argument.default:
        text += f" Default: {argument.default}."
    return _fill(text, 8, 12)


def written(function: Function) -> str:
    """The source of one function."""
    common = [argument for argument in COMMON if argument.name not in function.without]
    arguments = [*function.own, *common]
    signature = "".join(f"    {x.name}: {x.annotation} = {x.default},\n" for x in arguments)
    operands = [Argument("a", "", "", A), Argument("b", "", "", B)]
    listed = "\n".join(_argument(x, function.shapes) for x in [*operands, *arguments])
    parts = [f'    """{function.summary}']
    if function.before:
        parts.append(_wrapped(function.before, 4))
    parts.append("    Args:\n" + listed)
    parts.append("    Returns:\n" + _fill(function.returns, 8, 8))
    parts.append(textwrap.indent(function.raises, "    "))
    if function.after:
        parts.append(textwrap.indent(function.after, "    "))
    settings = "invariant, overlap, planned_device"
    settle = f"    {settings} = settled({settings})\n"
    options = "options = {\n" + "".join(f'    "{x.name}": {x.name},\n' for x in common) + "}\n"
    body = textwrap.indent(options + function.body.replace("{options}", "options"), "    ")
    return (
        f"\n\n@helpful\ndef {function.name}(\n    a: Operand,\n    b: Operand,\n    *,\n{signature}) -> {function.result}:\n"
        + "\n\n".join(parts)
        + f'\n    """\n{settle}{body}\n'
    )


HEAD_OF_LAYERS = '''"""Questions about a layer of experts, with the arguments of `moe`. Written by tools/generate_calls.py."""

from __future__ import annotations

import math

from tilewright import _core, _grouping
from tilewright._arrays import Array
from tilewright._core import Finding
from tilewright._errors import InvalidCall
from tilewright._explanation import MoeExplanation
from tilewright._moe import Unit, WeightsAt
from tilewright._multiply import Operand
from tilewright._options import Accumulation, Arithmetic, Backend, OutputFormat, helpful
from tilewright._settings import PlannedDevice, settled
'''

# name, result, docstring, lines that end the body after `moe`'s own
LAYER_QUESTIONS = [
    (
        "validate_moe",
        "list[Finding]",
        """Lists all mistakes of a call of `moe`, and runs nothing.

It takes the arguments of the call itself: change the name. Arrays in host memory are read too: ends that decrease or exceed the
last row are mistakes.

Args:
    x, up, down: As in `moe`, and so are all keywords.

Returns:
    One `Finding` per mistake; an empty list if the call can run.

Raises:
    TypeError: an unknown keyword.

>>> import numpy as np
>>> x, up, down = (np.ones(shape, np.float32) for shape in ((2, 4), (3, 8, 4), (3, 4, 4)))

>>> validate_moe(x, up, down, experts=np.int32([[0, 2], [1, -1]]))
[]

>>> [finding.operand for finding in validate_moe(x, up, down[:2], offsets=[0, 1, 2])]
['down']""",
        """try:
    groups = {groups}
except InvalidCall as error:
    return error.findings
return _core.validate_moe({operands})""",
    ),
    (
        "explain_moe",
        "MoeExplanation",
        """Explains how a GPU would compute a call of `moe`: its kernels and their predicted times. It needs no GPU.

It takes the arguments of the call itself: change the name. The GPU is `planned_device`. Experts are expected to have as many rows
each. A call of several chunks is explained by the first.

Args:
    x, up, down: As in `moe`, and so are all keywords. Only shapes, formats and recipes count.

Returns:
    A `MoeExplanation`. `print` shows it as text, a notebook as a table.

Raises:
    InvalidCall: a ValueError that lists every mistake.
    TypeError: an unknown keyword.

>>> import numpy as np
>>> up, down = (quantize(np.ones(shape, np.float32), "128x128") for shape in ((4, 512, 256), (4, 256, 256)))

>>> found = explain_moe(np.ones((16, 256), np.float32), up, down, experts=np.zeros((16, 2), np.int32))
>>> [step.name for step in found.steps], found.launches
(['permute', 'up', 'activate', 'down', 'combine'], 5)""",
        """groups = {groups}
return MoeExplanation(*_core.explain_moe({operands}))""",
    ),
]


def layer_questions() -> str:
    """The file of questions about layers: signature and dictionaries are those of `moe`."""
    source = LAYERS.read_text()
    signature = re.search(r"^def moe\((.*?)^\) -> Array:", source, re.DOTALL | re.MULTILINE)
    body = re.search(r"^(    invariant, overlap, planned_device = settled.*?)^    groups = (.*?)\n", source, re.DOTALL | re.MULTILINE)
    operands = re.search(r"return _core\.moe\((.*?)\)\n", source)
    assert signature and body and operands, "_moe.py has another form"
    made = HEAD_OF_LAYERS
    for name, result, docstring, ending in LAYER_QUESTIONS:
        text = textwrap.indent(docstring, "    ").lstrip()
        asked = textwrap.indent(ending.format(groups=body.group(2), operands=operands.group(1)), "    ")
        made += f'\n\n@helpful\ndef {name}({signature.group(1)}) -> {result}:\n    """{text}\n    """\n{body.group(1)}{asked}\n'
    return made


def generated() -> dict[pathlib.Path, str]:
    """The text of each file."""
    return {FILE: HEAD + "".join(map(written, FUNCTIONS)) + TAIL, QUESTIONS: layer_questions()}


if __name__ == "__main__":
    for path, text in generated().items():
        if "--print" in sys.argv:
            print(text, end="")
        else:
            path.write_text(text)
