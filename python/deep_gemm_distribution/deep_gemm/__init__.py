"""The package deep_gemm: an alias of the module tilewright.deep_gemm, in every process of an environment.

If another distribution has a package of this name too, both have written into one folder, and neither is complete. The import
then raises ImportError.
"""

import importlib.metadata
import sys


def _owners() -> list[str]:
    """Each installed distribution with a package deep_gemm, in the version that comes first on the path."""
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
        f"deep_gemm: got the distributions {' and '.join(_found)}; expected one. Uninstall all of them, then install the one "
        "that you want.",
        name=__name__,
    )

import tilewright.deep_gemm  # noqa: E402

# Both names refer to the same modules, so that settings and torch operators exist once.
_OURS = "tilewright.deep_gemm"
for _name in [name for name in sys.modules if name == _OURS or name.startswith(f"{_OURS}.")]:
    sys.modules[__name__ + _name.removeprefix(_OURS)] = sys.modules[_name]
