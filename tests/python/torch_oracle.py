"""Layers of tilewright.torch once more, from `tw.quantize` and products, without copies that stay: what training has to equal, bit for bit."""

import tilewright as tw
import torch
from tilewright.torch import RECIPES, GroupedLinear, Linear

OUTPUTS = {torch.float32: "f32", torch.bfloat16: "bf16"}
E4M3 = torch.float8_e4m3fn


def layers_of(grouped, recipe="row", dtype=torch.float32, device="cpu", k=64, n=96, **options):
    """One of ours, and the oracle with the same parameters."""
    torch.manual_seed(0)
    options.update(recipe=recipe, dtype=dtype, device=device)
    ours = GroupedLinear(2, k, n, bias=True, **options) if grouped else Linear(k, n, **options)
    return ours, Oracle(ours)


class Oracle(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.recipe, self.grouped = RECIPES[layer.recipe], layer.weight.dim() == 3
        self.weight = torch.nn.Parameter(layer.weight.detach().clone())
        self.bias = None if layer.bias is None else torch.nn.Parameter(layer.bias.detach().clone())

    def forward(self, x, ends=None):
        ends = [x.shape[0]] if ends is None else ends.tolist()
        return _Oracle.apply(x, self.weight, self.bias, ends, self.grouped, self.recipe)


class _Oracle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias, ends, grouped, recipe):
        ctx.codes_of_x = tw.quantize(x, recipe.activations)
        weights = tw.quantize(w.clone(), recipe.weights)
        ctx.save_for_backward(x.clone(), w.clone(), None if bias is None else bias.clone())
        ctx.ends, ctx.grouped, ctx.recipe, ctx.weights = ends, grouped, recipe, weights
        return product(ctx.codes_of_x, weights, ends, grouped, x.dtype, bias=bias)

    @staticmethod
    def backward(ctx, dy):
        (x, w, bias), recipe, ends = ctx.saved_tensors, ctx.recipe, ctx.ends
        layout, features, tokens = "nn", 1.0, 1.0
        if recipe.folds:
            features = torch.cat([s.expand(end - begin, -1) for s, begin, end in per_group(ctx.weights.scales, ends, dy.shape[1])])
            features = torch.cat([features, features.new_ones(dy.shape[0] - ends[-1], dy.shape[1])])
            tokens = ctx.codes_of_x.scales.unsqueeze(1)
            weights = tw.Quantized(ctx.weights.values, "e4m3")
        elif recipe.backward_weights is None:
            scales = ctx.weights.scales
            weights = tw.Quantized(ctx.weights.values, recipe.weights, scales.mT if recipe.weights == "128x128" else scales)
        else:
            layout, weights = "nt", tw.quantize(w.mT.contiguous(), recipe.backward_weights)
        rows = tw.quantize(dy.float() * features, recipe.gradients)
        if recipe.gradients == "tensor":  # one scale for all tokens of a group, without the tokens after the last group
            rows = tw.quantize(dy, "tensor")
        dx = product(rows, weights, ends, ctx.grouped, x.dtype, layout=layout)
        columns = columns_of(dy.float() * tokens, ends, recipe.gradient_columns)
        of_x = columns_of(ctx.codes_of_x.values, ends, None) if recipe.folds else columns_of(x, ends, recipe.columns)
        begins = [sum(-(-(e - b) // 128) * 128 for e, b in zip(ends[:i], [0, *ends])) for i in range(len(ends))]
        aligned = torch.tensor([begin + e - b for begin, e, b in zip(begins, ends, [0, *ends])], device=x.device)
        dw = tw.k_grouped_gemm(columns, of_x, aligned_offsets=aligned, out_dtype=OUTPUTS[w.dtype]).view(w.shape)
        dbias = torch.stack([dy[begin:end].double().sum(0) for begin, end in zip([0, *ends], ends)])
        return dx, dw, None if bias is None else dbias.float().to(bias.dtype).view(bias.shape), None, None, None


def per_group(scales, ends, n):
    return zip(scales.view(-1, n), [0, *ends], ends)


def product(a, b, ends, grouped, dtype, **options):
    if not grouped:
        return tw.gemm(a, b, out_dtype=OUTPUTS[dtype], **options)
    return tw.grouped_gemm(a, b, offsets=torch.tensor(ends, device=a.values.device), out_dtype=OUTPUTS[dtype], **options)


def columns_of(x, ends, side):
    """Its transpose, each group on its own and from a multiple of 128 on. side None: codes without scales."""
    limit = (x.shape[0] + 127 * len(ends)) // 128 * 128
    codes = torch.zeros(x.shape[1], limit, dtype=torch.uint8, device=x.device)
    scales, begin, place = [], 0, 0
    for end in ends:
        part = x[begin:end].T.contiguous()
        if side is not None:
            part = tw.quantize(part, side)
            scales.append(part.scales)
            part = part.values
        codes[:, place : place + end - begin] = part.view(torch.uint8)
        begin, place = end, place + -(-(end - begin) // 128) * 128
    codes = codes.view(E4M3)
    if side is None:
        return tw.Quantized(codes, "e4m3")
    if side in ("row", "tensor"):
        return tw.Quantized(codes, side, torch.stack(scales) if side == "row" else torch.cat(scales))
    found = torch.cat(scales, dim=1)
    rest = found.new_ones(found.shape[0], limit // 128 - found.shape[1])
    return tw.Quantized(codes, side, torch.cat([found, rest], dim=1))
