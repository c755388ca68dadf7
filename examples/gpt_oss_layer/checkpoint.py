"""Reads the experts of one layer from a sharded safetensors checkpoint with the tensor names of gpt-oss."""

import json
import pathlib
from typing import NamedTuple

import ml_dtypes
import numpy as np

DTYPES = {"U8": np.uint8, "BF16": ml_dtypes.bfloat16, "F32": np.float32}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


class Checkpoint:
    """Tensors by name, read from the files that `model.safetensors.index.json` lists."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = json.loads((self.folder / "model.safetensors.index.json").read_text())["weight_map"]
        self.config = json.loads((self.folder / "config.json").read_text())

    def __getitem__(self, name):
        if name not in self.files:
            raise SystemExit(f"{self.folder}: got no tensor '{name}'; expected a checkpoint of gpt-oss.")
        path = self.folder / self.files[name]
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))[name]
        begin, end = entry["data_offsets"]
        data = np.fromfile(path, np.uint8, end - begin, offset=8 + length + begin)  # not necessarily aligned in the file
        return data.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])


class Experts(NamedTuple):
    """The weights of one product: MXFP4 [experts, n, k] and a bias [experts, n]."""

    codes: np.ndarray  # two per byte, the even k in the low nibble
    scales: np.ndarray  # powers of two with a bias of 127
    bias: np.ndarray

    @property
    def shape(self):
        experts, n, half = self.codes.shape
        return experts, n, 2 * half

    def real(self, expert):
        """The weights of one expert as float64 [n, k]."""
        codes = np.stack([self.codes[expert] & 15, self.codes[expert] >> 4], axis=-1).reshape(self.shape[1:])
        values = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])
        return np.ldexp(values, np.repeat(self.scales[expert].astype(int) - 127, 32, axis=-1))


class Layer(NamedTuple):
    router: np.ndarray  # [experts, hidden]
    router_bias: np.ndarray
    up: Experts  # rows of gate and up alternate
    down: Experts
    experts_per_token: int


def experts(checkpoint, name):
    blocks = checkpoint[name + "_blocks"]  # [experts, n, k / 32, 16]
    return Experts(blocks.reshape(*blocks.shape[:2], -1), checkpoint[name + "_scales"], checkpoint[name + "_bias"])


def read_layer(folder, index):
    checkpoint = Checkpoint(folder)
    name = f"model.layers.{index}.mlp."
    return Layer(
        router=checkpoint[name + "router.weight"].astype(np.float32),
        router_bias=checkpoint[name + "router.bias"].astype(np.float32),
        up=experts(checkpoint, name + "experts.gate_up_proj"),
        down=experts(checkpoint, name + "experts.down_proj"),
        experts_per_token=checkpoint.config["num_experts_per_tok"],
    )
