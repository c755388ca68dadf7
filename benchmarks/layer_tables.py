"""The tables of docs/performance.md on what a training step runs: gradients, of the record of `make gpu-gradients`, and quantisers."""

from __future__ import annotations

from markdown_table import Row, shape, table


def gradients(rows: list[Row]) -> str:
    """D = D + A B of f32, dense and of groups of k: one matrix after another, and aligned segments as quantisers write them, also D = A B
    of bf16."""
    us: dict[str, dict[str, float]] = {}
    columns: dict[str, None] = {}
    for row in rows:
        if not row.get("accumulates") and not row["op"].startswith("k_grouped"):
            continue
        first = "" if row["op"] == "dense" else f"{row['shape'][0]} x "
        column = row["recipe"] + (", aligned" if row["op"] == "k_grouped_aligned_offsets" else "") + ("" if row.get("accumulates") else ", bf16")
        columns[column] = None
        us.setdefault(first + shape(str(row["shape"][-3:])), {})[column] = row["us"]
    names = sorted(columns, key=lambda column: ("aligned" in column, "bf16" in column))
    return table(["", *names], [[name, *(f"{cells[c]:.4g}" if c in cells else "" for c in names)] for name, cells in us.items()])


# Features of a token and of an expert, by model: weights [2 x inner, outer] of gate and up, [outer, inner] of down.
EXPERTS = {"DeepSeek-V3": (7168, 2048), "Qwen3-235B": (4096, 1536), "gpt-oss": (2880, 2880)}


def dgrad(rows: list[Row]) -> str:
    """Forward of experts and the gradient of its tokens, which reads the same weights along their rows. Nothing without a record."""
    us = {(row["layout"], *row["shape"][-2:], row["recipe"]): row["us"] for row in rows
          if row["op"] == "m_grouped_contiguous"}
    if not us:
        return ""
    lines = []
    for model, (outer, inner) in EXPERTS.items():
        for part, n, k in (("gate and up", 2 * inner, outer), ("down", outer, inner)):
            of = [(us[forward], us[backward]) for recipe in ("tensor:tensor", "row:row")
                  if (forward := ("nt", n, k, recipe)) in us and (backward := ("nn", k, n, recipe)) in us]
            if len(of) == 2:
                lines.append([f"{model}, {part}, {n} x {k}", *(f"{ours:.4g}, {theirs:.4g}, {theirs / ours:.2f}" for ours, theirs in of)])
    return ("8 groups of 2,048 tokens: forward, dgrad (layout nn: the same weights, along their rows) in microseconds, and the ratio:\n\n" +
            table(["weights, n x k of forward", "tensor:tensor", "row:row"], lines))


def quantisers(rows: list[Row], origin: str, head: str = "## Quantisers\n\n") -> str:
    (tokens,), (features,), (groups,) = ({row[key] for row in rows} for key in ("tokens", "features", "groups"))
    cells = {row["form"]: [row["form"], f"{row['us']:.1f}", f"{row['mb']:.0f}", f"{row['tbs']:.2f}"] for row in rows}
    return (f"{head}{origin} {tokens} tokens of {features} features in {groups} groups, bf16 to e4m3 and e2m1; the bytes are those that\n"
            "must be read and written. Last, as many MXFP4 weights are packed.\n\n" + table(["", "us", "MB", "TB/s"], [*cells.values()]))
