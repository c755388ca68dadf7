"""The error that a wrong call raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright._core import Finding


class InvalidCall(ValueError):
    """A call that cannot be carried out. `findings` has every mistake, the message one line for each."""

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings = list(findings)

    def __reduce__(self) -> tuple[type[InvalidCall], tuple[str, list[Finding]]]:
        """Workers of multiprocessing send it to their parent, which would wait forever for one that has no pickle."""
        return type(self), (str(self), self.findings)
