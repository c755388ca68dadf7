"""A small language model of bytes. Its experts are `tilewright.torch.GroupedLinear`, or bfloat16 products with recipe "bf16"."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.nn import functional

from tilewright.torch import GroupedLinear


@dataclasses.dataclass
class Sizes:
    """Widths are multiples of 128, so that no recipe needs a smaller block."""

    width: int = 128
    hidden: int = 128
    experts: int = 4
    layers: int = 2
    heads: int = 4
    context: int = 64


class Bf16Experts(nn.Module):
    """The reference for GroupedLinear: one bfloat16 product per group."""

    def __init__(self, groups: int, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(torch.empty(groups, out_features, in_features).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        sizes = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
        parts = zip(x.bfloat16().split(sizes), self.weight.bfloat16())
        return torch.cat([part @ w.t() for part, w in parts]).to(x.dtype)


def experts(sizes: Sizes, in_features: int, out_features: int, recipe: str) -> nn.Module:
    if recipe == "bf16":
        return Bf16Experts(sizes.experts, in_features, out_features)
    name, _, gradient_format = recipe.partition("/")
    return GroupedLinear(sizes.experts, in_features, out_features, recipe=name, gradient_format=gradient_format or "e4m3")


class MixtureOfExperts(nn.Module):
    """A mixture of experts with one expert per token (Switch Transformer, arXiv 2101.03961).

    Tokens are sorted by expert and go through up and gate, SwiGLU and down.
    """

    def __init__(self, sizes: Sizes, recipe: str) -> None:
        super().__init__()
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.up = experts(sizes, sizes.width, 2 * sizes.hidden, recipe)
        self.down = experts(sizes, sizes.hidden, sizes.width, recipe)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Y [tokens, width], and the loss that balances the load of the experts."""
        shares = functional.softmax(self.router(x), dim=-1)
        weight, chosen = shares.max(dim=-1)
        order = torch.argsort(chosen, stable=True)
        counts = functional.one_hot(chosen, shares.shape[-1]).sum(dim=0)
        ends = counts.cumsum(dim=0)
        gate, up = self.up(x[order], ends).chunk(2, dim=-1)
        y = self.down(functional.silu(gate) * up, ends)
        balance = shares.shape[-1] * (shares.mean(dim=0) * counts / len(x)).sum()
        return torch.zeros_like(x).index_copy(0, order, y) * weight[:, None], balance


class Layer(nn.Module):
    def __init__(self, sizes: Sizes, recipe: str) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.before = nn.LayerNorm(sizes.width)
        self.attention = nn.Linear(sizes.width, 3 * sizes.width)
        self.mixed = nn.Linear(sizes.width, sizes.width)
        self.between = nn.LayerNorm(sizes.width)
        self.experts = MixtureOfExperts(sizes, recipe)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.attention(self.before(x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5 + mask
        x = x + self.mixed((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, tokens, width))
        y, balance = self.experts(self.between(x).reshape(-1, width))
        return x + y.view(batch, tokens, width), balance


class LanguageModel(nn.Module):
    def __init__(self, sizes: Sizes, vocabulary: int, recipe: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.context, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes, recipe) for _ in range(sizes.layers))
        self.after = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, vocabulary)
        ahead = torch.full((sizes.context, sizes.context), float("-inf")).triu(1)
        self.register_buffer("mask", ahead, persistent=False)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [batch, tokens, vocabulary], and the sum of the balance losses of the layers."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        total = x.new_zeros(())
        for layer in self.layers:
            x, balance = layer(x, self.mask[: tokens.shape[1], : tokens.shape[1]])
            total = total + balance
        return self.head(self.after(x)), total
