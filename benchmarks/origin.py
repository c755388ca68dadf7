"""The origin of a line of benchmarks/results: commit, date and command, and the trees of the code if no file differs."""

from __future__ import annotations

import datetime
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("src", "include", "python", "cmake")  # the folders on which results depend


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()


def origin() -> dict[str, str]:
    """The fields that all lines of a run share, except the device."""
    began = datetime.datetime.now(datetime.timezone.utc)
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *FOLDERS, "CMakeLists.txt")
    commit = git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")
    line = {
        "date": began.strftime("%Y-%m-%d"),
        "started": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "command": " ".join([f"benchmarks/{pathlib.Path(sys.argv[0]).name}", *sys.argv[1:]]),
    }
    if commit and not changed:
        line["trees"] = " ".join(git("rev-parse", "--short=10", f"HEAD:{folder}") for folder in FOLDERS)
    return line
