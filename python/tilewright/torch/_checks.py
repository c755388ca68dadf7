"""Checks of the arguments of the layers, with messages that name the arguments of the layers."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from tilewright.torch._recipes import GRADIENT_FORMATS, RECIPES, UNPROMOTED

REAL = (torch.float32, torch.bfloat16, torch.float16)


def refuse(argument: str, got: object, expected: str, advice: str = "") -> NoReturn:
    """Raises ValueError with the text `argument: got X; expected Y. Advice.`

    Args:
        argument: the name of the argument, as the caller wrote it.
        got: the value, shape, dtype or kind that it has.
        expected: what it must be. No period at its end.
        advice: whole sentences about what to do; may be empty.
    """
    raise ValueError(f"{argument}: got {got}; expected {expected}." + (f" {advice}" if advice else ""))


def check_recipe(name: str, gradient_format: str, promoted: bool, keep: str) -> None:
    if name not in RECIPES:
        refuse("recipe", repr(name), "one of " + ", ".join(RECIPES))
    if gradient_format not in GRADIENT_FORMATS:
        refuse("gradient_format", repr(gradient_format), "one of " + ", ".join(GRADIENT_FORMATS))
    if not isinstance(promoted, bool):
        refuse("promoted", repr(promoted), "True or False")
    if not promoted and name not in UNPROMOTED:
        expected = f"True with recipe {name!r}, because block scales are applied during accumulation"
        refuse("promoted", "False", expected, "promoted=False needs recipe " + " or ".join(map(repr, UNPROMOTED)) + ".")
    if keep not in ("copy", "weight"):
        refuse("keep", repr(keep), "'copy' or 'weight'")


def is_shard(tensor: object) -> bool:
    """Whether the tensor is a DTensor. DTensor is not imported for the check.

    Compilers can trace `hasattr`, but not `type(tensor).__mro__`.
    """
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "placements")


def check_whole(argument: str, tensor: torch.Tensor | None) -> None:
    """Refuses nested, sparse and sharded tensors: all values must be in one local array."""
    if tensor is None:
        return
    if tensor.is_nested:
        refuse(argument, "a nested tensor", "one dense tensor", "Concatenate its parts along tokens: torch.cat(x.unbind()).")
    if tensor.layout != torch.strided:
        kind = str(tensor.layout).removeprefix("torch.").removeprefix("_")
        refuse(argument, f"a tensor of layout {kind}", "a dense tensor", f"Pass {argument}.to_dense().")
    if is_shard(tensor):
        refuse(
            argument,
            f"a sharded DTensor {list(tensor.shape)}",
            "a full local tensor",
            f"Call the FSDP-wrapped module or its unshard(), or pass {argument}.full_tensor().",
        )


def storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def check_memory(argument: str, tensor: torch.Tensor | None) -> None:
    """Refuses a tensor whose storage was freed. Called where values are read: a compiler's tensors have no storage."""
    if tensor is not None and tensor.numel() > 0 and storage(tensor).nbytes() == 0:
        refuse(
            argument,
            f"a tensor {list(tensor.shape)} whose storage was freed",
            "a tensor with memory",
            "FSDP frees a weight between forward and backward of the module that it wraps. Call that module, or its "
            "unshard() first.",
        )


def check_activations(x: torch.Tensor, features: int) -> None:
    if not isinstance(x, torch.Tensor) or x.dtype not in REAL:
        refuse("x", getattr(x, "dtype", type(x).__name__), "a tensor of float32, bfloat16 or float16")
    check_whole("x", x)
    if x.dim() < 1 or x.shape[-1] != features:
        refuse("x", list(x.shape), f"[tokens, {features}], because w has {features} columns")


def check_weights(w: torch.Tensor, dimensions: str) -> None:
    if not isinstance(w, torch.Tensor) or w.dtype not in REAL[:2]:
        refuse("w", getattr(w, "dtype", type(w).__name__), "a tensor of float32 or bfloat16")
    check_whole("w", w)
    if w.dim() != dimensions.count(",") + 1:
        refuse("w", list(w.shape), f"[{dimensions}]")


def check_ends(ends: torch.Tensor, x: torch.Tensor, groups: int) -> None:
    if not isinstance(ends, torch.Tensor) or ends.dtype not in (torch.int32, torch.int64):
        refuse("ends", getattr(ends, "dtype", type(ends).__name__), "a tensor of int32 or int64")
    check_whole("ends", ends)
    if list(ends.shape) != [groups]:
        refuse("ends", list(ends.shape), f"[{groups}], one per group of w")
    _check_device("ends", ends, x, "x")


def check_values_of_ends(ends: torch.Tensor, tokens: int) -> None:
    """Checks the values on the CPU only. On a GPU the host does not read them, and kernels clamp them."""
    if ends.device.type != "cpu" or ends.shape[0] == 0:
        return
    if bool((ends[1:] < ends[:-1]).any()) or int(ends[0]) < 0:
        advice = "Pass cumulative ends: torch.cumsum(sizes, 0)."
        refuse("ends", ends.tolist(), "ends that do not decrease and are at least 0", advice)
    if int(ends[-1]) > tokens:
        refuse("ends", ends.tolist(), f"ends of at most {tokens}, the number of tokens in x")


def check_bias(bias: torch.Tensor | None, w: torch.Tensor) -> None:
    if bias is None:
        return
    if not isinstance(bias, torch.Tensor) or bias.dtype not in REAL[:2]:
        refuse("bias", getattr(bias, "dtype", type(bias).__name__), "a tensor of float32 or bfloat16")
    check_whole("bias", bias)
    if bias.shape != w.shape[:-1]:
        refuse("bias", list(bias.shape), str(list(w.shape[:-1])))
    _check_device("bias", bias, w, "w")


def check_main_grad(main_grad: torch.Tensor | None, w: torch.Tensor) -> None:
    if main_grad is None:
        return
    check_whole("main_grad", main_grad)
    if main_grad.dtype not in REAL[:2] or main_grad.shape != w.shape or main_grad.device != w.device:
        got = f"{main_grad.dtype} {list(main_grad.shape)} on {main_grad.device}"
        refuse("main_grad", got, f"torch.float32 or torch.bfloat16 {list(w.shape)} on {w.device}, like w")


def check_frozen(wants: bool, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Refuses tensors that require a gradient, if gradients are recorded: a frozen layer has none."""
    for name, tensor in (("x", x), ("w", w), ("bias", bias)):
        if wants and tensor is not None and tensor.requires_grad:
            refuse(
                name,
                "a tensor that requires a gradient",
                "a call under torch.no_grad() or torch.inference_mode(), because the layer is frozen",
                "Call unfreeze() to train.",
            )


def check_devices(x: torch.Tensor, w: torch.Tensor) -> None:
    _check_device("x", x, w, "w")


def _check_device(argument: str, tensor: torch.Tensor, other: torch.Tensor, name: str) -> None:
    if tensor.device != other.device:
        refuse(argument, f"a tensor on {tensor.device}", f"one on {other.device}, the device of {name}")
