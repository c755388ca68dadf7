"""`inspect` and `convert` on the layouts of public checkpoints (public_fp8_checkpoints.py and public_fp4_checkpoints.py),
which the safetensors package writes and reads here: each number as numpy and ml_dtypes decode it, or a refusal that names what is there."""

import json
import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from public_fp4_checkpoints import FP4_LAYOUTS  # noqa: E402
from public_fp8_checkpoints import FP8_LAYOUTS  # noqa: E402
from stored_layouts import FP4, Raw  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(os.environ.get("TILEWRIGHT_BUILD", ROOT / "build/release")) / "src/cli/tilewright"
DTYPES = {
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2", "bfloat16": "BF16", "float16": "F16",
    "float32": "F32", "uint8": "U8", "int8": "I8", "int32": "I32", "uint32": "U32", "int64": "I64",
}  # fmt: skip
# The names of dtypes with which the safetensors package writes.
NAMES = {
    "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "U8": "uint8", "I8": "int8", "I32": "int32", "U32": "uint32",
    "I64": "int64", "F4": "float4_e2m1fn_x2",
}  # fmt: skip
LAYOUTS = [*FP8_LAYOUTS, *FP4_LAYOUTS]
READABLE = [layout for layout in LAYOUTS if not layout.refused]
REFUSED = [layout for layout in LAYOUTS if layout.refused]


def write_file(path, tensors):
    arrays, specs = [], {}
    for name, tensor in tensors.items():
        array = tensor.array if isinstance(tensor, Raw) else tensor
        array = array if array.ndim == 0 else np.ascontiguousarray(array)
        dtype = tensor.dtype if isinstance(tensor, Raw) else DTYPES[array.dtype.name]
        arrays.append(array)  # the bytes are read when the file is written
        specs[name] = safetensors.TensorSpec(
            dtype=NAMES[dtype], shape=list(array.shape), data_ptr=array.__array_interface__["data"][0], data_len=array.nbytes
        )
    safetensors.serialize_file(specs, str(path), {"format": "pt"})


def write(folder, layout, shards=1):
    """The layout in one or several files, scales in another one than their values."""
    folder.mkdir()
    names = sorted(layout.tensors)
    files = {}
    for i, name in enumerate(names):
        files.setdefault("model.safetensors" if shards == 1 else f"model-{i % shards + 1:05}-of-{shards:05}.safetensors", []).append(name)
    for file, members in files.items():
        write_file(folder / file, {name: layout.tensors[name] for name in members})
    if shards > 1:
        index = {"metadata": {}, "weight_map": {name: file for file, members in files.items() for name in members}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for file, content in ({"config.json": layout.config} | layout.extra).items():
        (folder / file).write_text(json.dumps(content))
    return folder


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def read(folder):
    """name -> (dtype, shape, bytes) by the safetensors package."""
    paths = folder.glob("*.safetensors") if folder.is_dir() else [folder]
    return {name: (info["dtype"], info["shape"], info["data"]) for path in paths for name, info in safetensors.deserialize(path.read_bytes())}


def array_of(dtype, shape, data):
    if dtype == "F4":
        codes = np.frombuffer(data, np.uint8)
        return np.stack([FP4[codes & 15], FP4[codes >> 4]], -1).reshape(shape)
    numpy = {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F32": np.float32}
    if dtype == "F8_E8M0":
        return np.exp2(np.frombuffer(data, np.uint8).reshape(shape).astype(np.float64) - 127)
    return np.frombuffer(data, numpy[dtype]).reshape(shape).astype(np.float64)


def decoded(tensors, name):
    """A matrix that `convert` wrote, by docs/checkpoints.md."""
    values, scale = array_of(*tensors[name]), array_of(*tensors[name + ".scales"])
    n, k = values.shape[-2:]
    tensor_scale = array_of(*tensors[name + ".tensor_scale"]) if name + ".tensor_scale" in tensors else np.ones(1)
    if scale.ndim < values.ndim:  # of a tensor or of rows
        scale = scale.reshape(*scale.shape, *[1] * (values.ndim - scale.ndim))
    else:
        rows = 128 if scale.shape[-2] != n else 1
        columns = next(block for block in (16, 32, 128) if -(-k // block) == scale.shape[-1])
        scale = np.repeat(np.repeat(scale, rows, -2), columns, -1)[..., :n, :k]
    return values * scale * tensor_scale.reshape(-1, *[1] * (values.ndim - 1))


@pytest.mark.parametrize("layout", READABLE, ids=lambda layout: layout.model.split(" ")[0])
def test_numbers_are_read(layout, tmp_path):
    folder = write(tmp_path / "in", layout, shards=1 if len(layout.tensors) < 5 else 2)
    inspection = run("inspect", folder, "--each")
    assert inspection.returncode == 0 and "cannot be read" not in inspection.stdout, inspection.stdout + inspection.stderr
    for name in layout.numbers:
        lines = [line for line in inspection.stdout.splitlines() if line.startswith(name + " ")]
        assert len(lines) == 1 and "unquantised" not in lines[0], inspection.stdout
    for recipe in sorted({*layout.recipes.values()}):
        wanted = [name for name in layout.numbers if layout.recipes[name] == recipe]
        pattern = "^(" + "|".join(name.replace(".", "[.]") for name in wanted) + ")$"
        done = run("convert", folder, tmp_path / recipe, "--to", recipe, "--include", pattern)
        assert done.returncode == 0, done.stderr
        tensors = read(tmp_path / recipe)
        for name in wanted:
            assert [line for line in done.stdout.splitlines() if line.startswith(name + " ") and "exact" in line], done.stdout
            np.testing.assert_array_equal(decoded(tensors, name), layout.numbers[name], err_msg=name)
    done = run("convert", folder, tmp_path / "all", "--to", "mxfp8")
    assert done.returncode == 0, done.stderr
    tensors = read(tmp_path / "all")
    for name, numbers in layout.numbers.items():
        after = decoded(tensors, name)
        assert np.linalg.norm(after - numbers) <= 0.1 * np.linalg.norm(numbers), name
    for name in layout.tensors.keys() & tensors.keys() - layout.numbers.keys():
        array = layout.tensors[name].array if isinstance(layout.tensors[name], Raw) else layout.tensors[name]
        assert bytes(tensors[name][2]) == array.tobytes(), name


@pytest.mark.parametrize("layout", REFUSED, ids=lambda layout: layout.model)
def test_integers_are_named(layout, tmp_path):
    folder = write(tmp_path / "in", layout)
    inspection = run("inspect", folder)
    assert inspection.returncode == 0, inspection.stderr
    done = run("convert", folder, tmp_path / "out", "--to", "mxfp8")
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    for words in layout.refused:
        assert words in inspection.stdout, inspection.stdout
        assert words in done.stderr, done.stderr


def test_publishers_words_and_tensors_are_printed(tmp_path):
    by_model = {layout.model.split(" ")[0]: layout for layout in LAYOUTS}
    said = run("inspect", write(tmp_path / "deepseek", by_model["deepseek-ai/DeepSeek-V3,"])).stdout
    assert 'quantization_config: quant_method "fp8"' in said and "weight_block_size [128,128]" in said
    assert "weight, weight_scale_inv" in said
    said = run("inspect", write(tmp_path / "nvidia", by_model["nvidia/Llama-3.1-8B-Instruct-FP8"])).stdout
    assert 'quant_algo "FP8"' in said and "weight, weight_scale (input_scale" in said
    said = run("inspect", write(tmp_path / "quark", by_model["amd/DeepSeek-R1-MXFP4"])).stdout
    assert "quark" in said and 'qscheme "per_group"' in said


def test_there_are_enough_of_them():
    assert len(LAYOUTS) >= 20 and len({layout.model for layout in LAYOUTS}) == len(LAYOUTS)
    assert all(": " in layout.source for layout in LAYOUTS)
