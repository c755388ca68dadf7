"""The package as a package: types, docstrings, threads, leaks, the price of a call."""

import doctest
import inspect
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tilewright as tw
from nanobind.stubgen import StubGen
from tilewright import _core

ROOT = pathlib.Path(__file__).parents[2]
PUBLIC = [getattr(tw, name) for name in tw.__all__ if inspect.getmodule(getattr(tw, name)) is not None]


def test_stub_is_up_to_date():
    """To renew it: python -m nanobind.stubgen -m tilewright._core -o python/tilewright/_core.pyi"""
    generator = StubGen(_core)
    generator.put(_core)
    assert generator.get() == (ROOT / "python/tilewright/_core.pyi").read_text()


def test_types_are_announced():
    folder = pathlib.Path(tw.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()
    for function in PUBLIC:
        if inspect.isfunction(function):
            annotations = inspect.get_annotations(function)
            assert set(inspect.signature(function).parameters) | {"return"} == set(annotations), function.__name__


def test_everything_public_is_described():
    for thing in PUBLIC:
        assert thing.__doc__, thing
    assert "gemm" in tw.__doc__


@pytest.mark.parametrize("module", ["_quantize", "_multiply", "_settings", "_arrays"])
def test_examples_in_docstrings(module):
    names = {name: getattr(tw, name) for name in tw.__all__}
    results = doctest.testmod(sys.modules[f"tilewright.{module}"], extraglobs=names)
    assert results.failed == 0 and (results.attempted > 0 or module == "_arrays")


def test_the_extension_runs_on_older_systems():
    """A wheel built here must load on Debian 12 and Ubuntu 24.04: glibc at most 2.36, no libstdc++ to find."""
    headers = subprocess.run(["objdump", "-p", _core.__file__], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED +(\w+)", headers)) <= {"libgomp", "libm", "libc", "ld"}
    assert max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+(?:\.\d+)+)", headers)) <= (2, 36)


def test_version():
    assert f"project(tilewright VERSION {tw.__version__} " in (ROOT / "CMakeLists.txt").read_text()


def test_recipes_are_those_of_the_library():
    assert len(tw.recipes()) == len(set(tw.recipes())) > 100
    for recipe in ("tensor:tensor", "row:row", "1x128:128x128", "mxfp8:mxfp4", "bf16:nvfp4", "f32:f32"):
        assert recipe in tw.recipes()


def test_the_lock_is_released_while_computing(rng):
    """A Python thread goes on counting during one long multiplication."""
    a = rng.standard_normal((512, 2048)).astype(np.float32)
    counted, done = 0, threading.Event()

    def multiply():
        for _ in range(3):
            tw.gemm(a, a, out_dtype="f32", threads=1)
        done.set()

    worker = threading.Thread(target=multiply)
    worker.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.0005)
    worker.join()
    assert counted > 5


def test_many_threads_share_operands(rng):
    a = tw.quantize(rng.standard_normal((16, 256)).astype(np.float32), "1x128")
    b = tw.quantize(rng.standard_normal((32, 256)).astype(np.float32), "128x128")
    expected = tw.gemm(a, b)
    wrong = []

    def work():
        for _ in range(20):
            if (tw.gemm(a, b, threads=2) != expected).any():
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_thread_counts_do_not_change_bits(rng, threads):
    a = tw.quantize(rng.standard_normal((40, 256)).astype(np.float32), "row")
    np.testing.assert_array_equal(tw.gemm(a, a, threads=threads), tw.gemm(a, a))


LEAK_CHECK = """
import numpy as np, tilewright as tw
x = np.ones((4, 64), np.float32)
kept = tw.quantize(x, "mxfp4")
class Speaks:
    def __dlpack__(self, **options):
        return x.__dlpack__(**options)
    def __dlpack_device__(self):
        return x.__dlpack_device__()
tw.gemm(Speaks(), x)
tw.gemm(tw.quantize(x, "mxfp8"), kept)
tw.validate(x, x[:, :3])
for wrong in (lambda: tw.gemm(x, x[:, :3]), lambda: tw.gemm(x, "no"), lambda: tw.quantize(x, "no")):
    try:
        wrong()
    except ValueError as error:
        caught = error
"""


def test_nothing_leaks_at_exit():
    """nanobind reports instances, types and functions that outlive the interpreter."""
    done = subprocess.run([sys.executable, "-c", LEAK_CHECK], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""


def test_memory_does_not_grow(rng):
    """Results, views and findings are given back: the peak of 120 calls is that of the first ones."""
    import resource

    x = rng.standard_normal((256, 1024)).astype(np.float32)

    def calls(count):
        for _ in range(count):
            q = tw.quantize(x, "row")
            tw.gemm(q, tw.quantize(x[:8], "row"))
            tw.validate(q, x)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = calls(20)
    assert calls(120) - before < 16 * 1024  # KiB; a leaked operand a call would be 30 MiB


def test_a_call_costs_microseconds():
    """Far above what it takes, so that a busy machine passes: a copy or an exception on the way would not."""
    x = np.ones((2, 4), np.float32)
    q = tw.Quantized(np.zeros((2, 4), np.uint8), "row", np.ones(2, np.float32))
    out = np.zeros((2, 2), np.float32)
    for operand in (x, q):
        best = min(timed(lambda operand=operand: tw.gemm(operand, operand, out=out, threads=1)) for _ in range(30))
        assert best < 100e-6


def timed(function):
    begin = time.perf_counter()
    for _ in range(20):
        function()
    return (time.perf_counter() - begin) / 20


def test_explain_names_the_rejected_and_the_unavailable():
    a, b = (tw.quantize(np.ones((rows, 512), np.float32), "row") for rows in (64, 1024))
    explanation = tw.explain(a, b)
    assert explanation.chosen.tile in [plan.tile for plan in explanation.legal] and explanation.unavailable == []
    assert explanation.chosen.seconds >= explanation.legal[0].seconds  # the cheapest may not ship
    assert explanation.chosen.seconds <= explanation.next_best.seconds
    assert all(rejected.rule and rejected.reason for rejected in explanation.rejected)
    without_scales = np.ones((64, 512), np.float32)
    assert (
        tw.explain(without_scales, without_scales).unavailable
        and tw.explain(without_scales, without_scales).chosen is None
    )
    with pytest.raises(ValueError, match="planned_device: got 'h1'; expected one of h200"):
        tw.explain(a, b, planned_device="h1")
    with pytest.raises(ValueError, match=r"\nb: got"):
        tw.explain(a, without_scales[:, :100])
