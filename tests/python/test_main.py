"""`python -m tilewright` is the program that was installed with the package, or says what can be run."""

import subprocess
import sys

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
