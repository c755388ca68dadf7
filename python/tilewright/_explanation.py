"""An explanation as text, for `print(tilewright.explain(a, b))`, and as a table for notebooks."""

from __future__ import annotations

from collections import Counter
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


def device(explanation: _core.Explanation) -> str:
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
