"""OpenMP's run time where the system has no libgomp.so.1: the copy that torch's wheel has.

That copy has another name, such as libgomp-a34b3233.so.1, by which the loader does not take it for what the extension
needs. So its symbols are made visible to all, and `_libgomp/libgomp.so.1` of this package, which has the name and no
symbols, is loaded besides.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

# What a program that is started by this process has to load first, for it needs the same library.
preloads: list[str] = []


def torch_copies() -> list[Path]:
    """Of the torch that would be imported, which is not imported for it."""
    spec = importlib.util.find_spec("torch")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
    places = [place for folder in folders for place in (folder / "lib", folder.parent / "torch.libs")]
    return [file for place in places for file in sorted(place.glob("libgomp*.so*"))]


def load_torch_copy() -> bool:
    """Whether there was one."""
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
    """Of a program that this process starts."""
    before = os.environ.get("LD_PRELOAD", "")
    return {**os.environ, "LD_PRELOAD": " ".join([*preloads, before]).strip()} if preloads else dict(os.environ)
