"""Calls and the process they run in: Ctrl-C, forked children, flags of the interpreter, small stacks."""

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


def run(program, *flags, **environment):
    command = [sys.executable, *flags, "-c", program]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)


LONG_CALL = """
import signal, sys, time
# Shells start background commands with SIGINT ignored, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, tilewright as tw
x = np.ones((4096, 4096), np.float32)
a = tw.quantize(x, "row")
q = tw.quantize(x, "mxfp4")
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
        "[tw.quantize_tokens(x, rows='row', columns='row') for _ in range(1000)]",
        "[tw.pack_weights(q, 'fp8').unpack().dequantize() for _ in range(1000)]",
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
        "tw.pack_weights(tw.quantize(x, 'mxfp4'), 'fp8', threads=2).unpack()",
        "tw.quantize_tokens(x, rows='row', threads=2)",
    ],
)
def test_a_forked_child_computes_on_several_threads(call):
    """The parent's threads are not there: a region that waited for them would never end."""
    done = forked("tw.gemm(a, a, threads=2)", call)
    assert done.returncode == 0, (done.returncode, done.stderr)


TORCH_BEFORE = """
import os, sys, torch
torch.set_num_threads(2)
torch.randn(4_000_000).exp_().sum()
child = os.fork()
if child == 0:
    import numpy as np, tilewright as tw
    q = tw.quantize(np.ones((1024, 1024), np.float32), "row", threads=2)
    assert (abs(tw.gemm(q, q, threads=2, out_dtype="f32") - 1024) < 1).all()
    sys.exit(0)  # runs what torch does at the end of a process
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_child_of_a_process_in_which_torch_computed():
    """torch's wheel has the same OpenMP; DataLoader forks its workers."""
    pytest.importorskip("torch")
    done = run(TORCH_BEFORE)
    assert done.returncode == 0, (done.returncode, done.stderr)


WRONG_IN_A_WORKER = """
import concurrent.futures, multiprocessing, sys
import numpy as np, tilewright as tw

def wrong():
    return tw.gemm(np.ones((2, 3), np.float32), np.ones((2, 4), np.float32))

if __name__ == "__main__":
    tw.gemm(np.ones((256, 256), np.float32), np.ones((256, 256), np.float32), threads=2)
    for method in ("fork", "spawn"):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            try:
                pool.submit(wrong).result(30)
            except tw.InvalidCall as error:
                assert error.findings[0].operand == "b" and str(error) == error.findings[0].message()
            else:
                sys.exit(4)
"""


def test_an_error_of_a_worker_arrives(tmp_path):
    """One without a pickle breaks the pool, and multiprocessing.Pool waits forever."""
    program = tmp_path / "program.py"
    program.write_text(WRONG_IN_A_WORKER)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


# How Python was started

EVERYTHING = """
import sys, numpy as np, tilewright as tw
x = np.ones((4, 128), np.float32)
q, w = tw.quantize(x, "row"), tw.quantize(np.ones((8, 128), np.float32), "row")
ok = (abs(tw.gemm(q, w, out_dtype="f32") - 128) < 1).all() and (tw.grouped_gemm(x, x[None, :2], offsets=[4]) == 128).all()
for wrong, expected in ((lambda: tw.gemm(x, None), tw.InvalidCall), (lambda: tw.gemm(x, x, alhpa=1), TypeError)):
    try:
        wrong()
    except expected:
        continue
    sys.exit(5)
if "torch" in sys.argv:
    import torch, tilewright.deep_gemm, tilewright.torch
    layer = tilewright.torch.Linear(128, 128)
    layer(torch.ones(4, 128)).sum().backward()
    ok = ok and layer.weight.grad is not None
sys.exit(0 if ok else 6)
"""


@pytest.mark.parametrize("flags", ["-O", "-OO", "-I -bb", "-X dev -W error"])
def test_flags_of_the_interpreter(flags):
    done = run(EVERYTHING, *flags.split())
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)


def test_flags_of_the_interpreter_with_torch():
    pytest.importorskip("torch")
    done = run(EVERYTHING.replace('"torch" in sys.argv', "True"), "-OO", "-W", "error")
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)


# Threads with small stacks

SMALL_STACK = """
import threading, sys
import numpy as np, tilewright as tw
threading.stack_size(131072)
x = np.ones((300, 512), np.float32)
experts = np.ones((3, 64, 512), np.float32)
failed = []

def everything():
    try:
        for recipe in ("tensor", "row", "1x128", "128x128", "mxfp8", "mxfp4", "nvfp4"):
            q, w = tw.quantize(x, recipe), tw.quantize(experts, recipe)
            q.dequantize()
            pair = "mxfp8" if recipe.startswith("mx") else recipe
            for arithmetic in ("fast", "bit_exact"):
                a = tw.quantize(x, pair)
                if f"{pair}:{recipe}" in tw.recipes():
                    tw.gemm(a, q, arithmetic=arithmetic)
                    if recipe != "128x128":
                        tw.grouped_gemm(a, w, offsets=[5, 140, 300], arithmetic=arithmetic)
            if recipe.endswith("fp4"):
                tw.pack_weights(q, "bf16").unpack()
        for arithmetic in ("fast", "bit_exact"):
            k = tw.quantize(np.ones((64, 512), np.float32), "1x128")
            tw.k_grouped_gemm(k, k, offsets=[128, 512], arithmetic=arithmetic)
        rows, _ = tw.quantize_tokens(x, [140, 300], rows="1x128", columns="1x128", round_up=True)
        for activation in ("swiglu", "swiglu_gradient"):
            gradient = x[:, :256] if activation == "swiglu_gradient" else None
            tw.quantize_tokens(x, rows="row", columns="row", activation=activation, gradient=gradient)
        tw.transpose_codes(rows, [140, 300], columns="1x128")
        tw.decode(tw.encode(x, "e4m3"))
        str(tw.explain(rows, rows))
        tw.validate(rows, x)
    except BaseException as error:
        failed.append(error)

thread = threading.Thread(target=everything)
thread.start()
thread.join()
sys.exit(str(failed) if failed else 0)
"""


def test_threads_with_small_stacks():
    done = run(SMALL_STACK, OMP_STACKSIZE="64k")
    assert done.returncode == 0, (done.returncode, done.stderr)
