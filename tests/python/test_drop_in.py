"""benchmarks/drop_in.py on the CPU: the shapes and sizes of the peers, operands as DeepGEMM's callers have them, and
results that its check passes, or not."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("drop_in", ROOT / "benchmarks/drop_in.py")
drop_in = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(drop_in)


@pytest.mark.parametrize(("operation", "counts"), [("dense", (25, 40)), ("contiguous", (6, 7)), ("masked", (10, 7))])
def test_shapes_are_the_peers(operation, counts):
    assert tuple(len(drop_in.list_shapes(operation, suite)) for suite in drop_in.peers_table.SUITES) == counts


def test_sizes_are_the_peers():
    # The tables' flops over 2 n k.
    assert sum(drop_in.group_rows("contiguous", (8, 300, 4096, 7168))) == 2465
    assert sum(drop_in.group_rows("masked", (64, 128, 12, 4096, 1536))) == 763
    assert drop_in.group_rows("dense", (72, 8, 16)) == [72]


@pytest.mark.parametrize(
    ("operation", "shape"), [("dense", (5, 16, 144)), ("contiguous", (3, 20, 16, 256)), ("masked", (3, 24, 20, 16, 256))]
)
def test_calls_are_right_and_wrong_ones_are_seen(operation, shape):
    pytest.importorskip("torch")
    pytest.importorskip("tilewright.deep_gemm")
    from deep_gemm_call import Call

    call = Call(operation, shape, drop_in.group_rows(operation, shape), "cpu")
    assert call.a_scales.stride(-2) == 1
    if operation == "contiguous":
        assert call.d.shape[0] == 3 * 128
        assert int((call.sizes == -1).sum()) == 3 * 128 - sum(call.rows)
    call()
    assert call.difference() < 1e-4
    if operation == "contiguous":
        by_ends, ours, theirs = call.by_exact_ends()
        by_ends()
        assert theirs.shape[0] == sum(call.rows)
        assert ours().equal(theirs)
    call.d[..., 3] *= 2
    assert call.difference() > drop_in.MOST_DIFFERENCE
    call.d[:] = float("nan")
    assert call.difference() > drop_in.MOST_DIFFERENCE
