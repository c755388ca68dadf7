"""`python -m tilewright`: the program `tilewright` that was installed with this package, with the same arguments.

A package that was installed from source has no program: then the version, and what can be run.
"""

from __future__ import annotations

import os
import sys

import tilewright as tw
from tilewright._openmp import environment
from tilewright._program import complain, run
from tilewright.selftest import find_program


def main(arguments: list[str]) -> int:
    """Does not return where there is a program. 2: there were arguments for one, and there is none."""
    program = find_program()
    if program is not None:
        os.execve(program, [program, *arguments], environment())
    print(f"tilewright {tw.__version__}")
    print("python -m tilewright.selftest checks that results are right on this machine")
    if not arguments or arguments == ["--version"]:
        return 0
    complain(
        f"tilewright {arguments[0]}: the program is not installed with this package and not in PATH; wheels have it, and "
        "`make build` makes it as build/release/src/cli/tilewright\n"
    )
    return 2


if __name__ == "__main__":
    run(lambda: main(sys.argv[1:]))
