"""Tables of a record of generate.py: models of transformers with our experts and with transformers' own."""

from __future__ import annotations

from markdown_table import Row, table

TOKENS = (1, 8, 64, 2048)


def blocks(rows: list[Row]) -> str:
    """Device time of one layer's experts: grouped_mm's over ours, at each number of tokens."""
    of = [row for row in rows if row["table"] == "block"]
    names = list(dict.fromkeys((row["model"], row["recipe"]) for row in of))
    cells = {(row["model"], row["recipe"], row["tokens"]): f"{row['ratio']:.2f}x" for row in of}
    lines = [[model, f"`{recipe}`", *(cells[model, recipe, tokens] for tokens in TOKENS)] for model, recipe in names]
    heads = [f"{tokens:,} token{'s' * (tokens > 1)}" for tokens in TOKENS]
    return table(["experts of a layer", "recipe", *heads], lines)


def models(rows: list[Row]) -> str:
    """Tokens per second of whole models, the share of their experts in the time, and the logits' difference."""
    lines = [
        [
            row["model"],
            f"`{row['recipe']}`",
            f"{row['batch']} sequence{'s' * (row['batch'] > 1)}" if row["batch"] else f"prefill of {row['tokens']:,}",
            f"{row['per_second']:,.0f}",
            f"{row['peer_per_second']:,.0f}",
            f"{row['ratio']:.2f}x",
            f"{row['share']:.0%}, {row['peer_share']:.0%}".replace("%", " %"),
            f"{row['logits']:.2f}, {row['error']:.2f}",
        ]
        for row in rows
        if row["table"] == "model"
    ]
    heads = ["model", "recipe", "batch", "tokens/s", "grouped_mm", "ratio", "share of experts: ours, theirs", "logits: largest, relL2"]
    return table(heads, lines)


def hosts(rows: list[Row]) -> str:
    """Host time of a call of tw.moe, of a module's call, and of one that computes nothing."""
    lines = [
        [row["model"], f"`{row['recipe']}`", f"{row['direct_us']:.0f}", f"{row['module_us']:.0f}", f"{row['engine_us']:.0f}", f"{row['added_us']:.0f}", f"{row['target']:.0f}"]
        for row in rows
        if row["table"] == "host"
    ]
    return table(["model", "recipe", "`tw.moe`, us", "module, us", "transformers' own part", "added, us", "target"], lines)
