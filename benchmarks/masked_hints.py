#!/usr/bin/env python3
"""Measures the cost of a wrong hint for masked groups, on the GPU of this machine.

For each shape it times the kernels that the planner chooses with `expected_m` of 0.5 to 2 times the true mean.

    benchmarks/masked_hints.py [--tilewright build/release/src/cli/tilewright] [--json FILE]

Each different tile of a shape is timed once. A hint passes if its kernel takes at most 3 % more time than the best kernel of
the shape. The exit code is 1 if a hint does not pass. Takes a minute and a half on an H200.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FACTORS = (0.5, 0.75, 1.0, 1.2, 1.5, 2.0)
MUST_PASS = (0.5, 1.0, 2.0)
LIMIT = 1.03
GROUPS_AND_ROWS = ((1, 1024, 1024), (2, 1024, 512), (4, 1024, 256), (6, 4096, 1024), (8, 1024, 128), (32, 1024, 192),
                   (32, 256, 20))  # groups, largest rows per group, mean rows  # fmt: skip
WEIGHTS = ((4096, 7168), (7168, 2048))


def run(program, *arguments):
    result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))}: {result.stderr or result.stdout}")
    return result.stdout


def chosen_tile(program, shape, hint, device):
    groups, room, _, n, k = shape
    sizes = ["--groups", groups, "--m", room, "--expected-m", hint, "--n", n, "--k", k]
    return json.loads(run(program, "explain", "m_grouped_masked", *sizes, "--device", device, "--json"))["chosen"]["tile"]["name"]


def microseconds(program, shape, tile):
    groups, room, mean, n, k = shape
    sizes = ["--groups", groups, "--m", mean, "--max-m", room, "--n", n, "--k", k]
    kind = ["--op", "m_grouped_masked", "--recipe", "1x128:128x128", "--sa-layout", "k", "--tile", tile]
    text = run(program, "bench", "--backend", "hopper", *kind, *sizes, "--json", "-")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return next(row["us"] for row in rows if row.get("tile") == tile)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", default=str(ROOT / "build/release/src/cli/tilewright"))
    parser.add_argument("--device", default="h200", help="whose plans are asked for")
    parser.add_argument("--json", type=pathlib.Path, help="append one object a shape and hint to this file")
    arguments = parser.parse_args()
    lines, failed = [], 0
    for n, k in WEIGHTS:
        for groups, room, mean in GROUPS_AND_ROWS:
            shape = (groups, room, mean, n, k)
            tiles = {
                f: chosen_tile(arguments.tilewright, shape, max(1, round(mean * f)), arguments.device) for f in FACTORS
            }
            times = {tile: microseconds(arguments.tilewright, shape, tile) for tile in dict.fromkeys(tiles.values())}
            best = min(times.values())
            print(f"{groups} x {mean} n{n} k{k}: best {best:.1f} us")
            for factor, tile in tiles.items():
                ratio = times[tile] / best
                bad = factor in MUST_PASS and ratio > LIMIT
                failed += bad
                print(f"    hint x {factor:<4} {times[tile]:7.1f} us {ratio:6.3f}  {tile}{'  TOO SLOW' if bad else ''}")
                lines.append({"shape": shape, "factor": factor, "tile": tile, "us": times[tile], "ratio": ratio})
    if arguments.json:
        with arguments.json.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{failed} hints cost more than {LIMIT - 1:.0%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
