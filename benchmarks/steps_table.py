"""Tables of training steps: a step of single layers with the host's time (training_step.py), and the share of quantizers (training_share.py)."""

from __future__ import annotations

from markdown_table import Row, table
from records import on_device

SUFFIXES = {"training step": "", "captured training step": ", captured", "forward and backward of experts": ", no optimizer"}


def steps(rows: list[Row]) -> str:
    """Steps of single layers and the host's time."""
    columns = ["layer", "torch bf16", *(f"`{recipe}`" for recipe in rows[0]["us"]), "speed", "target"]
    lines = []
    for row in rows:
        host = "target_us" in row
        speed = row["torch_bf16_us"] / min(row["us"].values())
        target = f"{row['target_us']:.0f} us" if host else f"{row['target']:.2f}"
        name = f"host only, {row['layer']}" if host else row["layer"] + SUFFIXES[row["figure"]]
        lines.append([name, f"{row['torch_bf16_us']:.0f}", *(f"{us:.0f}" for us in row["us"].values()), f"{speed:.2f}", target])
    origin = f"{rows[0]['device']}, commit {rows[0]['commit'][:7]}, {rows[0]['date']}, torch {rows[0]['torch']}."
    return f"{origin} Times are in us.\n\n{table(columns, lines)}"


def share(rows: list[Row]) -> str:
    """A step's microseconds and the share of quantizers."""
    rows = [row for row in rows if row["microbatches"] == 1]
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        cells.setdefault(row["layer"], {})[row["recipe"]] = f"{row['us']:.0f}, {row['share']:.0%}".replace("%", " %")
    copied = " The lines were copied from an older page, which had\nrounded them." if "copied_from" in rows[0] else ""
    head = ["layer: tokens x K -> N, or groups x tokens x K -> N", *(f"`{recipe}`" for recipe in recipes)]
    lines = [[layer, *(of.get(recipe, "") for recipe in recipes)] for layer, of in cells.items()]
    return f"{on_device(rows)}{copied}\n\n{table(head, lines)}"
