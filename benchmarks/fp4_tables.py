"""The tables of docs/performance.md on FP4 weights, of the record of `make gpu-packed`."""

from __future__ import annotations

import re

from markdown_table import Row, shape, table

PACKED = ("1x128:mxfp4", "row:mxfp4", "bf16:mxfp4", "bf16:nvfp4")
SHORT_BLOCKS = ("mxfp8:mxfp8", "mxfp8:mxfp4", "mxfp4:mxfp4", "nvfp4:nvfp4")


def product_of(row: Row) -> str:
    """Of masked groups with the mean of rows, without the room for them."""
    sizes = row["shape"] if row["op"] != "m_grouped_masked" else [row["shape"][0], *row["shape"][2:]]
    kind = {"dense": "dense", "m_grouped_masked": "masked", "m_grouped_contiguous": "exact ends"}[row["op"]]
    return f"{kind} {shape(str(sizes))}"


def cell_of(row: Row) -> str:
    return f"{row['us']:.1f}, {row['us'] / row['floor_us']:.2f}"


def packed(rows: list[Row], recipes: tuple[str, ...] = PACKED) -> str:
    us: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["recipe"] not in recipes:
            continue
        wide = re.search(r"--wide-rows (\d+)", row["command"])
        words = {None: "", "1": ", all rows wide"}.get(wide and wide[1], f", one row in {wide[1]} wide" if wide else "")
        words += ", not packed" if "--unpacked" in row["command"] else ""
        us.setdefault(product_of(row) + words, {})[row["recipe"]] = cell_of(row)
    return table(["", *recipes], [[name, *(cells.get(r, "") for r in recipes)] for name, cells in us.items()]) if us else ""


def pairs(rows: list[Row]) -> str:
    """A line for each recipe that rows have and the other tables do not, a column for each product."""
    cells: dict[str, dict[str, str]] = {}
    others = (None, *PACKED, *SHORT_BLOCKS)
    for row in filter(lambda row: "floor_us" in row and row.get("recipe") not in others, rows):
        cells.setdefault(row["recipe"], {})[product_of(row)] = cell_of(row)
    products = list(dict.fromkeys(product for of in cells.values() for product in of))
    return table(["", *products], [[recipe, *(of.get(product, "") for product in products)] for recipe, of in cells.items()])


def short_blocks(rows: list[Row]) -> str:
    """MXFP8 and FP4 activations. Nothing without a record."""
    text = packed(rows, SHORT_BLOCKS)
    return "The same of activations with scales of 32 and 16 of k:\n\n" + text if text else ""
