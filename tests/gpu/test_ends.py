"""Sums at both ends of fp32 on a Hopper GPU: the CPU's bits, finite and near the exact sum, however the sides share the exponent."""

import numpy as np
import pytest
import tilewright as tw

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

M, N, K = 24, 128, 512
PAIRS = [
    ("1x128", "mxfp4"), ("row", "mxfp4"), ("tensor", "mxfp4"), ("mxfp8", "mxfp4"), ("mxfp4", "mxfp4"), ("bf16", "mxfp4"),
    ("nvfp4", "mxfp4"), ("1x128", "nvfp4"), ("row", "nvfp4"), ("mxfp8", "nvfp4"), ("nvfp4", "nvfp4"), ("bf16", "nvfp4"),
    ("nvfp4", "mxfp8"), ("1x128", "row"), ("1x128", "tensor"), ("1x128", "128x128"), ("1x128", "1x128"), ("row", "row"),
    ("mxfp8", "mxfp8"), ("row", "mxfp8"),
]  # fmt: skip


def operand(rows, recipe, seed):
    numbers = torch.rand(rows, K, generator=torch.Generator().manual_seed(seed)) + 0.5
    return numbers.bfloat16() if recipe == "bf16" else tw.quantize(numbers, recipe)


def numbers_of(scales):
    """In float64, those of one byte too."""
    if scales.dtype == torch.float8_e8m0fnu:
        return 2.0 ** (scales.view(torch.uint8).double() - 127)
    return scales.double()


def shifted(side, recipe, exponent):
    """The side times 2^exponent, by what of it has the range of fp32; None where that does not hold it."""
    if recipe == "bf16":
        return side if exponent == 0 else None
    tensor = side.tensor_scale if recipe == "nvfp4" else side.scales
    wide = numbers_of(tensor) * 2.0**exponent
    if float(wide.min()) < 2.0**-126 or float(wide.max()) >= 2.0**127:
        return None
    if tensor.dtype == torch.float8_e8m0fnu:
        moved = (tensor.view(torch.uint8).to(torch.int32) + exponent).to(torch.uint8)
    else:
        moved = wide.float()
    if recipe == "nvfp4":
        return tw.Quantized(side.values, recipe, side.scales, moved)
    return tw.Quantized(side.values, recipe, moved)


def ends_of_scales(side, recipe):
    """The smallest and the largest number that the values of a side are multiplied by."""
    if recipe == "bf16":
        return 1.0, 1.0
    scales = numbers_of(side.scales)
    if recipe == "nvfp4":
        scales = torch.cat([scales.flatten(), torch.ones(1)]) * float(side.tensor_scale)
    return float(scales.min()), float(scales.max())


def on_gpu(side):
    if isinstance(side, torch.Tensor):
        return side.cuda()
    tensor = None if side.tensor_scale is None else side.tensor_scale.cuda()
    return tw.Quantized(side.values.cuda(), side.recipe, side.scales.cuda(), tensor)


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize("recipes", PAIRS, ids=":".join)
def test_the_cpus_bits_at_an_end(recipes, top):
    sides = [operand(rows, recipe, seed) for seed, (rows, recipe) in enumerate(zip((M, N), recipes, strict=True))]
    unshifted = tw.gemm(*sides, out_dtype="f32", arithmetic="bit_exact", invariant=True)
    smallest, largest = (np.prod(ends) for ends in zip(*map(ends_of_scales, sides, recipes), strict=True))
    # Products of scales are to be normal numbers too.
    if top:
        room = min(125 - int(np.ceil(np.log2(float(unshifted.max())))), 126 - int(np.ceil(np.log2(largest))))
    else:
        room = max(-121 - int(np.floor(np.log2(float(unshifted.min())))), -125 - int(np.floor(np.log2(smallest))))
    tried = 0
    for part in (0, room, room // 2, 60, -60, 100, -100, 118, -118):
        moved = [shifted(side, recipe, e) for side, recipe, e in zip(sides, recipes, (part, room - part), strict=True)]
        if moved[0] is None or moved[1] is None:
            continue
        cpu = tw.gemm(*moved, out_dtype="f32", arithmetic="bit_exact", invariant=True)
        gpu = tw.gemm(*map(on_gpu, moved), out_dtype="f32", invariant=True).cpu()
        assert torch.equal(cpu.view(torch.int32), gpu.view(torch.int32)), part
        assert torch.equal(cpu.double(), unshifted.double() * 2.0**room), part
        tried += 1
    assert tried > 0
