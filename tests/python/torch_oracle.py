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


class ExpertsOracle(torch.nn.Module):
    """`tilewright.torch.Experts` with SwiGLU, from public calls of tilewright. Not for the recipes tensor and fold."""

    def __init__(self, layer):
        super().__init__()
        self.recipe = RECIPES[layer.recipe]
        self.up, self.down = (torch.nn.Parameter(w.detach().clone()) for w in (layer.up, layer.down))

    def forward(self, x, experts, weights):
        return _ExpertsOracle.apply(x, experts, weights, self.up, self.down, self.recipe)


class _ExpertsOracle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, experts, weights, up, down, recipe):
        routed = tw.route(experts, up.shape[0], weights.detach())
        count = int(routed.ends[-1])
        ctx.ends, ctx.tokens = routed.ends, routed.sources[:count] // experts.shape[1]
        sides = {"rows": recipe.activations, "columns": recipe.columns}
        a, ctx.x = tw.quantize_tokens(x.detach()[ctx.tokens], ctx.ends, **sides)
        gate_up = tw.grouped_gemm(a, tw.quantize(up.detach().clone(), recipe.weights), offsets=ctx.ends)
        h, ctx.h = tw.quantize_tokens(gate_up, ctx.ends, activation="swiglu", **sides)
        y = tw.grouped_gemm(h, tw.quantize(down.detach().clone(), recipe.weights), offsets=ctx.ends)
        ctx.gate_up, ctx.rows, ctx.of_rows, ctx.recipe = gate_up, routed.rows.long(), routed.weights[:count], recipe
        ctx.save_for_backward(x, weights, up.clone(), down.clone())
        return summed(y, ctx.rows, weights.detach(), x.dtype)

    @staticmethod
    def backward(ctx, d_out):
        (x, weights, up, down), recipe, ends = ctx.saved_tensors, ctx.recipe, ctx.ends
        sides = {"rows": recipe.gradients, "columns": recipe.gradient_columns}
        d_y, d_y_columns = tw.quantize_tokens(d_out[ctx.tokens], ends, columns_token_factors=ctx.of_rows, **sides)
        d_h = dgrad(d_y, down, recipe, ends)
        gate, linear = ctx.gate_up.float().chunk(2, dim=-1)
        dots = (torch.nn.functional.silu(gate) * linear * d_h.float()).sum(1)
        d_weights = torch.where(ctx.rows >= 0, dots[ctx.rows.clamp(min=0)], 0.0).to(weights.dtype)
        factors = {"rows_token_factors": ctx.of_rows, "columns_token_factors": ctx.of_rows}
        d_g, d_g_columns = tw.quantize_tokens(ctx.gate_up, ends, activation="swiglu_gradient", gradient=d_h, **sides, **factors)
        d_x = summed(dgrad(d_g, up, recipe, ends), ctx.rows, torch.ones_like(ctx.rows).float(), d_out.dtype)
        sizes = torch.diff(ends, prepend=ends.new_zeros(1))
        room = (sizes + 127) // 128 * 128
        aligned = torch.cumsum(room, 0) - room + sizes
        d_up = tw.k_grouped_gemm(d_g_columns, ctx.x, aligned_offsets=aligned, out_dtype=OUTPUTS[up.dtype])
        d_down = tw.k_grouped_gemm(d_y_columns, ctx.h, aligned_offsets=aligned, out_dtype=OUTPUTS[down.dtype])
        return d_x, None, d_weights, d_up, d_down, None


def dgrad(rows, w, recipe, ends):
    if recipe.backward_weights is not None:
        return tw.grouped_gemm(rows, tw.quantize(w.mT.contiguous(), recipe.backward_weights), offsets=ends)
    codes = tw.quantize(w, recipe.weights)
    return tw.grouped_gemm(rows, tw.Quantized(codes.values, recipe.weights, codes.scales.mT), offsets=ends, layout="nn")


def summed(y, rows, weights, dtype):
    """The sum of the rows of each token. In float64 a sum of two numbers has the bits of an fma, once it is rounded to float32."""
    total = y.new_zeros(rows.shape[0], y.shape[1], dtype=torch.float32)
    for place, weight in zip(rows.T, weights.T, strict=True):
        added = (weight[:, None].double() * y[place.clamp(min=0)].double() + total.double()).float()
        total = torch.where((place >= 0)[:, None], added, total)
    return total.to(dtype)
