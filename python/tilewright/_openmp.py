"""OpenMP's run time where the system has no libgomp.so.1: the copy in torch's wheel.

That copy has another name, such as libgomp-a34b3233.so.1. The loader does not accept it for the name that the extension
needs. Its symbols are therefore made global, and `_libgomp/libgomp.so.1` of this package is loaded too. The latter has the
name and no symbols.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

# Libraries that a program started by this process has to load first, because it needs the same one.
preloads: list[str] = []


def torch_copies() -> list[Path]:
    """Copies of libgomp in the torch that would be imported. It is not imported."""
    spec = importlib.util.find_spec("torch")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
    places = [place for folder in folders for place in (folder / "lib", folder.parent / "torch.libs")]
    return [file for place in places for file in sorted(place.glob("libgomp*.so*"))]


def load_torch_copy() -> bool:
    """Whether a copy was found and loaded."""
    name = Path(__file__).with_name("_libgomp") / "libgomp.so.1"
    for file in torch_copies():
        try:
            ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            ctypes.CDLL(str(name))
        except OSError:
            continue
        preloads[:] = [str(file), str(name)]
        return True
    return False


def environment() -> dict[str, str]:
    """The environment for a program that this process starts."""
    before = os.environ.get("LD_PRELOAD", "")
    return {**os.environ, "LD_PRELOAD": " ".join([*preloads, before]).strip()} if preloads else dict(os.environ)
