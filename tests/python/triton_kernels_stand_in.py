"""The functions of triton_kernels that benchmarks/triton_kernels_layer.py calls, in torch, with what its kernels require."""

import sys
import types
from typing import NamedTuple

import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
FP4 = "fp4"
FUNCTION = object()  # swiglu_fn, which only the kernel calls


class FnSpecs(NamedTuple):
    name: str
    fn: object
    fn_arg_names: tuple


class FusedActivation(NamedTuple):
    specs: FnSpecs
    fn_args: tuple
    reduction_n: int


class PrecisionConfig(NamedTuple):
    weight_scale: torch.Tensor


class RoutingData(NamedTuple):
    gate_scal: torch.Tensor
    expt_hist: torch.Tensor
    n_expts_act: int


class Indices(NamedTuple):
    src_indx: torch.Tensor


def routing(logits, top, expt_indx=None):
    """The data, and the indices of gather and of scatter. Choices are sorted by expert, and weigh the softmax of their logits."""
    ids = torch.topk(logits, top).indices if expt_indx is None else expt_indx.long()
    weights = logits.gather(1, ids).softmax(-1)
    order = torch.argsort(ids.flatten(), stable=True)
    counts = torch.bincount(ids.flatten(), minlength=logits.shape[1])
    return RoutingData(weights.flatten()[order], counts, top), Indices(order), Indices(torch.argsort(order))


def real(values, scales):
    """[experts, k / 2, n] and [experts, k / 32, n] as [experts, k, n]."""
    table = torch.tensor(E2M1)
    pairs = torch.stack([table[(values & 15).long()], table[(values >> 4).long()]], 2).flatten(1, 2)
    return pairs * torch.exp2(scales.float() - 127).repeat_interleave(32, 1)[:, : pairs.shape[1]]


def swiglu(z, alpha, limit):
    gate, up = z[:, 0::2].clamp(max=limit), z[:, 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def matmul_ogs(x, w, bias, data, gather_indx=None, scatter_indx=None, precision_config=None, gammas=None, fused_activation=None):
    scales = precision_config.weight_scale
    assert x.dtype == torch.bfloat16 and bias.dtype == torch.float32
    assert scales.shape[1] % 4 == 0, "the kernel reads four scales at once"
    rows = x[gather_indx.src_indx // data.n_expts_act] if gather_indx else x
    experts = torch.repeat_interleave(torch.arange(len(data.expt_hist)), data.expt_hist)
    z = torch.einsum("rk,rkn->rn", rows.float(), real(w, scales)[experts]) + bias[experts]
    if fused_activation:
        assert fused_activation.specs.fn is FUNCTION and fused_activation.reduction_n == 2
        z = swiglu(z, **dict(zip(fused_activation.specs.fn_arg_names, fused_activation.fn_args, strict=True)))
    if gammas is not None:
        z = z * gammas[:, None]
    z = z.to(torch.bfloat16)
    if scatter_indx is None:
        return z
    return z[scatter_indx.src_indx].view(-1, data.n_expts_act, z.shape[1]).float().sum(1).to(torch.bfloat16)


def install(monkeypatch, product=matmul_ogs):
    """As the package triton_kernels. Returns the constraints that are set."""
    constraints = {}
    modules = {
        "matmul_ogs": {"FnSpecs": FnSpecs, "FusedActivation": FusedActivation, "PrecisionConfig": PrecisionConfig, "matmul_ogs": product},
        "matmul_ogs_details.opt_flags": {"update_opt_flags_constraints": constraints.update},
        "routing": {"routing": routing},
        "swiglu": {"swiglu_fn": FUNCTION},
        "tensor": {"FP4": FP4, "wrap_torch_tensor": lambda tensor, dtype=None: tensor, "convert_layout": lambda tensor, layout, **_: tensor},
        "tensor_details.layout": {
            "make_default_matmul_mxfp4_w_layout": lambda mx_axis: ("values", {"mx_axis": mx_axis}),
            "make_default_matmul_mxfp4_w_scale_layout": lambda mx_axis, num_warps: ("scales", {"mx_axis": mx_axis, "num_warps": num_warps}),
        },
    }
    for name in ("triton_kernels", "triton_kernels.matmul_ogs_details", "triton_kernels.tensor_details"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name, members in modules.items():
        module = types.ModuleType(f"triton_kernels.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return constraints
