"""A small language model of bytes. Its experts are `tilewright.torch.Experts`, or bfloat16 products with recipe "bf16"."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.nn import functional

from tilewright.torch import Experts


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
    """The reference for Experts: bfloat16 products, one per expert. Each token has one expert."""

    def __init__(self, experts: int, hidden: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(experts, 2 * inner, hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.down = nn.Parameter(torch.empty(experts, hidden, inner).uniform_(-(inner**-0.5), inner**-0.5))

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(chosen[:, 0], stable=True)
        sizes = torch.bincount(chosen[:, 0], minlength=len(self.up)).tolist()
        gate, up = product_of_groups(x[order], self.up, sizes).chunk(2, dim=-1)
        y = product_of_groups(functional.silu(gate) * up, self.down, sizes)
        return torch.zeros_like(x).index_copy(0, order, y) * weights


def product_of_groups(x: torch.Tensor, w: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """The rows of each group times the weights of the group, in bfloat16."""
    parts = zip(x.bfloat16().split(sizes), w.bfloat16())
    return torch.cat([part @ weight.t() for part, weight in parts]).to(x.dtype)


def experts(sizes: Sizes, recipe: str) -> nn.Module:
    if recipe == "bf16":
        return Bf16Experts(sizes.experts, sizes.width, sizes.hidden)
    name, _, gradient_format = recipe.partition("/")
    return Experts(sizes.experts, sizes.width, sizes.hidden, recipe=name, gradient_format=gradient_format or "e4m3")


class MixtureOfExperts(nn.Module):
    """A mixture of experts with one expert per token (Switch Transformer, arXiv 2101.03961)."""

    def __init__(self, sizes: Sizes, recipe: str) -> None:
        super().__init__()
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.experts = experts(sizes, recipe)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Y [tokens, width], and the loss that balances the load of the experts."""
        shares = functional.softmax(self.router(x), dim=-1)
        weights, chosen = shares.max(dim=-1, keepdim=True)
        counts = functional.one_hot(chosen[:, 0], shares.shape[-1]).sum(dim=0)
        balance = shares.shape[-1] * (shares.mean(dim=0) * counts / len(x)).sum()
        return self.experts(x, chosen, weights), balance


class Layer(nn.Module):
    def __init__(self, sizes: Sizes, recipe: str) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.before = nn.LayerNorm(sizes.width)
        self.attention = nn.Linear(sizes.width, 3 * sizes.width)
        self.mixed = nn.Linear(sizes.width, sizes.width)
        self.between = nn.LayerNorm(sizes.width)
        self.mixture = MixtureOfExperts(sizes, recipe)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.attention(self.before(x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5 + mask
        x = x + self.mixed((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, tokens, width))
        y, balance = self.mixture(self.between(x).reshape(-1, width))
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
