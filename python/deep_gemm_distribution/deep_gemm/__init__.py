"""The package deep_gemm: the module tilewright.deep_gemm itself, in every process of an environment, spawned workers too.

Another distribution with a package of this name has written into the same folder: then neither is whole, and importing it
is an error.
"""

import importlib.metadata
import sys


def _owners() -> list[str]:
    """Every installed distribution that has a package deep_gemm, with the version that comes first on the path."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        packages = distribution.read_text("top_level.txt")
        if packages is not None:
            owns = "deep_gemm" in packages.split()
        else:
            owns = "\ndeep_gemm/" in "\n" + (distribution.read_text("RECORD") or "")
        if owns:
            name = distribution.metadata["Name"]
            found.setdefault(name.lower().replace("_", "-"), f"{name} {distribution.version}")
    return sorted(found.values())


_found = _owners()
if len(_found) > 1:
    raise ImportError(
        f"deep_gemm: distributions {' and '.join(_found)} given, one expected. Uninstall all of them, then install the one "
        "that you want.",
        name=__name__,
    )

import tilewright.deep_gemm  # noqa: E402

# Under both names the modules are the same ones: settings and torch's operators exist once.
_OURS = "tilewright.deep_gemm"
for _name in [name for name in sys.modules if name == _OURS or name.startswith(f"{_OURS}.")]:
    sys.modules[__name__ + _name.removeprefix(_OURS)] = sys.modules[_name]
