"""How a module of this package ends that is run as a program: as the program `tilewright` does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def run(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code that `main` returns; 1 where stdout cannot be written.

    On Ctrl-C, and where the reader of stdout has gone, it ends by the signal, without a traceback.
    """
    try:
        try:
            code = main()
        except SystemExit as error:  # argparse
            code = error.code if isinstance(error.code, int) else 1
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _end_by(signal.SIGINT)
    except BrokenPipeError:
        _end_by(signal.SIGPIPE)
    except OSError as error:
        complain(f"tilewright: cannot be written or started: {error}\n")
        code = 1
    # Not sys.exit: the interpreter would try to write again what stdout did not take.
    complain("")
    os._exit(code)


def complain(text: str) -> None:
    """Writes to stderr what it takes."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass


def _end_by(number: signal.Signals) -> NoReturn:
    complain("")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # it is blocked
