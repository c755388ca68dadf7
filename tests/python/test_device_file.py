"""A device file of the user's own: its plans and bits, when it is read, and what is refused."""

import os
import pathlib
import threading

import numpy as np
import pytest
import tilewright as tw

SHIPPED = pathlib.Path(__file__).parents[2] / "src/plan/devices"
H200 = (SHIPPED / "h200.tsv").read_text()
PCIE = (SHIPPED / "h100_pcie.tsv").read_text().replace("name\th100-pcie", "name\tmine")


@pytest.fixture(autouse=True)
def defaults_of_the_library():
    yield
    tw.defaults.planned_device = "automatic"


@pytest.fixture
def mine(tmp_path):
    """A file that describes an H100 PCIe."""
    path = tmp_path / "mine.tsv"
    path.write_text(PCIE)
    return path


@pytest.fixture(scope="module")
def operands():
    """An H100 PCIe splits the k of this product, and an H200 does not."""
    rng = np.random.default_rng(1)
    return tuple(
        tw.quantize(rng.standard_normal((rows, 2048)).astype(np.float32), side)
        for rows, side in ((8, "1x128"), (1536, "128x128"))
    )


@pytest.fixture
def bits(operands):
    def call(**options):
        return tw.gemm(*operands, out_dtype="f32", arithmetic="bit_exact", **options)

    return call


def test_it_decides_bits_as_a_shipped_table_does(bits, mine, operands):
    expected, other = bits(planned_device="h100-pcie"), bits(planned_device="h200")
    assert (expected != other).any()
    for given in (str(mine), mine):
        np.testing.assert_array_equal(bits(planned_device=given), expected)
        with tw.options(planned_device=given):
            np.testing.assert_array_equal(bits(), expected)
        tw.defaults.planned_device = given
        np.testing.assert_array_equal(bits(), expected)
    explanation = tw.explain(*operands, planned_device=mine)
    assert explanation.device == "mine" and "power_hertz" in explanation.assumed
    assert "device: mine: assumed power_hertz, " in str(explanation)


def test_a_name_stays_the_shipped_table_where_a_file_has_that_name(bits, mine, monkeypatch):
    expected = bits(planned_device="h200")
    (mine.parent / "h200").write_text(PCIE)
    monkeypatch.chdir(mine.parent)
    np.testing.assert_array_equal(bits(planned_device="h200"), expected)
    assert (bits(planned_device="./h200") != expected).any()
    assert (bits(planned_device=pathlib.Path("h200")) != expected).any()


def test_a_changed_file_is_read_again(bits, mine):
    expected, other = bits(planned_device="h100-pcie"), bits(planned_device="h200")
    with tw.options(planned_device=mine):
        np.testing.assert_array_equal(bits(), expected)
        mine.write_text(H200)
        np.testing.assert_array_equal(bits(), other)
        replacement = mine.with_name("new.tsv")
        replacement.write_text(PCIE)
        os.replace(replacement, mine)
        np.testing.assert_array_equal(bits(), expected)
        mine.unlink()
        with pytest.raises(tw.InvalidCall, match="mine.tsv', which does not exist"):
            bits()


def test_a_path_holds_in_another_folder(mine, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(mine.parent)
    with tw.options(planned_device="./mine.tsv"):
        assert tw.options.current().planned_device == str(mine)
        monkeypatch.chdir(tmp_path_factory.mktemp("other"))
        with tw.options(planned_device=tw.options.current().planned_device):
            pass


def test_many_threads_read_one_file(bits, mine):
    expected, found = bits(planned_device="h100-pcie"), []

    def work():
        for _ in range(5):
            found.append(bits(planned_device=mine, threads=1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        mine.touch()
    for thread in threads:
        thread.join()
    assert len(found) == 20 and all((each == expected).all() for each in found)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("sms\t132", "sms\t0", "got sms = '0' in line 6 of '{path}'; expected an integer from 16 to 1024"),
        ("boost_hertz\t1.98e9", "boost_hertz\tnan", "got boost_hertz = 'nan' in line 7 of"),
        ("l2_bytes\t", "l3_bytes\t", "got no l2_bytes in '{path}'; expected a line for it"),
        ("l2_bytes\t", "sms\t", "got sms again in line 14 of '{path}'; expected one line for it, as line 6 is"),
        ("field\tvalue", "field,value", "expected 'field value unit source', separated by tabs"),
    ],
)
def test_mistakes_name_their_line(operands, mine, old, new, message):
    mine.write_text(H200.replace(f"\n{old}", f"\n{new}"))
    for call in (lambda: tw.options(planned_device=mine), lambda: tw.explain(*operands, planned_device=str(mine))):
        with pytest.raises(tw.InvalidCall) as caught:
            call()
        assert message.format(path=mine) in str(caught.value)
        assert all(finding.operand == "planned_device" and finding.advice for finding in caught.value.findings)
    assert tw.validate(*operands, planned_device=mine)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev", "none.tsv", "a/\0b.tsv", "\ud800.tsv", b"mine.tsv", "/" * 5000])
def test_what_is_no_file_is_refused(path):
    with pytest.raises(tw.InvalidCall, match="^planned_device: got "):
        tw.options(planned_device=path)


def test_bytes_of_any_kind_are_refused(mine):
    rng = np.random.default_rng(2)
    for size in (0, 1, 100, 5000, 2_000_000):
        mine.write_bytes(rng.bytes(size))
        with pytest.raises(tw.InvalidCall, match="^planned_device: got "):
            tw.options(planned_device=mine)
    for i in range(0, len(H200), 37):
        spoiled = bytearray(H200.encode())
        spoiled[i] = int(rng.integers(256))
        mine.write_bytes(spoiled)
        try:
            tw.options(planned_device=mine)
        except tw.InvalidCall as refusal:
            assert refusal.findings
