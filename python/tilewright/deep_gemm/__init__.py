"""A drop-in for DeepGEMM's Python API, for torch tensors on Hopper GPUs and on the CPU:

    import tilewright.deep_gemm as deep_gemm

Products write into d, return None, and run on torch's current stream. A wrong call raises InvalidCall, a ValueError that
names each wrong operand, its value and the expected value.

A name of DeepGEMM that Tilewright does not support is missing: `hasattr` is False, and the AttributeError gives the reason
and an alternative. `fall_back_to` forwards missing names to a real DeepGEMM. docs/deep_gemm.md lists all differences.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("tilewright.deep_gemm works on torch tensors: install torch 2.8 or newer") from _error

from tilewright.deep_gemm import legacy, mega, testing, utils
from tilewright.deep_gemm._cublas import allow_cublas
from tilewright.deep_gemm._fallback import fall_back_to
from tilewright.deep_gemm._layout import transform_sf_into_required_layout
from tilewright.deep_gemm._missing import getter as _getter
from tilewright.deep_gemm._missing import lister as _lister
from tilewright.deep_gemm._settings import (
    get_num_sms,
    get_pdl,
    get_tc_util,
    set_block_size_multiple_of,
    set_ignore_compile_dims,
    set_num_sms,
    set_pdl,
    set_tc_util,
    use_deterministic_algorithms,
)
from tilewright.deep_gemm.dense import (
    bf16_gemm_nt,
    bf16_gemm_tn,
    bf16_gemm_tt,
    cublaslt_gemm_nn,
    cublaslt_gemm_nt,
    cublaslt_gemm_tn,
    cublaslt_gemm_tt,
    einsum,
    fp4_gemm_nt,
    fp8_einsum,
    fp8_fp4_gemm_nn,
    fp8_fp4_gemm_nt,
    fp8_fp4_gemm_tn,
    fp8_fp4_gemm_tt,
    fp8_gemm_nn,
    fp8_gemm_nt,
    fp8_gemm_nt_skip_head_mid,
    fp8_gemm_tn,
    fp8_gemm_tt,
)
from tilewright.deep_gemm.grouped import (
    bf16_m_grouped_gemm_nt_masked,
    fp8_m_grouped_gemm_nt_masked,
    k_grouped_fp8_gemm_nt_contiguous,
    k_grouped_fp8_gemm_tn_contiguous,
    m_grouped_bf16_gemm_nn_contiguous,
    m_grouped_bf16_gemm_nt_masked,
    m_grouped_fp4_gemm_nt_contiguous,
    m_grouped_fp4_gemm_nt_masked,
    m_grouped_fp8_fp4_gemm_nn_contiguous,
    m_grouped_fp8_fp4_gemm_nt_contiguous,
    m_grouped_fp8_fp4_gemm_nt_masked,
    m_grouped_fp8_gemm_nn_contiguous,
    m_grouped_fp8_gemm_nt_contiguous,
    m_grouped_fp8_gemm_nt_masked,
)
from tilewright.deep_gemm.older import (
    gemm_fp8_fp8_bf16_nt,
    k_grouped_wgrad_gemm_fp8_fp8_fp32_nt,
    m_grouped_gemm_fp8_fp8_bf16_nt_contiguous,
    m_grouped_gemm_fp8_fp8_bf16_nt_masked,
    wgrad_gemm_fp8_fp8_fp32_nt,
)
from tilewright.deep_gemm.testing import bench, bench_kineto, calc_diff
from tilewright.deep_gemm.utils import *  # noqa: F403
from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor

__version__ = "2.6.1"
"""The version of DeepGEMM whose API this package has."""

get_col_major_tma_aligned_tensor = get_mn_major_tma_aligned_tensor

__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("dense", "grouped", "older"))
__getattr__ = _getter(__name__)
__dir__ = _lister(__name__)
