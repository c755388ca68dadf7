"""Tables of a record of moe_layer.py: layers of experts and their peers. A speed is the peer's time over ours in the same run."""

from __future__ import annotations

import math
import statistics
import textwrap

from markdown_table import Row, table

PEERS = {"triton": "Triton, fp8", "deep_gemm": "DeepGEMM and Triton", "triton_kernels": "triton_kernels", "torch": "torch, bf16",
         "mxfp4": "ours, MXFP4 weights"}  # fmt: skip
ALWAYS = ("triton", "torch", "mxfp4")  # others have a column only where they ran
CLASSES = {"1 token": (1, 1), "8 to 512 tokens": (2, 512), "2,048 tokens or more": (513, math.inf)}
TARGETS = {
    "triton": {"1 token": 1.1, "8 to 512 tokens": 1.04, "2,048 tokens or more": 1.6},
    "deep_gemm": dict.fromkeys(CLASSES, 1.15),
    "torch": dict.fromkeys(CLASSES, 2.2),
}


def speed(row: Row, peer: str) -> str:
    return f"{row[peer + '_us'] / row['us']:.2f}" if f"{peer}_us" in row else ""


def left_out(rows: list[Row]) -> list[str]:
    """The peers that could not run, or were wrong, and why: a paragraph per reason."""
    words = (f"{PEERS[peer]} not measured: {why}." for row in rows for peer, why in row.get("missing", {}).items())
    return [textwrap.fill(each, 100, break_on_hyphens=False) for each in dict.fromkeys(words)]


def layers(rows: list[Row]) -> str:
    """Each layer and number of tokens: microseconds, and how many times as long the others take."""
    peers = [peer for peer in PEERS if peer in ALWAYS or any(f"{peer}_us" in row for row in rows)]
    lines = [
        [
            f"{row['layer']}{', bf16 x MXFP4' if row.get('gpt_oss') else ''}{', skewed' if row['skew'] else ''}",
            f"{row['tokens']:,}",
            f"{row['us']:.1f}",
            f"{row['products_us']:.1f}",
            f"{row['us'] / row['target_us']:.2f}",
            *(speed(row, peer) for peer in peers),
        ]
        for row in rows
    ]
    made = table(["layer", "tokens", "us", "products, us", "of its target", *(PEERS[peer] for peer in peers)], lines)
    return "\n\n".join([made, *left_out(rows)])


def classes(rows: list[Row]) -> str:
    """Geometric means of the speeds of fp8 layers against the peers of another library."""
    lines, rows = [], [row for row in rows if not row.get("gpt_oss")]
    targets_of = {peer: targets for peer, targets in TARGETS.items() if any(f"{peer}_us" in row for row in rows)}
    for name, (least, most) in CLASSES.items():
        of = [row for row in rows if least <= row["tokens"] <= most]
        cells = [name, str(len(of))]
        for peer, targets in targets_of.items():
            speeds = [row[f"{peer}_us"] / row["us"] for row in of if f"{peer}_us" in row]
            cells += [f"{statistics.geometric_mean(speeds):.2f}", f"{min(speeds):.2f}", f"{targets[name]:g}"] if speeds else [""] * 3
        lines.append(cells)
    heads = [head for peer in targets_of for head in (PEERS[peer], "worst", "target")]
    return table(["class", "layers", *heads], lines)
