"""The C++ half of tilewright. Use the functions of `tilewright` itself."""

from collections.abc import Sequence
from typing import NoReturn, overload


class Finding:
    """One mistake in a call."""

    def __init__(self, operand: str, given: str, expected: str, advice: str = '') -> None: ...

    @property
    def operand(self) -> str:
        """What is wrong: 'b.scales'."""

    @property
    def given(self) -> str:
        """What it is: '[56, 16]'."""

    @property
    def expected(self) -> str:
        """What it must be."""

    @property
    def advice(self) -> str:
        """What to do about it; may be empty."""

    def message(self) -> str:
        """All of it in one sentence."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple:
        """For pickle: errors go from one process to another."""

def register_dtype(dtype: object, format: str, carrier: object | None) -> None:
    """
    Arrays of `dtype` hold `format` and are read through `array.view(carrier)`; '' = not accepted.
    """

class Operand:
    """Values with their scales, viewed once."""

    @overload
    def __init__(self, values: object | None, recipe: object | None, scales: object | None, tensor_scale: object | None) -> None: ...

    @overload
    def __init__(self, packed: object | None, header: object | None) -> None: ...

    @property
    def values(self) -> object:
        """The array given as values."""

    @property
    def scales(self) -> object:
        """The array given as scales; None without."""

    @property
    def tensor_scale(self) -> object:
        """The array given as tensor scale; None without."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements (not bytes), as the values are stored."""

    @property
    def addresses(self) -> list[int]:
        """
        Of values, scales and tensor scale: those of the arrays, for nothing is copied.
        """

class RawArray:
    """Memory by its address, as an array."""

    def __init__(self, address: int, shape: Sequence[int], format: str, strides: Sequence[int] | None = None, device: str = 'cuda:0') -> None:
        """
        Shape and strides count elements, of e2m1 too; without strides: row-major. The caller keeps the memory alive until the GPU is done with it.
        """

    @property
    def address(self) -> int:
        """As given."""

    @property
    def shape(self) -> list[int]:
        """Sizes in elements."""

    @property
    def format(self) -> str:
        """e.g. 'e4m3'."""

    def __repr__(self) -> str: ...

class Plan:
    """How a GPU would compute a call."""

    @property
    def tile(self) -> str:
        """'256x128x128 stages=4'."""

    @property
    def variant(self) -> str:
        """Which of the tile's kernels: 'fast', ..."""

    @property
    def seconds(self) -> float:
        """Predicted."""

    @property
    def cost(self) -> dict[str, float]:
        """Predicted seconds and their terms: memory, compute, launch, ..."""

    @property
    def path(self) -> dict[str, str]:
        """How operands, scales and D travel: 'feed', 'loop', 'scales', 'output'."""

    @property
    def tiles(self) -> int:
        """Tiles of D, all groups together."""

    @property
    def waves(self) -> float:
        """Tiles over the blocks that run at once."""

    @property
    def grid(self) -> int:
        """Thread blocks; 0: nothing to launch."""

    @property
    def threads(self) -> int:
        """Of a block."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""

    def __repr__(self) -> str: ...

class WorkspaceStep:
    """What a call writes into its workspace before the product."""

    @property
    def operand(self) -> str:
        """'a.values', ..."""

    @property
    def what(self) -> str:
        """'copied along k', ..."""

    @property
    def why(self) -> str:
        """The reason, in words."""

    @property
    def bytes(self) -> int:
        """In the workspace."""

    def __repr__(self) -> str: ...

class RejectedTile:
    """A tile that cannot be, and why."""

    @property
    def tile(self) -> str:
        """As Plan.tile."""

    @property
    def rule(self) -> str:
        """'shared memory', 'registers', ..."""

    @property
    def reason(self) -> str:
        """With its numbers."""

    def __repr__(self) -> str: ...

class Explanation:
    """Everything behind the choice of a plan."""

    @property
    def device(self) -> str:
        """Name of the GPU that is planned for."""

    @property
    def assumed(self) -> list[str]:
        """The GPU's figures that were not measured."""

    @property
    def unavailable(self) -> list[Finding]:
        """Why no kernel serves the call; all else is empty then."""

    @property
    def first(self) -> list[WorkspaceStep]:
        """What is written into the workspace before the product."""

    @property
    def chosen(self) -> Plan | None:
        """The plan."""

    @property
    def next_best(self) -> Plan | None:
        """The fastest that differs in more than its stages."""

    @property
    def legal(self) -> list[Plan]:
        """Every plan that could be, fastest first."""

    @property
    def rejected(self) -> list[RejectedTile]:
        """What could not."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def multiply(a: object | None, b: object | None, groups: dict, options: dict) -> object:
    """
    Computes D and returns it; on a GPU: enqueues that on the option `stream`, or else on the current one.
    """

def validate(a: object | None, b: object | None, groups: dict, options: dict) -> list[Finding]:
    """All that is wrong with the call."""

def workspace_bytes(a: object | None, b: object | None, groups: dict, options: dict) -> int:
    """What a call on a GPU needs beyond its arrays; 0 for a wrong one."""

def explain(a: object | None, b: object | None, groups: dict, options: dict) -> Explanation:
    """The planner's choice for the option `planned_device`."""

def scales_to_copy(a: object | None, b: object | None, groups: dict, options: dict) -> tuple[bool, bool]:
    """Whether a copy of the scales of a, and of b, saves more than it takes."""

def device_word(name: object | None) -> str:
    """
    'automatic', the name of a known GPU, or the absolute path of a device file. Raises InvalidCall for others.
    """

def refuse(operand: str, given: str, expected: str, advice: str = '') -> NoReturn:
    """Raises InvalidCall with one finding."""

def quantize(x: object | None, recipe: object | None, round_up: object | None, deep_gemm: object | None, threads: object | None, stream: object | None) -> tuple[object, object, object]:
    """New arrays (values, scales or None, tensor_scale or None)."""

def dequantize(operand: object | None, dtype: object | None, threads: object | None) -> object:
    """A new array of `dtype`."""

def encode(x: object | None, format: object | None, saturate: object | None) -> object:
    """A new array of codes."""

def decode(codes: object | None, format: object | None) -> object:
    """A new array of float32."""

def pack_weights(weights: object | None, activations: object | None, threads: object | None, stream: object | None) -> object:
    """A new array of uint8, where the weights are."""

def unpack_weights(packed: object | None, threads: object | None) -> tuple[object, object, object]:
    """New arrays (values, scales, tensor_scale or None)."""

def packed_header(packed: Operand) -> bytes:
    """The header's bytes."""

def packed_recipe(packed: Operand) -> str:
    """'mxfp4' or 'nvfp4'."""

def packed_for(packed: Operand) -> str:
    """'fp8' or 'bf16'."""

def packed_version(packed: Operand) -> int:
    """Of the layout."""

def quantize_tokens(x: object | None, ends: object | None, rows: object | None, columns: object | None, activation: object | None, gradient: object | None, index: object | None, form: tuple, factors: tuple, round_up: object | None, threads: object | None, stream: object | None) -> tuple[object, object]:
    """New arrays (values, scales) of rows and of columns, or None."""

def transpose_codes(rows: object | None, ends: object | None, columns: object | None, threads: object | None, stream: object | None) -> tuple[object, object]:
    """New arrays (values, scales)."""

def linear_recipes() -> dict[str, tuple[object, ...]]:
    """The fields of LayerRecipe by name of the recipe."""

def linear_forward(x: object, w: object, copy: object | None, bias: object | None, ends: object | None, recipe: str, promoted: bool, keeps: bool, options: str) -> tuple[object, object, object]:
    """
    New arrays: y; (values, scales) that backward needs for dW, or None; the copy of w, or None where one is given.
    """

def linear_backward(dy: object, x: object | None, w: object | None, ends: object | None, main_grad: object | None, recipe: str, gradient_format: str, promoted: bool, wanted: tuple[bool, bool], dtype: str, options: str) -> tuple[object, object]:
    """New arrays dx and dw, each or None; with main_grad, dw is main_grad."""

class LinearCall:
    """A call of a layer, from forward to backward."""

    @property
    def is_differentiable(self) -> bool:
        """Whether a gradient is wanted."""

    @property
    def reads_w_again(self) -> bool:
        """Whether backward quantizes W itself."""

    @property
    def wants_w(self) -> bool:
        """Of the gradients."""

    @property
    def wants_bias(self) -> bool:
        """Of the gradients."""

    @property
    def w_shape(self) -> object:
        """Of W."""

    @property
    def w_format(self) -> str:
        """Of W."""

    @property
    def bias_format(self) -> str | None:
        """Of the bias; None without."""

    def forward(self) -> object:
        """Y, and the bytes that backward needs, or None."""

    def backward(self, dy: object | None, kept: object | None, w: object | None, ends: object | None, main_grad: object | None) -> object:
        """dX and dW, each or None. None: the general way has to take the call."""

    def parts(self) -> object:
        """Where the operands are in the bytes that forward kept."""

class LinearCalls:
    """The calls of layers that have the same options."""

    def __init__(self, recipe: str, gradient_format: str, promoted: bool, requantizes: bool, options: str) -> None: ...

    def call(self, x: object | None, w: object | None, bias: object | None, ends: object | None, main_grad: object | None) -> LinearCall | None:
        """
        The call. None: the general way has to take it, because it is wrong, observed or unusual.
        """

def moe(x: object | None, up: object | None, down: object | None, layer: dict, groups: dict, options: dict) -> object:
    """
    Computes a layer of experts and returns it; on a GPU: enqueues that on the option `stream`, or else on the current one.
    """

def route(experts: object | None, num_experts: object | None, weights: object | None, expert_map: object | None, shared: object | None, stream: object | None) -> tuple[object, object, object, object]:
    """New arrays: rows, sources, ends, and weights of rows or None."""

def combine(y: object, rows: object, weights: object | None, addend: object | None, dtype: object) -> object:
    """
    A new array: the sum of the rows of each token, as in the last step of a layer.
    """

def activate(gate_up: object, ends: object | None, unit: dict) -> object:
    """
    A new array, f32 [rows, inner]: the unit of rows. Those from the last end on hold anything. `unit` has keywords of moe.
    """

def unit_gradient(gate_up: object, gradient: object, ends: object | None, unit: dict) -> object:
    """
    A new array, f32: the gradient of gate_up, from that of `activate`'s result.
    """

def weight_gradient(gate_up: object, gradient: object, rows: object, count: object, unit: dict) -> object:
    """
    A new array, f32 [T, count]: the gradients of the first weights of each token. `unit` has keywords of moe.
    """

class MoeStep:
    """A kernel of a layer of experts; over ranks, a step of a round."""

    @property
    def name(self) -> str:
        """'route', 'permute', 'up', 'barrier', ..."""

    @property
    def what(self) -> str:
        """The plan of a product; else what the step does."""

    @property
    def seconds(self) -> float:
        """Predicted."""

    @property
    def bytes(self) -> int:
        """Through HBM."""

    @property
    def link_bytes(self) -> int:
        """From other ranks."""

    @property
    def exposed_seconds(self) -> float:
        """The part of `seconds` that waits for other ranks."""

    @property
    def launches(self) -> int:
        """Kernels and collectives; 0: the next step's kernel does it too."""

    def __repr__(self) -> str: ...

def validate_moe(x: object | None, up: object | None, down: object | None, layer: dict, groups: dict, options: dict) -> list[Finding]:
    """All that is wrong with a layer of experts."""

def explain_moe(x: object | None, up: object | None, down: object | None, layer: dict, groups: dict, options: dict) -> tuple[str, list[str], list[Finding], list[MoeStep]]:
    """
    The device, its figures that were not measured, why no kernels serve the layer, and its steps.
    """

class Ranks:
    """The ranks of an engine. A group takes them."""

def ranks_of_callables(rank: int, size: int, device: int, engine: str, functions: dict) -> Ranks:
    """
    Ranks of functions: share, allocate, addresses, all_gather, all_to_all. `device`: of CUDA, -1: the CPU.
    """

def ranks_of_threads(size: int, device: int) -> list:
    """Ranks that are threads of this process, in a list."""

def ranks_of_nccl(communicator: int, stream: int) -> Ranks:
    """The ranks of an ncclComm_t. Both are addresses."""

def explain_moe_over_ranks(x: object, up: object, down: object, layer: dict, options: dict, group: dict, ranks: int, has_addresses: bool) -> tuple[str, list[str], list[Finding], list[MoeStep]]:
    """
    As explain_moe, for a round of a call over ranks. `group` has the options of ExpertGroup.
    """

most_ranks_with_addresses: int = 16

peer_alignment: int = 128

class PeerExchange:
    """The exchanges of training through memory that all ranks reach."""

    def __init__(self, ranks: Ranks, gathered: int, handed_back: int, seconds: float) -> None:
        """
        gathered: the most bytes of a rank. handed_back: the most from one rank to another. By all ranks together.
        """

    def gather(self, parts: Sequence[tuple[int, int, int]], stream: int) -> None:
        """Brings (from, bytes, to) of each rank to all. By all ranks together."""

    def hand_back(self, parts: Sequence[tuple[int, int]], stream: int) -> list[int]:
        """
        Brings part r of (from, bytes of a part) to rank r. Returns the addresses of what came here.
        """

    def lost(self) -> tuple[int, int, bool] | None:
        """
        The rank that did not come, its turn, and whether it lacks in a gather; or None.
        """

class ExpertGroup:
    """A group of ranks over which the experts of layers are spread."""

    def __init__(self, ranks: Ranks, options: dict) -> None: ...

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def exchange(self) -> str:
        """collectives or addresses"""

    @property
    def combine(self) -> str:
        """rows or sums"""

    def check(self) -> None:
        """Raises what another rank has said since the last call."""

    def decline(self, stream: int) -> None:
        """Takes part in a call without tokens."""

    def moe(self, x: object, up: object, down: object, layer: dict, options: dict, stream: int) -> object:
        """
        A layer with the tokens and the experts of this rank. By all ranks together.
        """

def recipes() -> list[str]:
    """The names of all accepted recipes."""

version: str = '0.1.0'
