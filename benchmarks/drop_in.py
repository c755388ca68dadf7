#!/usr/bin/env python3
"""Times `tilewright.deep_gemm` on the GPU of this machine, with DeepGEMM's calls and the shapes of the peers' tables.

    benchmarks/drop_in.py [--op contiguous,masked,dense] [--suite peers,peers-ragged] [--repeats 12] [--ends] [--json FILE]

Operands:

- Scales of neighbouring rows are neighbours in memory.
- Contiguous groups are padded to 128 rows and given by row indices, with -1 in the padding.
- Masked calls pass expected_m = int(1.2 * mean).

Each result is compared with a float32 product of the dequantized operands. Then each call is timed 12 times, each time after a
flush of L2 (256 MB written, 256 MB read). The times of all kernels of a call, from torch's profiler, are added; the median
counts. cuBLASLt with one scale per tensor on 4096 x 4096 x 7168 is timed first and last.

`--json` appends lines that `tilewright classes` reads. `--ends` also times the same contiguous groups without padding, with
`tilewright.grouped_gemm(offsets=)` and K-major scales. It prints the ratio and the number of kernels per call of the drop-in.
The exit code is then 1 if the drop-in has more than one kernel per call or takes over 3 % more time. Needs torch.
"""

import argparse
import json
import pathlib
import sys

import peers_table
from contest_cases import GROUPINGS, OPERATIONS, group_rows, list_shapes
from device_clock import ClockError, DeviceClock
from origin import origin

MOST_DIFFERENCE = 1e-3  # limit of calc_diff in DeepGEMM's tests; the rounding of D gives 1e-6


def against_exact_ends(call, us, clock):
    """Prints the time with exact ends. Returns whether the drop-in has one kernel and at most 3 % more time."""
    from tilewright.deep_gemm.testing import calc_diff

    function, ours, d = call.by_exact_ends()
    ends = clock.microseconds(function)
    if not (difference := float(calc_diff(ours(), d))) <= 1e-6:
        sys.exit(f"drop_in: exact ends give another result, off by {difference:.2g}")
    kernels = len(clock.kernels(call))
    print(f"{'  by exact ends':54}{ends:10.2f} us, the drop-in takes {us / ends:.3f} of it in {kernels} kernel(s)")
    return kernels == 1 and us <= 1.03 * ends


def reference_call():
    import torch

    m, n, k = peers_table.REFERENCE
    a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="contiguous", help="contiguous, masked, dense, or several of them")
    parser.add_argument("--suite", default="peers,peers-ragged", help="peers, peers-ragged or both")
    parser.add_argument("--repeats", type=int, default=12, help="calls that are timed; their median counts")
    parser.add_argument("--ends", action="store_true", help="contiguous groups: next to exact ends")
    parser.add_argument("--json", type=pathlib.Path, help="append one object a call to this file")
    arguments = parser.parse_args()
    for option, known in (("op", OPERATIONS), ("suite", peers_table.SUITES)):
        words = getattr(arguments, option).split(",")
        if unknown := [word for word in words if word not in known]:
            parser.error(f"--{option}: '{unknown[0]}' is none of {', '.join(known)}")
        setattr(arguments, option, words)
    return arguments


def main():
    arguments = parse_arguments()
    import tilewright
    import torch
    from deep_gemm_call import Call

    if not torch.cuda.is_available():
        print("drop_in: torch sees no GPU", file=sys.stderr)
        return 2
    clock, reference = DeviceClock(arguments.repeats), reference_call()
    common = {"output": "bf16", "flush": "clean", "device": torch.cuda.get_device_name(), **origin()}
    cuda_blas = f"cuBLASLt of torch {torch.__version__} per-tensor scale"

    def record(line):
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def time_reference():
        us = clock.microseconds(reference)
        print(f"{'cuBLASLt per tensor':22}{tuple(peers_table.REFERENCE)!s:32}{us:10.2f} us")
        record({"peer": cuda_blas, "op": "dense", "shape": peers_table.REFERENCE, "us": round(us, 3), "calls": arguments.repeats, **common})

    time_reference()
    is_near = True
    for operation in arguments.op:
        for shape in [s for suite in arguments.suite for s in list_shapes(operation, suite)]:
            call = Call(operation, shape, group_rows(operation, shape), "cuda")
            call()
            if (difference := call.difference()) > MOST_DIFFERENCE:
                print(f"drop_in: {operation} {shape}: wrong result, off by {difference:.2g}", file=sys.stderr)
                return 1
            us = clock.microseconds(call)
            flops = 2 * sum(call.rows) * call.n * call.k
            print(f"{operation:22}{shape!s:32}{us:10.2f} us {flops / us * 1e-6:8.0f} TFLOP/s")
            if arguments.ends and operation == "contiguous":
                is_near = against_exact_ends(call, us, clock) and is_near
            record({
                "peer": f"Tilewright {tilewright.__version__} drop-in", "op": OPERATIONS[operation], "shape": shape,
                "us": round(us, 3), "tflops": round(flops / us * 1e-6, 1), "calls": arguments.repeats, **common,
                "recipe": "1x128:128x128", "grouping": GROUPINGS[operation], "accumulation": "promoted",
                "scales_along": "m", "tuned_rows": True, "drop_in": True,
            })  # fmt: skip
    time_reference()
    return 0 if is_near else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClockError as wrong:
        sys.exit(f"drop_in: {wrong}")
