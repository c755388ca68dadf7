"""The ranks over which the experts of layers are spread: what they agree on, and the checks of a call over them."""

from __future__ import annotations

import itertools
from typing import Any, Literal, NoReturn

import torch

from tilewright import _core
from tilewright._explanation import MoeExplanation
from tilewright.torch import _checks, _operators, _ranks_autograd, _sums  # noqa: F401  (defines the operators)
from tilewright.torch._checks import refuse
from tilewright.torch._exchange import Exchange, Sizes
from tilewright.torch._moe_checks import PLACES
from tilewright.torch._moe_passes import Given, Layer, forward_only
from tilewright.torch._placement import Placement
from tilewright.torch._rank_engine import RankEngine
from tilewright.torch._recipes import RECIPES

_NUMBERS = itertools.count()  # of the groups of this process


class ExpertGroup:
    """Ranks over which the experts of layers are spread, for `moe(..., group=)` and `Experts(..., group=)`.

    Each rank has some of the experts, and tokens. All ranks make a call together. Each token goes to the ranks of its experts,
    and the sum of their results comes back:

        group = ExpertGroup(process_group, max_tokens=512, experts=128, choices=8, hidden=2048)
        layer = Experts(128 // group.size, 2048, 768, group=group, dtype=torch.bfloat16)
        y = layer(x, chosen, weights)       # x [tokens, 2048], at most 512 tokens, none is fine; chosen [tokens, 8]

    Experts have the same numbers on all ranks, 0 to `experts` - 1. Rank r has experts r * n to (r + 1) * n - 1, where n is
    experts / ranks, unless a `placement` says otherwise. A group serves any number of layers, one call at a time.

    The tokens of all ranks come to each rank, padded to `max_tokens`. Each rank computes its experts, sums their results per
    token, and sends the sums back. The owner adds the sums in the order of the ranks in float32, and rounds once. Backward is
    the same in reverse, and every rank takes part in it. No size depends on the routing. On a GPU the host reads no ids.
    There, calls without gradients are one call of the library, which `combine` and `invariant` describe.

    With gradients enabled, a call's result always requires a gradient. Evaluate under torch.no_grad() on all ranks.

    Args:
        process_group: of torch.distributed, with gloo for CPUs or NCCL for GPUs. Or a DeviceMesh of one dimension. None: all
            processes.
        max_tokens: the most tokens of a rank in a call. Others are refused.
        experts: the number of routed experts on all ranks.
        choices: the number of experts that each token chooses.
        hidden: the columns of x.
        shared: the last `shared` experts of every rank. They take every token of that rank, with weight 1. Ranks have copies of
            them: the caller keeps these equal, and sums their gradients over the ranks. Default 0.
        recipe: how layers quantize their activations: "row", "tensor", "1x128" (default) or another recipe. `quantize` lists them.
        dtype: of x, of results and of what the ranks send: bfloat16 (default), float16 or float32.
        placement: int32 or int64 [experts, copies]: the physical number of each copy of an expert, -1 after the last. Physical
            number r * (n + shared) + i is place i of rank r, which has n experts and then the shared ones. Every place has
            one expert. An expert with several copies uses them in turn: a token's copy is its number on its rank, modulo the
            number of copies. The caller keeps copies equal, and sums their gradients. Default None: equal ranges.
        exchange: how tokens travel. `"peer"`: GPUs of a host read and write each other's memory. `"dense"`: collectives.
            Default None: "peer" where GPUs reach each other.
        combine: the results that each rank sends per token in calls without gradients. `"sums"`: the sum of its experts.
            `"rows"`: the result of each choice. The owner sums them in the order of one GPU.
            Default None: "sums", but "rows" with `invariant`, and on GPUs up to 64 max_tokens.
        invariant: calls without gradients have the bits of one rank, whatever the other ranks' tokens. Default False.
        sums: dtype of these sums, that of x (default) or torch.float32. With float32 all products read x as float32 too, in
            calls with gradients. On GPUs, sums without gradients are float32 or bfloat16.
        device: of x. Default: the current GPU with NCCL, else the CPU.

    Attributes:
        rank, size: this rank and the number of ranks.
        per_rank: the experts of a rank, with the shared ones: the first size of `up` and `down`.
        placement: int32 [experts, copies], physical numbers.

    Raises:
        ValueError: on every rank, if an argument is wrong on one of them, or differs. Later in a call, on every rank, if the
            call is wrong on one of them: at once on CPUs, at the next call or backward on GPUs.
        RuntimeError: in a call or a backward in which another rank does not take part, after the time-out of the process group.
            In peer memory: in the call after one that has waited so long for a rank; 20 seconds in calls without gradients.
    """

    def __init__(
        self,
        process_group: Any = None,
        *,
        max_tokens: int,
        experts: int,
        choices: int,
        hidden: int,
        shared: int = 0,
        recipe: str = "1x128",
        dtype: torch.dtype = torch.bfloat16,
        placement: torch.Tensor | None = None,
        exchange: Literal["dense", "peer"] | None = None,
        combine: Literal["rows", "sums"] | None = None,
        invariant: bool = False,
        sums: torch.dtype | None = None,
        device: Any = None,
    ) -> None:
        process_group = _process_group(process_group)
        self.rank, self.size = process_group.rank(), process_group.size()
        given = {
            "max_tokens": max_tokens, "experts": experts, "choices": choices, "hidden": hidden, "shared": shared,
            "recipe": recipe, "dtype": dtype, "exchange": exchange, "combine": combine, "invariant": invariant,
            "sums": sums or dtype,
        }  # fmt: skip
        failure = None
        try:
            self._device = _device(device, process_group)
            _check_options(given)
            if exchange == "peer" and self._device.type != "cuda":
                refuse("exchange", "'peer'", "None or 'dense' on CPUs", "Only GPUs read the memory of other ranks.")
            self._places = Placement(placement, experts, self.size, shared, self._device)
            given["placement"] = self._places.table.tolist()
        except ValueError as error:
            failure = error
        _agree(given, failure, process_group)
        self.max_tokens, self.experts, self.choices, self.hidden, self.shared = max_tokens, experts, choices, hidden, shared
        self.recipe, self.dtype, self._sums = recipe, dtype, sums or dtype
        self.per_rank, self.placement = self._places.per_rank, self._places.table
        description = getattr(process_group, "group_desc", "") or "torch.distributed"
        self.name = f"expert group {next(_NUMBERS)} of {description}"
        sizes = Sizes(max_tokens, choices + shared, self.per_rank, hidden, dtype, self._sums)
        self._exchange: Exchange | None = Exchange(process_group, self.name, sizes, self._device, exchange)
        self._process_group = process_group
        self._of_calls = (exchange, combine, invariant)
        self._calls: dict[str, _core.ExpertGroup] = {}
        self._engines: dict[str, RankEngine] = {}
        self._anchor = torch.zeros(1, dtype=torch.float32, device=self._device, requires_grad=True)

    def counts(self, ids: torch.Tensor) -> torch.Tensor:
        """How many choices of this rank name each expert, int32 [experts], on the device of ids. The host reads nothing.

        torch.distributed.all_reduce of it has the counts of all ranks.

        Args:
            ids: int32 or int64 of any shape, numbers of experts. Others are not counted.
        """
        if not isinstance(ids, torch.Tensor) or ids.dtype not in (torch.int32, torch.int64):
            refuse("ids", getattr(ids, "dtype", type(ids).__name__), "a tensor of int32 or int64")
        return self._places.counts(ids)

    @property
    def exchange(self) -> str:
        """How tokens travel without gradients, "peer" or "dense". Ahead of the first such call: the argument."""
        made = next(iter(self._calls.values()), None)
        return self._of_calls[0] or "automatic" if made is None else {"addresses": "peer", "collectives": "dense"}[made.exchange]

    @property
    def combine(self) -> str:
        """The results that ranks send without gradients, "rows" or "sums". Ahead of the first such call: the argument."""
        made = next(iter(self._calls.values()), None)
        return self._of_calls[1] or "automatic" if made is None else made.combine

    def check(self) -> None:
        """Raises what another rank has said since the last call: that its call was wrong, or that it did not come.

        A call without gradients on a GPU raises it at the next call. After the replays of a CUDA graph this is the way to know.
        """
        for made in self._calls.values():
            made.check()
        if self._exchange is not None:
            self._exchange.check()

    def close(self) -> None:
        """Ends the group on this rank and frees its memory. Later calls raise a ValueError. The process group stays."""
        if self._exchange is not None:
            self._exchange.close()
        if self._device.type == "cuda":  # calls may still use the memory of the groups
            torch.cuda.synchronize(self._device)
        self._exchange = None
        self._calls.clear()

    def check_layer(self, experts: int, hidden: int, shared: int, activations: str | None) -> None:
        """Refuses a layer that is not one of this group. activations: how its x is quantized, None: not known."""
        if self._exchange is None:
            refuse("group", f"{self.name}, which was closed", "an open group", "Make a new one.")
        if experts != self.per_rank:
            refuse("up", f"{experts} experts", f"{self.per_rank}, the experts of a rank", "Pass only the experts of this rank.")
        if hidden != self.hidden:
            refuse("up", f"{hidden} columns", f"{self.hidden}, hidden of the group")
        if shared not in (0, self.shared):
            refuse("shared", shared, f"{self.shared}, as in the group", "Leave it out, or change it in the group.")
        if activations not in (None, self.recipe):
            refuse("recipe", f"activations by {activations!r}", f"{self.recipe!r}, the recipe of the group")

    def check_call(self, x: torch.Tensor, experts: torch.Tensor, expert_map: torch.Tensor | None) -> None:
        """Refuses what `moe` accepts on one GPU only. The number of tokens is checked when they are sent."""
        if x.dtype != self.dtype:
            refuse("x", x.dtype, f"{self.dtype}, the dtype of the group")
        if x.device != self._device:
            refuse("x", f"a tensor on {x.device}", f"one on {self._device}, the device of the group")
        if experts.shape[-1] != self.choices:
            refuse("experts", list(experts.shape), f"[..., {self.choices}], the choices of the group")
        if expert_map is not None:
            refuse("expert_map", "a tensor", "None with a group", "Pass the placement to the ExpertGroup.")

    def has_one_call(self, *tensors: torch.Tensor | None) -> bool:
        """Whether a call without gradients is one of the library. All ranks come to the same answer, unless some compile."""
        exchange, combine, invariant = self._of_calls
        wanted = self._device.type == "cuda" or exchange == "peer" or combine == "rows" or invariant
        return wanted and self._exchange is not None and not _operators.is_watched(*tensors)

    def run(self, given: Given, up: Any, down: Any, layer: Layer) -> torch.Tensor:
        """A call without gradients. up and down: operands of the library."""
        made = self._made(layer.weights_at)

        def over_ranks(x: torch.Tensor, up: Any, down: Any, own: dict[str, Any], options: dict[str, Any]) -> torch.Tensor:
            invariant = self._of_calls[2] or options.get("invariant", False)
            result: torch.Tensor = made.moe(x, up, down, own, {**options, "invariant": invariant}, self._stream())
            return result

        return forward_only(given, up, down, layer, self.recipe, over_ranks)

    def _made(self, weights_at: str) -> _core.ExpertGroup:
        """The library's group for layers with weights at this place. Made at their first call, by all ranks together."""
        made = self._calls.get(weights_at)
        if made is not None:
            return made
        self._engines[weights_at] = RankEngine(self._process_group, self._device, self._of_calls[0] != "dense")
        self._calls[weights_at] = _core.ExpertGroup(self._engines[weights_at].ranks(), self._options(weights_at))
        return self._calls[weights_at]

    def _options(self, weights_at: str) -> dict[str, Any]:
        """The options of the library's group."""
        exchange, combine, invariant = self._of_calls
        return {
            "max_tokens": self.max_tokens, "hidden": self.hidden, "experts": self.experts, "choices": self.choices,
            "shared": self.shared, "activations": self.recipe, "x": _sums.OUTPUTS[self.dtype], "weights_at": weights_at,
            "exchange": {None: "automatic", "dense": "collectives", "peer": "addresses"}[exchange],
            "combine": combine or "automatic", "sums": "f32" if self._sums == torch.float32 else "bf16",
            "invariant": invariant, "per_rank": self.per_rank,
            "places": None if self._places.is_default else [[p for p in copies if p >= 0] for copies in self.placement.tolist()],
        }  # fmt: skip

    def explain(self, x: torch.Tensor, up: Any, down: Any, own: dict[str, Any], options: dict[str, Any]) -> MoeExplanation:
        """`explain_moe` for a call without gradients. No other rank takes part."""
        weights_at = own["weights_at"]
        exchange, why = self._way(weights_at)
        options = {**options, "invariant": self._of_calls[2] or options.get("invariant", False)}
        found = _core.explain_moe_over_ranks(
            x, up, down, own, options, self._options(weights_at), self.size, exchange == "peer"
        )
        names = {step.name for step in found[3]}
        means = "symmetric memory" if exchange == "peer" else "collectives"
        engine = f"{means} of torch.distributed, {self._process_group.name()}: {why}"
        return MoeExplanation(*found, self.size, engine, exchange, "sums" if "sums" in names else "rows")

    def _way(self, weights_at: str) -> tuple[str, str]:
        """How tokens travel without gradients, and why."""
        made = self._calls.get(weights_at)
        if made is not None:
            return {"addresses": "peer", "collectives": "dense"}[made.exchange], self._engines[weights_at].why
        if self._of_calls[0] is not None:
            return self._of_calls[0], f"the exchange of the group is {self._of_calls[0]}"
        if self._device.type != "cuda":
            return "dense", "the tokens are on CPUs"
        return "peer", "if the GPUs of all ranks reach each other's memory, which the first call finds out"

    def _stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0

    def take_part(self, error: Exception, trains: bool, weights_at: object) -> None:
        """Tells the other ranks of a wrong call, so that they end it, and raises the error."""
        if not trains and self.has_one_call():
            return self._made(weights_at if isinstance(weights_at, str) and weights_at in PLACES else "combine").decline(self._stream())
        if self._exchange is not None and not _operators.is_compiling():
            self._exchange.refuse(error, trains)

    def gather(self, x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor | None, trains: bool) -> Any:
        """x, local experts and weights of the tokens of all ranks, differentiable. See `_exchange.Tokens`."""
        numbers = self._places.physical(experts, self.rank)
        return torch.ops.tilewright.ranks_tokens(x, numbers, weights, self._anchor if trains else None, self.name)

    def sum(self, parts: torch.Tensor, addend: torch.Tensor | None, tokens: int) -> torch.Tensor:
        """The sums of this rank's tokens over all ranks, differentiable."""
        made: torch.Tensor = torch.ops.tilewright.ranks_sums(parts, addend, tokens, self.name)
        return made

    def __deepcopy__(self, _: Any) -> ExpertGroup:
        """A copy of a layer is in the same group."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "group: got an ExpertGroup to pickle; expected a state without it, because its ranks are processes. "
            "Save state_dict() of the layer."
        )

    def __repr__(self) -> str:
        return f"ExpertGroup(rank {self.rank} of {self.size}, experts={self.experts}, max_tokens={self.max_tokens})"


def check_group(group: object) -> None:
    if group is not None and not isinstance(group, ExpertGroup):
        refuse("group", type(group).__name__, "an ExpertGroup or None", "Make one: ExpertGroup(process_group, ...).")


def _process_group(given: Any) -> Any:
    """The process group. Its engine is that of torch.distributed."""
    distributed = torch.distributed
    if not _operators.AVAILABLE:
        raise RuntimeError(f"group: got torch {torch.__version__}; expected 2.4 or newer. Update torch.")
    if not distributed.is_available() or not distributed.is_initialized():
        refuse("process_group", "no process group", "an initialized torch.distributed", "Call init_process_group first.")
    if given is None:
        return distributed.group.WORLD
    if isinstance(given, distributed.device_mesh.DeviceMesh):
        if given.ndim != 1:
            refuse("process_group", f"a mesh of {given.ndim} dimensions", "one dimension", 'Pass a part of it, such as mesh["ep"].')
        return given.get_group()
    if not isinstance(given, distributed.ProcessGroup):
        refuse("process_group", type(given).__name__, "a ProcessGroup, a DeviceMesh or None", "Pass it on its members only.")
    return given


def _device(given: Any, process_group: Any) -> torch.device:
    if given is None:
        engines = str(torch.distributed.get_backend_config(process_group))
        given = "cuda" if "nccl" in engines and torch.cuda.is_available() else "cpu"
    device = torch.device(given)
    if device.type not in ("cpu", "cuda"):
        refuse("device", device, "a CPU or a CUDA GPU")
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device


def _check_options(given: dict[str, Any]) -> None:
    for name, least in (("max_tokens", 1), ("experts", 1), ("choices", 1), ("hidden", 1), ("shared", 0)):
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            refuse(name, repr(value), f"a whole number, {least} at least")
    activations = sorted({*_core.recipes(), *(recipe.activations for recipe in RECIPES.values())})
    if given["recipe"] not in activations:
        refuse("recipe", repr(given["recipe"]), "one of " + ", ".join(activations))
    if given["dtype"] not in _checks.REAL:
        refuse("dtype", given["dtype"], "float32, bfloat16 or float16")
    if given["sums"] not in (given["dtype"], torch.float32):
        refuse("sums", given["sums"], f"{given['dtype']} or torch.float32")
    for name, words in (("exchange", ("dense", "peer")), ("combine", ("rows", "sums"))):
        if given[name] not in (None, *words):
            refuse(name, repr(given[name]), f"None, {words[0]!r} or {words[1]!r}")
    if not isinstance(given["invariant"], bool):
        refuse("invariant", repr(given["invariant"]), "True or False")


def _agree(given: dict[str, Any], failure: ValueError | None, process_group: Any) -> None:
    """Compares the arguments of all ranks, and raises the same message on all of them. A rank's own failure is its own message."""
    mine = {name: str(value) for name, value in given.items()}
    all_given: list[Any] = [None] * process_group.size()
    torch.distributed.all_gather_object(all_given, (mine, None if failure is None else str(failure)), group=process_group)
    if failure is not None:
        raise failure
    for rank, (values, message) in enumerate(all_given):
        if message is not None:
            refuse("group", f"wrong arguments on rank {rank} ({message})", "correct ones on all ranks")
        for name, value in values.items():
            if value != all_given[0][0].get(name):
                advice = "Pass equal arguments to all ranks."
                refuse(name, f"{value} on rank {rank}", f"{all_given[0][0].get(name)}, as on rank 0", advice)
