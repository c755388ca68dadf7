"""The unit between the two products of a layer of experts, as an option of a layer. `tilewright.moe` describes the units."""

from __future__ import annotations

from typing import Any, NamedTuple

UNITS = ("swiglu", "situ", "geglu", "relu_squared")


def numbers_of(*given: float) -> list[float]:
    """Whole numbers as float. Others stay as they are, for the check of all arguments to refuse."""
    return [float(n) if isinstance(n, int) and not isinstance(n, bool) else n for n in given]


class Unit(NamedTuple):
    """The unit of a layer, with the numbers that the kind uses."""

    kind: str
    alpha: float
    beta: float
    limit: float
    gate_bound: float
    up_bound: float
    interleaved: bool

    @property
    def keywords(self) -> dict[str, Any]:
        """The unit as keywords of `tilewright.moe`."""
        own = self._asdict()
        return {"activation": own.pop("kind"), **own}

    @property
    def gates(self) -> int:
        """Rows of W_up per feature of h."""
        return 1 if self.kind == "relu_squared" else 2
