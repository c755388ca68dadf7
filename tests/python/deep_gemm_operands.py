"""Operands of tilewright.deep_gemm whose products are exact, as torch tensors, and what the products are."""

import operands
import torch

BF16, F32 = torch.bfloat16, torch.float32
SENTINEL = 2.0**100  # no product here is so large


def scaled(rng, shape, granularity):
    """((e4m3, float32 factors), the matrix that they describe, in float64)."""
    given, real = operands.exact(rng, shape, granularity)
    values = torch.from_numpy(given.values.view("uint8")).view(torch.float8_e4m3fn)
    return (values, torch.from_numpy(given.scales)), torch.from_numpy(real)


def unscaled(rng, shape):
    """(bf16, the same in float64)."""
    real = torch.from_numpy(operands.exact(rng, shape, "f32").real)
    return real.to(BF16), real


def rounded(real, dtype):
    """Rounded once. The float32 values are exact."""
    assert torch.equal(real.float().double(), real)
    return real.float().to(dtype)


def sentinel(*shape, dtype=BF16):
    """An output whose unwritten elements show."""
    return torch.full(shape, SENTINEL, dtype=dtype)


def integers(rng, *shape, dtype=BF16):
    """Something to add, small enough for sums to stay exact."""
    return torch.from_numpy(rng.integers(-8, 9, shape)).to(dtype)


def bits_equal(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and torch.equal(
        x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8)
    )  # fmt: skip


def moved(x):
    return tuple(map(moved, x)) if isinstance(x, tuple) else x.cuda() if isinstance(x, torch.Tensor) else x


def launches(function):
    """Kernels, copies and fills that a call enqueues."""
    function()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        function()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profiler.events())
