"""The parts of checkpoints: random values and scales with the dtypes and shapes of a scheme, and their numbers by numpy and
ml_dtypes. Nothing here is from this project's library."""

import dataclasses
import math

import ml_dtypes
import numpy as np

E4M3, FNUZ, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2
BF16 = ml_dtypes.bfloat16
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
random = np.random.default_rng(36)


@dataclasses.dataclass
class Raw:
    """Bytes under a dtype that numpy lacks, or that says more than its array: FP4 in U8, E8M0 in U8."""

    dtype: str
    array: np.ndarray


@dataclasses.dataclass
class Layout:
    """`source`: the public repository, and the file of it, that reads, writes or describes the layout."""

    model: str
    source: str
    config: dict
    tensors: dict = dataclasses.field(default_factory=dict)
    numbers: dict = dataclasses.field(default_factory=dict)  # name -> float64 [n, k] or [g, n, k]
    recipes: dict = dataclasses.field(default_factory=dict)  # name -> the recipe that holds them exactly
    refused: list = dataclasses.field(default_factory=list)  # a matrix each: words of its message
    extra: dict = dataclasses.field(default_factory=dict)  # other files -> JSON

    def matrix(self, name, recipe, tensors, numbers):
        self.tensors.update(tensors)
        self.numbers[name] = numbers
        self.recipes[name] = recipe

    def bf16(self, name, *shape):
        self.tensors[name] = random.standard_normal(shape).astype(BF16)


def fp8(*shape, dtype=E4M3):
    """Codes of finite numbers."""
    codes = random.integers(0, 256, shape, np.uint8)
    codes[~np.isfinite(codes.view(dtype).astype(np.float32))] = 3
    return codes.view(dtype)


def scales(*shape, dtype=np.float32):
    return np.array(random.random(shape) * 0.02 + 0.001, dtype)


def blocks(scale, rows, columns, shape):
    """A scale for each rows x columns of the last two sizes, as one for each element."""
    wide = np.repeat(np.repeat(scale.astype(np.float64), rows, -2), columns, -1)
    return wide[..., : shape[-2], : shape[-1]]


def block_fp8(layout, name, shape, *, scale=None, dtype=np.float32, block=(128, 128), recipe="128x128", values=E4M3):
    count = (*shape[:-2], math.ceil(shape[-2] / block[0]), math.ceil(shape[-1] / block[1]))
    codes, s = fp8(*shape, dtype=values), scales(*count, dtype=dtype)
    numbers = codes.astype(np.float64) * blocks(s, *block, shape)
    layout.matrix(name, recipe, {name: codes, scale or name + "_scale_inv": s}, numbers)


def one_fp8(layout, name, shape, *, scale=None, dtype=np.float32, scale_shape=()):
    """One scale for all."""
    codes, s = fp8(*shape), scales(*scale_shape, dtype=dtype)
    layout.matrix(name, "tensor", {name: codes, scale or name + "_scale": s}, codes.astype(np.float64) * float(s.reshape(())))


def row_fp8(layout, name, shape, *, dtype=BF16, flat=False):
    codes, s = fp8(*shape), scales(shape[0], 1, dtype=dtype)
    tensors = {
    name : codes, name + "_scale" : s.reshape(-1) if flat else s}
    layout.matrix(name, "row", tensors, codes.astype(np.float64) * s.astype(np.float64))


def fp4(*shape):
    """Bytes of two codes, and the numbers."""
    codes = random.integers(0, 256, (*shape[:-1], shape[-1] // 2), np.uint8)
    numbers = np.stack([FP4[codes & 15], FP4[codes >> 4]], -1).reshape(shape)
    return codes, numbers


def powers(*shape):
    exponents = random.integers(110, 127, shape, np.uint8)
    return exponents, np.exp2(exponents.astype(np.float64) - 127)


def mxfp4(layout, name, shape, *, values, scale, dtype="U8", scale_dtype="U8"):
    codes, numbers = fp4(*shape)
    exponents, s = powers(*shape[:-1], math.ceil(shape[-1] / 32))
    tensors = {values: Raw(dtype, codes), scale: Raw(scale_dtype, exponents)}
    layout.matrix(name, "mxfp4", tensors, numbers * np.repeat(s, 32, -1)[..., : shape[-1]])


def nvfp4(layout, name, shape, *, packed, input_scale=True):
    codes, numbers = fp4(*shape)
    s = (random.random((*shape[:-1], math.ceil(shape[-1] / 16))) * 100 + 1).astype(E4M3)
    numbers *= np.repeat(s.astype(np.float64), 16, -1)[..., : shape[-1]]
    if packed:
        layout.matrix(
            name,
            "nvfp4",
            {
                name + "_packed": Raw("U8", codes),
                name + "_scale": s,
                name + "_global_scale": np.array([512], np.float32),
                name.removesuffix("weight") + "input_global_scale": np.array([12], np.float32),
            },
            numbers / 512,
        )
        return
    second = np.array(0.0078125, np.float32)
    layout.matrix(name, "nvfp4", {name: Raw("U8", codes), name + "_scale": s, name + "_scale_2": second}, numbers / 128)
    if input_scale:
        layout.tensors[name.removesuffix("weight") + "input_scale"] = np.array(0.5, np.float32)


def fp8_config(block=(128, 128), **more):
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(block), **more}


def compressed(form, **weights):
    groups = {
    "group_0" : {
        "targets" : ["Linear"], "weights" : { "num_bits" : 8, "type" : "float", **weights }
    }}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": ["lm_head"]}


def moe(hidden, inner, **more):
    return {
    "hidden_size" : hidden, "moe_intermediate_size" : inner, "num_experts" : 2, **more}
