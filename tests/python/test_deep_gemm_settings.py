"""Settings of the process, helpers for timing and tests, and the presence of DeepGEMM's names."""

import os
import socket

import pytest
import tilewright as tw
from tilewright import _core

torch = pytest.importorskip("torch", reason="tilewright.deep_gemm works on torch tensors")

from deep_gemm_operands import BF16, scaled, unscaled
from tilewright import deep_gemm
from tilewright.deep_gemm import _settings, testing, utils
from tilewright.deep_gemm.testing.bench import kernel_seconds


@pytest.fixture
def calls(monkeypatch):
    """The SM limit, the invariance and the overlap of every call that reaches the library."""
    seen, real = [], _core.multiply

    def recording(a, b, *, groups, options):
        seen.append((options.get("sm_limit", 0), options["invariant"], options["overlap"]))
        return real(a, b, groups=groups, options=options)

    monkeypatch.setattr(_core, "multiply", recording)
    monkeypatch.setitem(_settings.call_options, "overlap", None)  # as if set_pdl had never been called
    yield seen
    deep_gemm.set_num_sms(0)
    tw.defaults.invariant = tw.defaults.overlap = False


def multiply(rng):
    a, b = scaled(rng, (4, 128), "1x128")[0], scaled(rng, (16, 128), "128x128")[0]
    d = torch.empty(4, 16, dtype=BF16)
    deep_gemm.fp8_gemm_nt(a, b, d)
    return d


def test_the_sm_limit_reaches_every_call(rng, calls):
    free = deep_gemm.get_num_sms()
    assert free > 0
    multiply(rng)
    deep_gemm.set_num_sms(64)
    assert deep_gemm.get_num_sms() == 64
    multiply(rng)
    experts = scaled(rng, (2, 16, 128), "128x128")[0]
    d = torch.empty(3, 16, dtype=BF16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        scaled(rng, (3, 128), "1x128")[0], experts, d, torch.zeros(3, dtype=torch.int32)
    )
    deep_gemm.set_num_sms(0)
    assert deep_gemm.get_num_sms() == free
    multiply(rng)
    assert [limit for limit, _, _ in calls] == [0, 64, 64, 0]
    with pytest.raises(ValueError, match="new_num_sms: got -1; expected an integer (from|of at least) 0"):
        deep_gemm.set_num_sms(-1)


def test_calls_are_invariant_as_the_process_or_a_block_says(rng, calls):
    multiply(rng)
    tw.defaults.invariant = True
    invariant = multiply(rng)
    x = torch.ones(2, 8)
    tw.gemm(x, x, invariant=False)
    tw.defaults.invariant = False
    with tw.options(invariant=True):
        multiply(rng)
    tw.gemm(x, x)
    assert [flag for _, flag, _ in calls] == [False, True, False, True, False]
    assert invariant.isfinite().all()


def test_an_invariant_row_has_the_same_bits_alone(rng):
    x, w = (torch.from_numpy(rng.standard_normal((rows, 512))).float() for rows in (9, 256))
    (values, sf), b = deep_gemm.per_token_cast_to_fp8(x, False), deep_gemm.per_block_cast_to_fp8(w, False)
    d, alone = torch.empty(9, 256), torch.empty(1, 256)
    with tw.options(invariant=True):
        deep_gemm.fp8_gemm_nt((values, sf), b, d)
        deep_gemm.fp8_gemm_nt((values[4:5], sf[4:5]), b, alone)
    deep_gemm.testing.assert_bitwise_equal(d[4:5], alone)


def test_pdl_makes_every_call_overlap(rng, calls):
    assert deep_gemm.get_pdl() is False
    multiply(rng)
    deep_gemm.set_pdl(True)
    assert deep_gemm.get_pdl() is True and not tw.options.current().overlap
    multiply(rng)
    rows, experts = scaled(rng, (3, 128), "1x128")[0], scaled(rng, (2, 16, 128), "128x128")[0]
    d = torch.empty(3, 16, dtype=BF16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(rows, experts, d, torch.zeros(3, dtype=torch.int32))
    x, y, z = unscaled(rng, (2, 3, 8))[0], unscaled(rng, (3, 4, 8))[0], torch.empty(2, 3, 4, dtype=BF16)
    deep_gemm.einsum("bhr,hdr->bhd", x, y, z)
    tw.gemm(torch.ones(2, 8), torch.ones(2, 8))  # no call of this module
    deep_gemm.set_pdl(False)
    assert deep_gemm.get_pdl() is False
    multiply(rng)
    assert [overlap for _, _, overlap in calls] == [False, True, True, True, False, False]


def test_pdl_is_the_process_choice_until_it_is_set(rng, calls):
    tw.defaults.overlap = True
    assert deep_gemm.get_pdl() is True
    multiply(rng)
    deep_gemm.set_pdl(False)
    assert deep_gemm.get_pdl() is False and tw.options.current().overlap
    multiply(rng)
    assert [overlap for _, _, overlap in calls] == [True, False]


def test_the_planned_device_reaches_every_call(rng, monkeypatch):
    seen, real = [], _core.multiply

    def recording(a, b, *, groups, options):
        seen.append(options["planned_device"])
        return real(a, b, groups=groups, options=options)

    monkeypatch.setattr(_core, "multiply", recording)
    multiply(rng)
    with tw.options(planned_device="h100-pcie"):
        multiply(rng)
        x = torch.ones(2, 8)
        tw.gemm(x, x, planned_device="h20")
    multiply(rng)
    assert seen == ["automatic", "h100-pcie", "h20", "automatic"]
    with pytest.raises(ValueError, match="^planned_device: got 'h1'; expected one of h200, h100"):
        tw.options(planned_device="h1")


def test_settings_that_are_kept():
    assert deep_gemm.get_tc_util() == 100
    deep_gemm.set_tc_util(60)
    assert deep_gemm.get_tc_util() == 60
    deep_gemm.set_tc_util(0)
    assert deep_gemm.get_tc_util() == 100
    deep_gemm.set_ignore_compile_dims(True)
    deep_gemm.use_deterministic_algorithms(True)
    deep_gemm.set_block_size_multiple_of(64)
    deep_gemm.set_block_size_multiple_of((64, 128))
    for wrong in (lambda: deep_gemm.set_tc_util(101), lambda: deep_gemm.set_block_size_multiple_of(0)):
        with pytest.raises(ValueError, match="; expected an integer (from|of at least)"):
            wrong()


def test_alignments():
    names = ("m", "k", "mk")
    for name in names:
        assert getattr(utils, f"get_{name}_alignment_for_contiguous_layout")() == 128
    utils.set_mk_alignment_for_contiguous_layout(64)
    assert [getattr(deep_gemm, f"get_{name}_alignment_for_contiguous_layout")() for name in names] == [64] * 3
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)
    assert deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout() == 128
    assert deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout(expected_m=20) == 128


def test_which_kernels_count():
    totals = {"void tilewright::gemm<(Tile)1>": 6.0, "nvjet_qqtst": 3.0, "splitKreduce_kernel": 1.0,
              "at::native::FillFunctor<int>": 90.0, "Memset (Device)": 50.0}  # fmt: skip
    seconds = {
        ("gemm_",): (3.0,),  # ours under any name
        ("gemm",): (3.0,),
        ("nvjet", "reduce"): (1.5, 0.5),
        ("fp8_gemm_kernel", "nvjet"): (3.0, 1.5),
        ("Fill",): (3.0,),
    }
    for names, expected in seconds.items():
        assert kernel_seconds(totals, names, 2) == expected, names
    torchs = {name: total for name, total in totals.items() if "tilewright" not in name}
    assert kernel_seconds(torchs, ("bf16_gemm",), 2) == (2.0,)  # all that was launched
    assert kernel_seconds(torchs, ("nvjet", "gemv"), 2) == (1.5, 0.0)


def test_timing(capfd, monkeypatch):
    """Wall-clock where there is no GPU."""
    counted = []
    for quiet in (False, True):
        got = testing.bench_kineto(lambda: counted.append(1), "gemm_", num_tests=3, suppress_kineto_output=quiet)
        assert 0 < got < 10
    assert len(testing.bench_kineto(lambda: None, ("a", "b"), num_tests=2)) == 2
    assert 0 < testing.bench(lambda: counted.append(1), num_warmups=1, num_tests=2) < 10
    monkeypatch.setenv("DG_USE_NVIDIA_TOOLS", "1")
    before = len(counted)
    assert testing.bench_kineto(lambda: counted.append(1), ("a", "b")) == (1, 1) and len(counted) == before


def test_comparing():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
    assert float(testing.calc_diff(x, y)) == pytest.approx(1 - 2 * 6 / (5 + 7.25))
    assert testing.calc_diff(x, x) == 0 and testing.calc_diff(x * 0, y * 0) == 0
    assert testing.count_bytes(x, (x.half(), [None, torch.zeros(3, dtype=torch.int8)])) == 8 + 4 + 3
    testing.assert_bitwise_equal(x.view(1, 2), x.view(1, 2))
    for other, message in ((y, r"1 of 2 elements differ.*\(rows\).*at \[1\]: 2.0 and 2.5"), (x.half(), "float16")):
        with pytest.raises(AssertionError, match=message):
            testing.assert_bitwise_equal(x, other, "rows")
    with pytest.raises(AssertionError, match=r"-0\.0"):
        testing.assert_bitwise_equal(torch.tensor([0.0]), torch.tensor([-0.0]))


def test_decorators(capsys, monkeypatch):
    ran = []

    @testing.test_filter(lambda: False)
    def left_out():
        ran.append("left out")

    @testing.ignore_env("TILEWRIGHT_TEST_WORD", lambda: True)
    def without(word):
        ran.append((word, os.environ.get("TILEWRIGHT_TEST_WORD")))

    monkeypatch.setenv("TILEWRIGHT_TEST_WORD", "kept")
    left_out()
    without("given")
    assert ran == [("given", None)] and os.environ["TILEWRIGHT_TEST_WORD"] == "kept"
    assert "left_out" in capsys.readouterr().out
    assert testing.get_arch_major() >= 7


NAMES = """set_num_sms get_num_sms set_tc_util get_tc_util set_ignore_compile_dims set_block_size_multiple_of set_pdl get_pdl
cublaslt_gemm_nt cublaslt_gemm_nn cublaslt_gemm_tn cublaslt_gemm_tt fp8_fp4_gemm_nt fp8_fp4_gemm_nn fp8_fp4_gemm_tn
fp8_fp4_gemm_tt m_grouped_fp8_fp4_gemm_nt_contiguous m_grouped_fp8_fp4_gemm_nn_contiguous
m_grouped_fp8_fp4_gemm_nt_masked fp8_gemm_nt fp8_gemm_nn fp8_gemm_tn fp8_gemm_tt fp8_gemm_nt_skip_head_mid
m_grouped_fp8_gemm_nt_contiguous m_grouped_fp8_gemm_nn_contiguous m_grouped_fp8_gemm_nt_masked
k_grouped_fp8_gemm_nt_contiguous k_grouped_fp8_gemm_tn_contiguous bf16_gemm_nt bf16_gemm_nn bf16_gemm_tn bf16_gemm_tt
m_grouped_bf16_gemm_nt_contiguous m_grouped_bf16_gemm_nn_contiguous m_grouped_bf16_gemm_nt_masked
k_grouped_bf16_gemm_tn_contiguous einsum fp8_einsum transform_sf_into_required_layout fp8_m_grouped_gemm_nt_masked
bf16_m_grouped_gemm_nt_masked get_tma_aligned_size get_mn_major_tma_aligned_tensor
get_mn_major_tma_aligned_packed_ue8m0_tensor get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor
set_mk_alignment_for_contiguous_layout get_mk_alignment_for_contiguous_layout
get_theoretical_mk_alignment_for_contiguous_layout get_m_alignment_for_contiguous_layout
get_k_alignment_for_contiguous_layout ceil_div align ceil_to_ue8m0 pack_ue8m0_to_int unpack_ue8m0_from_int
per_token_cast_to_fp8 per_channel_cast_to_fp8 per_block_cast_to_fp8 per_custom_dims_cast_to_fp8 per_token_cast_to_fp4
transpose_packed_fp4 cast_back_from_fp4 init_dist uneven_all_gather gemm_fp8_fp8_bf16_nt
m_grouped_gemm_fp8_fp8_bf16_nt_contiguous m_grouped_gemm_fp8_fp8_bf16_nt_masked wgrad_gemm_fp8_fp8_fp32_nt
k_grouped_wgrad_gemm_fp8_fp8_fp32_nt get_col_major_tma_aligned_tensor calc_diff bench bench_kineto testing utils
__version__ legacy mega"""
# Additions of version 2.8.0.
NEWER_NAMES = "fp4_gemm_nt m_grouped_fp4_gemm_nt_contiguous m_grouped_fp4_gemm_nt_masked use_deterministic_algorithms"


def test_names(cublas_allowed):
    """tests/python/test_deep_gemm_missing.py has those that are missing."""
    assert [name for name in f"{NAMES} {NEWER_NAMES}".split() if not hasattr(deep_gemm, name)] == []
    for module, names in (
        (
            testing,
            "bench bench_kineto calc_diff count_bytes assert_bitwise_equal get_arch_major test_filter ignore_env",
        ),
        (utils, "math layout init_dist uneven_all_gather align per_token_cast_to_fp8 get_tma_aligned_size"),
    ):
        assert [name for name in names.split() if not hasattr(module, name)] == []


def test_on_several_processes(tmp_path):
    """Tensors of different sizes from two ranks over Gloo."""
    if torch.cuda.is_available():
        pytest.skip("ranks would share GPUs")
    with socket.create_server(("127.0.0.1", 0)) as server:  # a free port
        port = server.getsockname()[1]
    torch.multiprocessing.spawn(gather_on_rank, args=(2, str(tmp_path), port), nprocs=2)
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt").tolist() == [[0.0], [1.0], [1.0]]


def gather_on_rank(rank, ranks, folder, port):
    os.environ["MASTER_PORT"] = str(port)
    me, size, group = utils.init_dist(rank, ranks)
    mine = torch.full((me + 1, 1), float(me))
    along_columns = utils.uneven_all_gather(mine.T.contiguous(), dim=1, group=group)
    assert size == 2 and torch.equal(along_columns.T, utils.uneven_all_gather(mine))
    torch.save(along_columns.T.contiguous(), os.path.join(folder, f"{rank}.pt"))
    torch.distributed.barrier()  # a rank that leaves while the other still talks to it can end that one
    torch.distributed.destroy_process_group()


def test_bf16_takes_the_limit_too(rng, calls):
    a, b = unscaled(rng, (4, 32))[0], unscaled(rng, (8, 32))[0]
    deep_gemm.set_num_sms(32)
    deep_gemm.bf16_gemm_nt(a, b, torch.empty(4, 8, dtype=BF16))
    assert [limit for limit, _, _ in calls] == [32]
