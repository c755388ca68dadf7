"""`python -m tilewright` is the program that was installed with the package, or says what can be run."""

import os
import signal
import subprocess
import sys

import pytest
import tilewright as tw

WITHOUT_PROGRAM = "import sys, tilewright.selftest as s; s.find_program = lambda: None; import tilewright.__main__ as m; "


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_the_program_gets_the_arguments(tmp_path):
    program = tmp_path / "tilewright"
    program.write_text('#!/bin/sh\necho "$0" "$@"\nexit 3\n')
    program.chmod(0o755)
    code = f"import tilewright.selftest as s; s.find_program = lambda: {str(program)!r}; import runpy, sys; "
    done = run("-c", code + "sys.argv = ['', 'doctor', '--json', 'a b']; runpy.run_module('tilewright', run_name='__main__')")
    assert (done.returncode, done.stdout) == (3, f"{program} doctor --json a b\n"), done.stderr


def test_without_a_program():
    for arguments in ([], ["--version"]):
        done = run("-c", WITHOUT_PROGRAM + f"sys.exit(m.main({arguments}))")
        assert done.returncode == 0 and done.stderr == ""
        assert done.stdout.splitlines()[0] == f"tilewright {tw.__version__}"
        assert "python -m tilewright.selftest" in done.stdout
    done = run("-c", WITHOUT_PROGRAM + "sys.exit(m.main(['explain', '--m', '4']))")
    assert done.returncode == 2 and done.stderr.startswith("tilewright explain: the program is not installed")


def test_the_module_runs():
    done = run("-m", "tilewright", "--version")
    assert done.returncode == 0 and tw.__version__ in done.stdout, done.stderr


# Streams that are closed, full or broken

ENDS = {
    "<&- >&- 2>&-": 0,
    ">&-": 0,
    ">/dev/full": 1,
    "2>/dev/full": 0,
}


@pytest.mark.parametrize("redirection", ENDS)
def test_streams(redirection):
    code = WITHOUT_PROGRAM + "from tilewright._program import run; run(lambda: m.main(['--version']))"
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ENDS[redirection], done.stderr
    assert "Traceback" not in done.stderr
    if ENDS[redirection] == 1:
        assert "tilewright: cannot be written" in done.stderr


def test_a_reader_that_has_gone():
    reading, writing = os.pipe()
    os.close(reading)
    code = WITHOUT_PROGRAM + "from tilewright._program import run; run(lambda: m.main([]))"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
