"""Names that tilewright.deep_gemm does not have: missing however they are asked for, forwarded to a real DeepGEMM where the caller
named one, and the three of bf16 that `allow_cublas` adds."""

import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from tilewright import deep_gemm
from tilewright.deep_gemm import _fallback, _missing

PARTS = ("", "utils", "testing", "mega", "legacy")


@pytest.fixture(autouse=True)
def as_imported():
    """No fallback and no cuBLAS, before and after."""
    yield
    deep_gemm.fall_back_to(None)
    deep_gemm.allow_cublas(False)
    _fallback._settings.clear()


def module(part):
    return getattr(deep_gemm, part) if part else deep_gemm


def refused(part, name):
    """The errors of module.name and of `from module import name`."""
    with pytest.raises(AttributeError) as by_attribute:
        getattr(module(part), name)
    with pytest.raises(ImportError) as by_import:
        exec(f"from {module(part).__name__} import {name}")  # noqa: S102
    return str(by_attribute.value), str(by_import.value)


@pytest.mark.parametrize("name", sorted(_missing.REASONS))
def test_a_name_of_deepgemm_says_why_it_is_missing(name):
    assert not hasattr(deep_gemm, name) and getattr(deep_gemm, name, None) is None
    assert name not in dir(deep_gemm) and name not in deep_gemm.__all__
    by_attribute, by_import = refused("", name)
    assert by_attribute == by_import
    assert by_attribute.startswith(f"module 'tilewright.deep_gemm' has no attribute {name!r}. {_missing.REASONS[name]} tilewright.deep_gemm.fall_back_to(module)")


@pytest.mark.parametrize("part, name, reason", [
    ("mega", "SymmBuffer", "no fused mixture-of-experts"), ("mega", "anything", "no fused mixture-of-experts"),
    ("legacy", "m_grouped_gemm", "no kernels for A100"), ("legacy", "tune_options", "no kernels for A100"),
])  # fmt: skip
def test_parts_that_are_empty(part, name, reason):
    assert not hasattr(module(part), name) and module(part).__all__ == []
    assert all(reason in text for text in refused(part, name))


@pytest.mark.parametrize("part", PARTS)
def test_names_of_nobody(part):
    """As in any other module. Names with double underscores are not forwarded."""
    deep_gemm.fall_back_to(types.ModuleType("real"))
    assert not hasattr(module(part), "no_such_name") and not hasattr(module(part), "__wrapped__")
    by_attribute, by_import = refused(part, "no_such_name")
    assert by_attribute.startswith(f"module '{module(part).__name__}' has no attribute 'no_such_name'") and by_import


def test_everything_of_all_is_there():
    names = {}
    exec("from tilewright.deep_gemm import *", names)  # noqa: S102
    assert set(deep_gemm.__all__) <= set(names) and set(deep_gemm.__all__) <= set(dir(deep_gemm))
    assert {"fp8_gemm_nt", "utils", "testing", "fall_back_to", "allow_cublas"} <= set(deep_gemm.__all__)


def real_deepgemm(told=None):
    """A module with its own names, a submodule, and settings that it stores."""
    real = types.ModuleType("real")
    real.fp8_fp4_mqa_logits, real.bf16_gemm_nn, real.fp8_gemm_nt, real._C = "scores", "invariant", "theirs", "extension"
    real.mega = types.ModuleType("real.mega")
    real.mega.SymmBuffer = "buffer"
    real.set_num_sms = real.set_pdl = None
    if told is not None:
        real.set_num_sms = lambda value: told.append(("set_num_sms", value))
        real.set_pdl = lambda value: told.append(("set_pdl", value))
    return real


def test_missing_names_are_forwarded():
    deep_gemm.fall_back_to(real_deepgemm())
    deep_gemm.fall_back_to(real_deepgemm())  # again: the same
    names = {}
    exec("from tilewright.deep_gemm import fp8_fp4_mqa_logits\nfrom tilewright.deep_gemm.mega import SymmBuffer", names)  # noqa: S102
    assert (names["fp8_fp4_mqa_logits"], names["SymmBuffer"]) == ("scores", "buffer")
    assert deep_gemm.bf16_gemm_nn == "invariant" and deep_gemm._C == "extension"
    assert deep_gemm.fp8_gemm_nt != "theirs", "what is here stays ours"
    assert {"fp8_fp4_mqa_logits", "fp8_gemm_nt"} <= set(dir(deep_gemm)) and "SymmBuffer" in dir(deep_gemm.mega)
    assert not hasattr(deep_gemm, "tf32_hc_prenorm_gemm") and not hasattr(deep_gemm.legacy, "m_grouped_gemm")
    deep_gemm.fall_back_to(None)
    assert not hasattr(deep_gemm, "fp8_fp4_mqa_logits") and "fp8_fp4_mqa_logits" not in dir(deep_gemm)


def test_settings_reach_the_other_deepgemm(monkeypatch):
    told = []
    try:
        deep_gemm.set_num_sms(24)
        deep_gemm.fall_back_to(real_deepgemm(told))
        deep_gemm.set_pdl(True)
        deep_gemm.set_tc_util(50)  # it has no such setting
    finally:
        deep_gemm.set_num_sms(0)
        deep_gemm.set_tc_util(0)
        monkeypatch.setitem(deep_gemm._settings.call_options, "overlap", None)
    assert told == [("set_num_sms", 24), ("set_pdl", True), ("set_num_sms", 0)]


def test_a_fallback_by_name(tmp_path, monkeypatch):
    (tmp_path / "vendored.py").write_text("tf32_hc_prenorm_gemm = 'theirs'\n")
    monkeypatch.syspath_prepend(tmp_path)
    deep_gemm.fall_back_to("vendored")
    assert deep_gemm.tf32_hc_prenorm_gemm == "theirs"


def test_wrong_fallbacks():
    for wrong, message in ((deep_gemm, "got .* itself;"), ("tilewright.deep_gemm", "got .* itself;"), (3, "got int;")):
        with pytest.raises(ValueError, match=rf"^module: .*{message}"):
            deep_gemm.fall_back_to(wrong)
    with pytest.raises(ImportError):
        deep_gemm.fall_back_to("no.such.module")
    assert _fallback.module() is None


def test_a_fallback_of_the_environment_that_cannot_be_imported(monkeypatch):
    """It is said once, and names go on missing: an engine that asks by getattr does not stop."""
    monkeypatch.setattr(_fallback, "_named", "no.such.module")
    with pytest.warns(UserWarning, match="TILEWRIGHT_DEEP_GEMM_FALLBACK: got no.such.module; expected a module that can be imported"):
        assert getattr(deep_gemm, "fp8_fp4_mqa_logits", None) is None
    assert not hasattr(deep_gemm, "fp8_fp4_mqa_logits")


@pytest.mark.parametrize("name", _missing.CUBLAS_NAMES)
def test_names_that_go_to_cublas(name):
    assert not hasattr(deep_gemm, name) and "allow_cublas()" in refused("", name)[0]
    for _ in range(2):
        deep_gemm.allow_cublas()
        assert callable(getattr(deep_gemm, name)) and deep_gemm.__all__.count(name) == 1 and name in dir(deep_gemm)
    deep_gemm.fall_back_to(real_deepgemm())
    assert getattr(deep_gemm, name) != "invariant", "what the caller allowed goes first"
    deep_gemm.allow_cublas(False)
    deep_gemm.allow_cublas(False)
    deep_gemm.fall_back_to(None)
    assert not hasattr(deep_gemm, name) and name not in deep_gemm.__all__


def test_an_allowed_product_is_right():
    deep_gemm.allow_cublas()
    a, b = torch.randn(4, 32).bfloat16(), torch.randn(32, 8).bfloat16()
    d = torch.empty(4, 8)
    deep_gemm.bf16_gemm_nn(a, b, d)
    assert deep_gemm.calc_diff(d, a.float() @ b.float()) < 1e-9


@pytest.mark.parametrize("setter", ["use_deterministic_algorithms", "set_ignore_compile_dims"])
def test_switches_are_checked(setter):
    getattr(deep_gemm, setter)(False)
    for wrong in ("yes", 2, None):
        with pytest.raises(ValueError, match=r"; expected True or False\.$"):
            getattr(deep_gemm, setter)(wrong)


def test_alpha_of_the_newer_version():
    """It is not supported on Hopper. DeepGEMM refuses it there too."""
    x = torch.randn(4, 128)
    side, d = deep_gemm.per_token_cast_to_fp8(x, False), torch.zeros(4, 4)
    for alpha in (None, 1, 1.0):
        deep_gemm.fp8_gemm_nt(side, side, d, recipe=(1, 1, 128), alpha=alpha)
    with pytest.raises(ValueError, match=r"^alpha: got 0\.5; expected None or 1 on Hopper."):
        deep_gemm.bf16_gemm_nt(x.bfloat16(), x.bfloat16(), d, alpha=0.5)


def test_a_fallback_of_the_environment_waits_for_a_missing_name(tmp_path, monkeypatch):
    """It may be a part of the program that imports this package. tests/python/test_deep_gemm_distribution.py has a worker."""
    (tmp_path / "vendored_late.py").write_text("fp8_mqa_logits = 'theirs'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_fallback, "_named", "vendored_late")
    assert callable(deep_gemm.fp8_gemm_nt) and "vendored_late" not in sys.modules
    assert deep_gemm.fp8_mqa_logits == "theirs" and "vendored_late" in sys.modules


def test_a_submodule_of_a_submodule_forwards_too():
    """SGLang imports from deep_gemm.utils.math."""
    other = types.ModuleType("other")
    other.utils = types.ModuleType("other.utils")
    other.utils.math = types.ModuleType("other.utils.math")
    other.utils.math.transform_ue4m3_sf_into_required_layout = len
    deep_gemm.fall_back_to(other)
    try:
        from tilewright.deep_gemm.utils.math import transform_ue4m3_sf_into_required_layout as found

        assert found is len
    finally:
        deep_gemm.fall_back_to(None)
    assert not hasattr(deep_gemm.utils.math, "transform_ue4m3_sf_into_required_layout")
