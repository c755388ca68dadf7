"""What a call of the layers must be, in the layers' own words."""

from __future__ import annotations

import torch

from tilewright.torch._recipes import RECIPES, LayerRecipe

REAL = (torch.float32, torch.bfloat16, torch.float16)


def refuse(argument: str, given: object, expected: str) -> None:
    raise ValueError(f"{argument}: {given} given, {expected} expected")


def layer_recipe(name: str) -> LayerRecipe:
    if name not in RECIPES:
        refuse("recipe", repr(name), "one of " + ", ".join(RECIPES))
    return RECIPES[name]


def check_activations(x: torch.Tensor, features: int) -> None:
    if not isinstance(x, torch.Tensor) or x.dtype not in REAL:
        refuse("x", getattr(x, "dtype", type(x).__name__), "a tensor of float32, bfloat16 or float16")
    if x.dim() < 1 or x.shape[-1] != features:
        refuse("x", list(x.shape), f"[tokens, {features}], as w has {features} columns")


def check_weights(w: torch.Tensor, dimensions: str) -> None:
    if not isinstance(w, torch.Tensor) or w.dtype not in REAL[:2]:
        refuse("w", getattr(w, "dtype", type(w).__name__), "a tensor of float32 or bfloat16")
    if w.dim() != dimensions.count(",") + 1:
        refuse("w", list(w.shape), f"[{dimensions}]")


def check_ends(ends: torch.Tensor, x: torch.Tensor, groups: int) -> None:
    """Values are looked at on the CPU alone: a GPU's stay there, where kernels clamp them."""
    if not isinstance(ends, torch.Tensor) or ends.dtype not in (torch.int32, torch.int64):
        refuse("ends", getattr(ends, "dtype", type(ends).__name__), "a tensor of int32 or int64")
    if list(ends.shape) != [groups]:
        refuse("ends", list(ends.shape), f"[{groups}], one for each group of w")
    if ends.device != x.device:
        refuse("ends", f"a tensor on {ends.device}", f"one on {x.device}, where x is")
    if ends.device.type != "cpu" or groups == 0:
        return
    if bool((ends[1:] < ends[:-1]).any()) or int(ends[0]) < 0:
        refuse("ends", ends.tolist(), "ends that do not decrease, the first at least 0")
    if int(ends[-1]) > x.shape[0]:
        refuse("ends", ends.tolist(), f"at most {x.shape[0]}, the tokens of x")


def check_bias(bias: torch.Tensor | None, shape: list[int]) -> None:
    if bias is not None and list(bias.shape) != shape:
        refuse("bias", list(bias.shape), str(shape))


def check_main_grad(main_grad: torch.Tensor | None, w: torch.Tensor) -> None:
    if main_grad is None:
        return
    if main_grad.dtype != torch.float32 or main_grad.shape != w.shape or main_grad.device != w.device:
        given = f"{main_grad.dtype} {list(main_grad.shape)} on {main_grad.device}"
        refuse("main_grad", given, f"torch.float32 {list(w.shape)} on {w.device}")


def check_devices(x: torch.Tensor, w: torch.Tensor) -> None:
    if x.device != w.device:
        refuse("x", f"a tensor on {x.device}", f"one on {w.device}, where w is")
