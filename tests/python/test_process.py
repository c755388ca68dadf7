"""Calls and the process they run in: Ctrl-C, forked children."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tilewright as tw

SECONDS = 60.0
"""Far more than any call here takes; a hang ends then."""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)


LONG_CALL = """
import signal, sys, time
# Shells start background commands with SIGINT ignored, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, tilewright as tw
a = tw.quantize(np.ones((4096, 4096), np.float32), "row")
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    x = np.ones((4, 8), np.float32)
    assert tw.gemm(x, x, out_dtype="f32")[0, 0] == 8
    sys.exit(3)
"""


@pytest.mark.parametrize(
    "call",
    [
        "tw.gemm(a, a, arithmetic='bit_exact')",
        "tw.gemm(a, a, arithmetic='bit_exact', threads=1)",
        "[tw.gemm(a, a) for _ in range(1000)]",
        "[tw.quantize(np.ones((8192, 8192), np.float32), 'mxfp4') for _ in range(1000)]",
    ],
)
def test_ctrl_c_ends_a_long_call(call):
    program = LONG_CALL.replace("{call}", call)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "begun\n"
            time.sleep(0.5)
            assert child.poll() is None, "the call was over before the signal"
            begin = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            waited = time.monotonic() - begin
            assert child.wait(SECONDS) == 3
        finally:
            child.kill()
    assert waited < 2.5  # half a second on an idle machine


def test_a_handler_that_returns_does_not_end_the_call():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
    a = tw.quantize(np.ones((512, 4096), np.float32), "row")
    try:
        process = os.getpid()
        subprocess.Popen(
            [sys.executable, "-c", f"import os, time; time.sleep(.1); os.kill({process}, {int(signal.SIGUSR1)})"]
        )
        expected = tw.gemm(a, a, arithmetic="bit_exact", threads=1)
        deadline = time.monotonic() + SECONDS
        while not seen and time.monotonic() < deadline:
            np.testing.assert_array_equal(tw.gemm(a, a, arithmetic="bit_exact", threads=1), expected)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen


FORK = """
import os, sys
import numpy as np, tilewright as tw
x = np.ones((256, 256), np.float32)
a = tw.quantize(x, "row", threads=1)
{parent}
child = os.fork()
if child == 0:
    {child}
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def forked(parent, child):
    lines = "\n    ".join(child.splitlines())
    return run(FORK.replace("{parent}", parent).replace("{child}", lines))


@pytest.mark.parametrize(
    "call",
    [
        "tw.gemm(a, a, threads=2)",
        "tw.gemm(a, a, threads=2, arithmetic='bit_exact')",
        "tw.quantize(x, 'row', threads=2)",
    ],
)
def test_a_forked_child_is_told_to_use_one_thread(call):
    child = f"""
try:
    {call}
except RuntimeError as error:
    assert "fork" in str(error) and "threads" in str(error), error
else:
    os._exit(4)
one = {call.replace("threads=2", "threads=1")}
"""
    done = forked("tw.gemm(a, a, threads=2)", child)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_a_child_of_a_process_with_one_thread_may_use_several():
    done = forked("tw.gemm(a, a, threads=1)", "tw.gemm(a, a, threads=2)")
    assert done.returncode == 0, (done.returncode, done.stderr)
