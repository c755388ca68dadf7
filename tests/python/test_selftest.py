"""`python -m tilewright.selftest` says so where results are right, and where they are not."""

import numpy as np
import tilewright as tw
from tilewright import selftest


def test_right_results_pass(capsys, monkeypatch):
    monkeypatch.setattr(selftest, "find_program", lambda: None)
    assert selftest.main(["--rounds", "1", "--seed", "5"]) == 0
    out = capsys.readouterr().out
    calls = 2 * len(selftest.RECIPES) - 1  # squares are dense only
    assert f"numpy: {calls} calls, 0 wrong" in out and "seed 5" in out and "all right" in out
    assert "its checks were not run" in out


def test_one_wrong_element_fails(capsys, monkeypatch):
    monkeypatch.setattr(selftest, "find_program", lambda: None)
    right = tw.grouped_gemm

    def wrong(*operands, **options):
        d = right(*operands, **options)
        d[-1, -1] += 1
        return d

    monkeypatch.setattr(tw, "grouped_gemm", wrong)
    assert selftest.main(["--rounds", "1", "--seed", "5"]) == 1
    out = capsys.readouterr().out
    assert "WRONG: numpy: grouped_gemm row:row" in out and "1 of " in out and "please report" in out


def test_a_program_that_fails_is_shown(capsys, monkeypatch, tmp_path):
    program = tmp_path / "tilewright"
    program.write_text("#!/bin/sh\necho a table; echo 1 failed; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(selftest, "find_program", lambda: str(program))
    assert selftest.verify() is False
    assert "a table\n1 failed" in capsys.readouterr().out


def test_no_recipe_is_judged_by_less_than_equality():
    """What the numbers of a call must be for exact sums: the operands come back from each recipe as they were."""
    x = selftest.whole_numbers(np.random.default_rng(1), 40, 272)
    for side in {side for pair in selftest.RECIPES for side in pair}:
        np.testing.assert_array_equal(tw.quantize(x, side, round_up=True).dequantize().astype(np.float32), x, side)
