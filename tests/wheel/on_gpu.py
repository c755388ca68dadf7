"""Tries a wheel on a Hopper GPU, without a network: what no machine without one can (`make gpu-wheel`).

python3.12 tests/wheel/on_gpu.py build/wheels/tilewright-0.1.0-cp312-abi3-manylinux_2_35_x86_64.whl

Needs of the interpreter that runs it: one that the wheel is for, with torch and numpy. The wheel goes into a fresh folder. Then
README's example with torch runs on the GPU and is compared with a product of the dequantised operands; how many kernels it
compiled is printed, of which a wheel should need none. Then all of `python -m tilewright.selftest` runs. Exit code 1 where
a result is wrong.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

README = pathlib.Path(__file__).parents[2] / "README.md"
CHECK = """
kept = os.listdir(os.environ["TILEWRIGHT_CACHE_DIR"]) if os.path.isdir(os.environ["TILEWRIGHT_CACHE_DIR"]) else []
a = a.values.float() * a.scales.repeat_interleave(128, -1)
experts = experts.values.float() * experts.scales.repeat_interleave(128, -1).repeat_interleave(128, -2)
expected = torch.cat([a[:17] @ experts[0].T, a[17:] @ experts[2].T])
error = float((d.float() - expected).norm() / expected.norm())
print(tw.__file__, torch.cuda.get_device_name(), f"relative error {error:.1e}, {len(kept)} kernels compiled")
sys.exit(not (d.is_cuda and d.dtype == torch.bfloat16 and error < 3e-3))
"""


def example():
    """README's block with torch."""
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    return f"import os, sys\n{block}{CHECK}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path, help="for the Python that runs this")
    wheel = parser.parse_args().wheel.resolve()
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", folder, str(wheel)]
        subprocess.run(pip, check=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "PATH": os.pathsep.join([folder + "/bin", os.environ["PATH"]]),
            "TILEWRIGHT_CACHE_DIR": folder + "/cache",
        }
        wrong = 0
        for arguments in (["-c", example()], ["-m", "tilewright.selftest"]):
            wrong += subprocess.run([sys.executable, *arguments], check=False, env=environment, cwd=folder).returncode != 0
    print("all right" if wrong == 0 else f"{wrong} of 2 failed")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
