"""Writes a checkpoint of one layer of gpt-oss with random weights: two files, scales in another than their codes.

    python tests/python/gpt_oss_checkpoint.py FOLDER     # layer 3: 4 experts, hidden and inner 2880, as the model has
"""

import json
import pathlib
import sys

import ml_dtypes
import numpy as np

EXPERTS, HIDDEN = 4, 2880
NAMES = {"uint8": "U8", "bfloat16": "BF16"}
MLP = "model.layers.3.mlp."


def write_file(path, tensors):
    """The safetensors format: the length of a header of JSON, the header, the data."""
    header, data, begin = {}, [], 0
    for name, array in tensors.items():
        data.append(array.tobytes())
        end = begin + len(data[-1])
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))


def random_tensors(inner):
    """{file: {name: array}}"""
    random = np.random.default_rng(5)

    def codes(*shape):
        return random.integers(0, 256, shape, np.uint8)

    def scales(*shape):
        return random.integers(116, 124, shape, np.uint8)

    def numbers(*shape):
        return random.standard_normal(shape).astype(ml_dtypes.bfloat16)

    up, down, router = MLP + "experts.gate_up_proj", MLP + "experts.down_proj", MLP + "router."
    first = {
        up + "_blocks": codes(EXPERTS, 2 * inner, HIDDEN // 32, 16),
        up + "_bias": numbers(EXPERTS, 2 * inner),
        down + "_scales": scales(EXPERTS, HIDDEN, inner // 32),
        router + "weight": (numbers(EXPERTS, HIDDEN) / 32).astype(ml_dtypes.bfloat16),
    }
    second = {
        router + "bias": numbers(EXPERTS),
        up + "_scales": scales(EXPERTS, 2 * inner, HIDDEN // 32),
        down + "_blocks": codes(EXPERTS, HIDDEN, inner // 32, 16),
        down + "_bias": numbers(EXPERTS, HIDDEN),
    }
    return {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}


def write(folder, inner):
    files = random_tensors(inner)
    for name, tensors in files.items():
        write_file(folder / name, tensors)
    index = {tensor: name for name, tensors in files.items() for tensor in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt_oss", "num_experts_per_tok": 2}))
    return folder


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), HIDDEN)
