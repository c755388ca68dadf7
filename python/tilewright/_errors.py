"""The error that a wrong call raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright._core import Finding


class InvalidCall(ValueError):
    """A call that cannot be carried out. `findings` has every mistake, the message one line for each."""

    def __init__(self, message: str, findings: list[Finding]) -> None:
        super().__init__(message)
        self.findings = findings
