"""An explanation as text, for `print(tilewright.explain(a, b))`, and as a table for notebooks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape

from tilewright import _core

# Terms of a predicted time, and the parts of `compute`.
_TERMS = ("preparation", "launch", "memory", "compute", "overlap", "reduction")
_PARTS = ("tensor", "promotion", "epilogue", "waves", "delivery")


def _time(seconds: float) -> str:
    if seconds < 1e-6:
        return f"{seconds * 1e9:.3g} ns"
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def _terms(cost: dict[str, float], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {_time(cost[name])}" for name in names if cost[name] > 0)


def headline(explanation: _core.Explanation) -> str:
    """The choice in one line."""
    plan = explanation.chosen
    if plan is None:
        return "no Hopper kernel: " + "; ".join(finding.message() for finding in explanation.unavailable)
    if plan.grid == 0:
        return "D is empty: nothing is launched"
    return f"{plan.tile}, {plan.variant} kernel, {_time(plan.seconds)} predicted"


def device(explanation: _core.Explanation | MoeExplanation) -> str:
    """Which figures of the GPU the prediction takes on trust."""
    if not explanation.assumed:
        return f"{explanation.device}: all figures measured"
    return f"{explanation.device}: assumed {', '.join(explanation.assumed)}; all other figures measured"


def _step(step: _core.WorkspaceStep) -> str:
    return f"{step.operand} {step.what}, {step.bytes / 1024:.0f} KiB: {step.why}"


def _rows(explanation: _core.Explanation) -> list[tuple[str, str]]:
    """The lines after the headline: a word and its text."""
    plan = explanation.chosen
    if plan is None or plan.grid == 0:
        return []
    rows = [
        ("device", device(explanation)),
        *(("first", _step(step)) for step in explanation.first),
        *((word, plan.path[word]) for word in ("feed", "loop", "scales", "output")),
        ("launch", f"{plan.tiles} tiles on {plan.grid} blocks of {plan.threads} threads, {plan.waves:.2f} waves"),
        ("shared memory", f"{plan.shared_bytes / 1024:.0f} KiB per block"),
        ("time", f"{_terms(plan.cost, _TERMS)}; the longer of memory and compute counts"),
        ("compute", _terms(plan.cost, _PARTS)),
    ]
    if explanation.next_best is not None:
        rows.append(("next best", f"{explanation.next_best.tile}, {_time(explanation.next_best.seconds)}"))
    rejected = Counter(tile.rule for tile in explanation.rejected)
    rules = ", ".join(f"{rule} {count}" for rule, count in rejected.items())
    candidates = len(explanation.rejected) + len(explanation.legal)
    count = f"{len(explanation.rejected)} of {candidates} candidates"
    rows.append(("rejected", count + (f" ({rules})" if rules else "")))
    return rows


def text(explanation: _core.Explanation) -> str:
    """The choice, where its predicted time goes, the next best, and why the others could not be chosen."""
    return "\n".join([headline(explanation), *(f"{word}: {what}" for word, what in _rows(explanation))])


def html(explanation: _core.Explanation) -> str:
    """The same as a table."""
    title = f"<caption>{escape(headline(explanation))}</caption>"
    rows = [f"<tr><th>{escape(word)}</th><td>{escape(what)}</td></tr>" for word, what in _rows(explanation)]
    return f"<table>{title}{''.join(rows)}</table>"


@dataclass(frozen=True, repr=False)
class MoeExplanation:
    """How a GPU would compute a layer of experts. `print` shows it as text, a notebook as a table.

    Over ranks it is a round on each rank, which is expected to have as many tokens as there is room for.
    """

    device: str
    """Name of the GPU that is planned for."""
    assumed: list[str]
    """The GPU's figures that were not measured."""
    unavailable: list[_core.Finding]
    """Why no kernels serve the layer; there are no steps then."""
    steps: list[_core.MoeStep]
    """In their order. Each has a name, what it does, seconds, bytes, link_bytes, exposed_seconds and launches."""
    ranks: int = 1
    """The ranks over which the experts are spread."""
    engine: str = ""
    """How tokens and results travel between ranks, and why; empty for one rank."""
    exchange: str = ""
    """"peer" or "dense"; empty for one rank."""
    combine: str = ""
    """"rows" or "sums"; empty for one rank."""

    @property
    def seconds(self) -> float:
        """Predicted."""
        return sum(step.seconds for step in self.steps)

    @property
    def bytes(self) -> int:
        """Through HBM."""
        return sum(step.bytes for step in self.steps)

    @property
    def link_bytes(self) -> int:
        """From other ranks."""
        return sum(step.link_bytes for step in self.steps)

    @property
    def exposed_seconds(self) -> float:
        """The part of `seconds` that waits for other ranks, and that no other work hides."""
        return sum(step.exposed_seconds for step in self.steps)

    @property
    def launches(self) -> int:
        """Kernels and collectives."""
        return sum(step.launches for step in self.steps)

    def _headline(self) -> str:
        if self.unavailable:
            return "no Hopper kernel: " + "; ".join(finding.message() for finding in self.unavailable)
        over = f" on each of {self.ranks} ranks, {_time(self.exposed_seconds)} of it exposed" if self.engine else ""
        return f"{self.launches} launches, {_time(self.seconds)} predicted{over}"

    def _rows(self) -> list[tuple[str, str]]:
        """The lines after the headline: a word and its text."""
        if self.unavailable:
            return []
        rows = [("device", device(self))]
        if self.engine:
            travel = f"{self.exchange}, {self.combine}, {_bytes(self.link_bytes)} from other ranks"
            rows += [("engine", self.engine), ("exchange", travel)]
        return rows + [(step.name, _moe_step(step, bool(self.engine))) for step in self.steps]

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"{word}: {what}" for word, what in self._rows())])

    def __repr__(self) -> str:
        return f"<MoeExplanation: {self._headline()}>"

    def _repr_html_(self) -> str:
        rows = [f"<tr><th>{escape(word)}</th><td>{escape(what)}</td></tr>" for word, what in self._rows()]
        return f"<table><caption>{escape(self._headline())}</caption>{''.join(rows)}</table>"


def _bytes(count: int) -> str:
    if count < 1 << 10:
        return f"{count} B"
    return f"{count / (1 << 10):.3g} KiB" if count < 1 << 20 else f"{count / (1 << 20):.4g} MiB"


def _moe_step(step: _core.MoeStep, has_ranks: bool) -> str:
    words = [step.what, _time(step.seconds), _bytes(step.bytes)]
    if step.launches != 1:
        words.append(f"{step.launches} launches" if step.launches else "within the next launch")
    if has_ranks and step.link_bytes:
        words.append(f"{_bytes(step.link_bytes)} from other ranks")
    if step.exposed_seconds > 0:
        words.append(f"{_time(step.exposed_seconds)} exposed")
    return ", ".join(words)
