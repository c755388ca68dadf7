"""Markdown tables for the pages that performance_page.py writes."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def shape(words: str) -> str:
    return words.strip("[]").replace(", ", " x ")
