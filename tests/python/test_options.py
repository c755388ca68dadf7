"""Options of calls, of blocks and of the process: which one a call uses, in threads, tasks and generators."""

import asyncio
import threading

import numpy as np
import pytest
import reached_options
import tilewright as tw
from reached_options import BUILT_IN

X = np.ones((2, 8), np.float32)
CODES = tw.quantize(X, "row")


@pytest.fixture(autouse=True)
def defaults_of_the_library():
    yield
    tw.defaults.invariant = tw.defaults.overlap = False
    tw.defaults.planned_device = "automatic"


@pytest.fixture
def used(monkeypatch):
    """Calls tw.gemm and returns the options that reach the library."""
    seen = reached_options.record(monkeypatch)

    def call(**options):
        tw.gemm(CODES, CODES, **options)
        return seen[-1]

    return call


def test_the_call_comes_before_the_block_and_the_block_before_the_process(used):
    assert used() == BUILT_IN
    tw.defaults.planned_device = "h20"
    assert used() == (False, False, "h20")
    with tw.options(planned_device="h100"):
        assert used() == (False, False, "h100")
        assert used(planned_device="gh200") == (False, False, "gh200")
        assert used(planned_device="automatic") == BUILT_IN
        tw.defaults.overlap = True
        assert used() == (False, True, "h100")
        assert used(overlap=False) == (False, False, "h100")
    assert used() == (False, True, "h20")


def test_blocks_nest_and_keep_what_they_do_not_give(used):
    with tw.options(invariant=True):
        with tw.options(overlap=True, invariant=None):
            assert used() == (True, True, "automatic")
            with tw.options(invariant=False, planned_device="h800"):
                assert used() == (False, True, "h800")
            assert used() == (True, True, "automatic")
        assert used() == (True, False, "automatic")
    assert used() == BUILT_IN


def test_one_object_can_be_entered_again():
    block = tw.options(invariant=True)
    with block:
        with tw.options(invariant=False), block:
            assert tw.options.current().invariant
        assert tw.options.current().invariant
    assert tw.options.current() == BUILT_IN


def test_an_exception_ends_a_block():
    with pytest.raises(ZeroDivisionError), tw.options(invariant=True):
        raise ZeroDivisionError
    assert tw.options.current() == BUILT_IN


def test_a_thread_starts_with_the_defaults_and_keeps_its_own():
    seen, entered, leave = [], threading.Event(), threading.Event()

    def work():
        seen.append(tw.options.current())
        with tw.options(overlap=True):
            entered.set()
            leave.wait(10)
            seen.append(tw.options.current())

    tw.defaults.planned_device = "h20"
    with tw.options(invariant=True):
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(10)
        assert tw.options.current() == (True, False, "h20")
        leave.set()
        thread.join()
    assert seen == [(False, False, "h20"), (False, True, "h20")]


def test_tasks_start_with_the_options_of_their_creator_and_keep_their_own():
    async def task(device):
        begin = tw.options.current()
        with tw.options(planned_device=device):
            await asyncio.sleep(0)
            inside = tw.options.current()
            in_thread = await asyncio.to_thread(tw.options.current)
        return begin, inside, in_thread, tw.options.current()

    async def main():
        with tw.options(invariant=True):
            return await asyncio.gather(task("h100"), task("h20"))

    for device, found in zip(("h100", "h20"), asyncio.run(main()), strict=True):
        outside, inside = (True, False, "automatic"), (True, False, device)
        assert found == (outside, inside, inside, outside)


def generator(**options):
    with tw.options(**options):
        while True:
            yield tw.options.current()


def test_generators_may_end_in_any_order():
    """A block of a generator reaches the caller between two next(), and ends with the generator, whatever came since."""
    first, second = generator(invariant=True), generator(overlap=True)
    assert next(first) == (True, False, "automatic") and next(second) == (True, True, "automatic")
    first.close()
    assert tw.options.current() == (False, True, "automatic") == next(second)
    second.close()
    assert tw.options.current() == BUILT_IN


def test_a_generator_closed_in_another_thread_ends_its_own_block_only():
    begun, seen = generator(invariant=True), []
    next(begun)

    def close():
        with tw.options(overlap=True):
            begun.close()
            seen.append(tw.options.current())

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert seen == [(False, True, "automatic")]
    assert tw.options.current() == BUILT_IN


def test_bits_follow_the_options(rng):
    """Where an H100 PCIe splits k and an H200 does not, a block gives the bits of the keyword."""
    a, b = (tw.quantize(rng.standard_normal((rows, 2048)).astype(np.float32), side) for rows, side in ((8, "1x128"), (1536, "128x128")))

    def bits(**options):
        return tw.gemm(a, b, out_dtype="f32", arithmetic="bit_exact", **options)

    assert (bits(planned_device="h100-pcie") != bits(planned_device="h200")).any()
    with tw.options(planned_device="h100-pcie"):
        np.testing.assert_array_equal(bits(), bits(planned_device="h100-pcie"))
    with tw.options(invariant=True):
        invariant = tw.gemm(a, b, out_dtype="f32")
    np.testing.assert_array_equal(invariant, bits(invariant=True))
    assert (invariant != tw.gemm(a, b, out_dtype="f32")).any()


@pytest.mark.parametrize(
    "name, wrong",
    [("invariant", 1), ("invariant", "yes"), ("overlap", X), ("planned_device", "h1"), ("planned_device", 3)],
)
def test_wrong_values_are_refused_where_they_are_given(name, wrong):
    for give in (lambda: tw.options(**{name: wrong}), lambda: setattr(tw.defaults, name, wrong)):
        with pytest.raises(tw.InvalidCall) as caught:
            give()
        assert caught.value.findings[0].operand == name
    assert tw.options.current() == BUILT_IN


def test_only_known_options():
    with pytest.raises(TypeError, match="threads"):
        tw.options(threads=3)
    for touch in (lambda: setattr(tw.defaults, "threads", 3), lambda: tw.defaults.threads):
        with pytest.raises(AttributeError, match="no option 'threads'. It has invariant, overlap, planned_device"):
            touch()
    with pytest.raises(tw.InvalidCall, match="planned_device"):
        tw.defaults.planned_device = None
    assert repr(tw.defaults) == "defaults(invariant=False, overlap=False, planned_device='automatic')"
    assert repr(tw.options(overlap=True)) == "options(overlap=True)"
    assert {"invariant", "overlap", "planned_device"} <= set(dir(tw.defaults))


def test_numpy_flags():
    with tw.options(invariant=np.bool_(True)):
        assert tw.options.current().invariant is True


def test_a_finding_about_invariance_names_the_keyword():
    (finding,) = tw.validate(X, X, invariant=True)
    assert (finding.operand, finding.given) == ("invariant", "True") and finding.expected.startswith("False for f32")
