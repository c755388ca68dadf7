"""Numbers, what the layers of tilewright.torch compute in float64, and the bytes that they keep."""

import os

import numpy as np
import pytest
import torch
from tilewright import _core
from tilewright.torch import GroupedLinear, Linear, _planned

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small products wait for each other most of the time, on a machine with other work."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def normal(*shape, seed=0, dtype=torch.float32, device="cpu"):
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.tensor(numbers.tolist()).reshape(shape).to(dtype).to(device)


def error(given, exact):
    return float((given.double().cpu() - exact).norm() / max(float(exact.norm()), 1e-30))


def exact_grouped(x, w, ends, dy):
    """Y, dX and dW in float64."""
    x, w, dy = x.detach().cpu().double(), w.detach().cpu().double(), dy.cpu().double()
    y, dx, dw = torch.zeros(len(x), w.shape[1]).double(), torch.zeros_like(x), torch.zeros_like(w)
    begin = 0
    for group, end in enumerate(ends):
        rows = slice(begin, end)
        y[rows], dx[rows], dw[group] = x[rows] @ w[group].T, dy[rows] @ w[group], dy[rows].T @ x[rows]
        begin = end
    return y, dx, dw


def kept_of_x(recipe, groups, tokens, k):
    """Bytes of codes and of scales, as docs/torch.md states them; a dense layer is one group."""
    columns = (tokens + 127 * groups) // 128 * 128
    blocks = -(-k // 128)
    scales = {
        "row": k * groups,
        "tensor": groups,
        "1x128": k * columns // 128,
        "1x128:128x128": blocks * columns // 128,
        "fold": tokens,
    }[recipe]
    return k * (tokens if recipe == "fold" else columns), 4 * scales


def kept_of_w(recipe, groups, n, k):
    """The bytes of the copy of W for dgrad: values and scales."""
    squares = groups * -(-n // 128) * -(-k // 128)
    scales = {"row": groups * k, "tensor": groups, "1x128": squares, "1x128:128x128": squares, "fold": groups * n}[recipe]
    return groups * n * k, 4 * scales


def kept_together(recipe, x_wants, *sizes):
    """The sizes of the tensors that a call keeps, from the bytes of each operand: one tensor of rounded parts, or one each."""
    if recipe == "row" and x_wants:
        return sizes
    return (sum(-(-size // 128) * 128 for size in sizes),)


def watch_planned(monkeypatch, seen):
    """Calls `seen(direction, word)` for each direction of a usual call, with its word of `_in_force`."""
    real = _core.LinearCalls

    class Call:
        def __init__(self, call, word):
            self.call, self.word = call, word

        def __getattr__(self, name):
            return getattr(self.call, name)

        def forward(self):
            seen("forward", self.word)
            return self.call.forward()

        def backward(self, *given):
            made = self.call.backward(*given)
            if made is not None:
                seen("backward", self.word)
            return made

    class Calls:
        def __init__(self, *options):
            self.calls, self.word = real(*options), options[-1]

        def call(self, *given):
            made = self.calls.call(*given)
            return None if made is None else Call(made, self.word)

    monkeypatch.setattr(_core, "LinearCalls", Calls)
    monkeypatch.setattr(_planned, "_CALLS", {})


def step(module, x, dy, *ends, call=None):
    """Y and every gradient of one call of a module, or of `call` in its place, each on its own."""
    x = x.detach().clone().requires_grad_()
    for parameter in module.parameters():
        parameter.grad = None
    y = (module if call is None else call)(x, *ends)
    y.backward(dy)
    return [y.detach(), x.grad, *(parameter.grad for parameter in module.parameters() if parameter.requires_grad)]


def end_process():
    """Ends a process of a group, without the destructors of torch. One of gloo's threads was still running once, and the process
    aborted ("terminate called without an active exception") after its work was done."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(0)


def lost_without_promotion(recipe, grouped, device):
    """How far Y, dX and dW of numbers of one sign are from those of sums that are promoted, in proportion to their size."""
    size, made = 512, []
    x, dy, w = (normal(size, size, seed=seed, device=device).abs() for seed in range(3))
    for promoted in (True, False):
        layer = GroupedLinear(1, size, size, recipe=recipe, promoted=promoted, device=device) if grouped else None
        layer = layer or Linear(size, size, bias=False, recipe=recipe, promoted=promoted, device=device)
        with torch.no_grad():
            layer.weight.copy_(w.view_as(layer.weight))
        made.append(step(layer, x, dy, *[torch.tensor([size], device=device)] * grouped))
    return [error(off, near.double().cpu()) for near, off in zip(*made)]


def same(ours, theirs):
    return len(ours) == len(theirs) and all(torch.equal(mine, other) for mine, other in zip(ours, theirs))
