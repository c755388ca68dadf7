"""Tables of a record of moe_layer.py: layers of experts and their peers. A speed is the peer's time over ours in the same run."""

from __future__ import annotations

import math
import statistics

from markdown_table import Row, table

PEERS = {"triton": "Triton, fp8", "torch": "torch, bf16", "mxfp4": "ours, MXFP4 weights"}
CLASSES = {"1 token": (1, 1), "8 to 512 tokens": (2, 512), "2,048 tokens or more": (513, math.inf)}
TARGETS = {"triton": {"1 token": 1.1, "8 to 512 tokens": 1.04, "2,048 tokens or more": 1.6}, "torch": dict.fromkeys(CLASSES, 2.2)}


def speed(row: Row, peer: str) -> str:
    return f"{row[peer + '_us'] / row['us']:.2f}" if f"{peer}_us" in row else ""


def layers(rows: list[Row]) -> str:
    """Each layer and number of tokens: microseconds, and how many times as long the others take."""
    lines = [
        [
            f"{row['layer']}{', skewed' if row['skew'] else ''}",
            f"{row['tokens']:,}",
            f"{row['us']:.1f}",
            f"{row['products_us']:.1f}",
            f"{row['us'] / row['target_us']:.2f}",
            *(speed(row, peer) for peer in PEERS),
        ]
        for row in rows
    ]
    return table(["layer", "tokens", "us", "products, us", "of its target", *PEERS.values()], lines)


def classes(rows: list[Row]) -> str:
    """Geometric means of the speeds against the peers of another library."""
    lines = []
    for name, (least, most) in CLASSES.items():
        of = [row for row in rows if least <= row["tokens"] <= most]
        cells = [name, str(len(of))]
        for peer, targets in TARGETS.items():
            speeds = [row[f"{peer}_us"] / row["us"] for row in of if f"{peer}_us" in row]
            cells += [f"{statistics.geometric_mean(speeds):.2f}", f"{min(speeds):.2f}", f"{targets[name]:g}"] if speeds else [""] * 3
        lines.append(cells)
    heads = [head for peer in TARGETS for head in (PEERS[peer], "worst", "target")]
    return table(["class", "layers", *heads], lines)
