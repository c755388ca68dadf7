"""tools/engine_contract on a toy engine, the committed contracts, and the entry points of the package."""

import importlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="stand-ins hold tensors of torch")

from engine_stand_ins import ROOT, TOOL

ENGINES = {"vllm": ("vllm.plugins", "DEFAULT_PLUGINS_GROUP"), "sglang": ("sglang.srt.plugins", "GENERAL_PLUGINS_GROUP")}
FILES = {
    "toy-1.0.dist-info/METADATA": "Name: toy\nVersion: 1.0\n",
    "toy/__init__.py": "from .base import Base as Root\n",
    "toy/base.py": '''
class Base(ABC, Generic[T]):
    size: A[int, "help"] = 3
    @staticmethod
    @abstractmethod
    def shape(x: int, *, y: str = "a") -> int: ...
    @property
    @abc.abstractmethod
    def name(self): ...
    def done(self): ...
''',
    "toy/more.py": '''
import os
from toy import Root
if os.name:
    class Kernel(Root[int]):
        @property
        def name(self):
            return "kernel"
        @abstractmethod
        def run(self, a, b=None): ...
TABLE: dict[str, int] = {"a": 1}
def use(kernel):
    return kernel.run(1, b=TABLE)
''',
}
NAMES = """# toy
toy.base Base.size
toy.more Kernel *
toy.more TABLE
toy.more use > TABLE
toy.more use !> os
toy.more use ( kernel.run
"""
ROWS = [
    ("toy.base", "Base.size", "field", "int = 3"),
    ("toy.more", "Kernel", "class", "Root[int]"),
    ("toy.more", "Kernel.run", "abstract function", "self, a, b=None"),
    ("toy.base", "Base", "class", "ABC, Generic[T]"),
    ("toy.base", "Base.shape", "static abstract function", "x, *, y='a'"),
    ("toy.more", "TABLE", "field", "dict[str, int] = dict"),
    ("toy.more", "use", "contains", "TABLE"),
    ("toy.more", "use", "lacks", "os"),
    ("toy.more", "use", "calls kernel.run", "_, b"),
]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """An unpacked engine and a folder for its contracts."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts/toy.names").write_text(NAMES)
    monkeypatch.setattr(TOOL, "FOLDER", tmp_path / "contracts")
    return tmp_path


def test_what_it_reads(toy):
    assert TOOL.contract("toy", toy) == ROWS


def test_it_shows_what_has_changed(toy, capsys):
    assert TOOL.main(["toy", str(toy), "--write"]) == 0 and TOOL.read("toy", "1.0") == ROWS
    assert TOOL.main(["toy", str(toy)]) == 0
    capsys.readouterr()
    more = toy / "toy/more.py"
    more.write_text(more.read_text().replace("b=None", "b=None, c=None").replace("b=TABLE", "c=TABLE"))
    (toy / "toy-1.0.dist-info").rename(toy / "toy-1.1.dist-info")
    (toy / "toy-1.1.dist-info/METADATA").write_text("Version: 1.1\n")
    assert TOOL.main(["toy", str(toy)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "+\ttoy.more\tKernel.run\tabstract function\tself, a, b=None, c=None" in lines
    assert "-\ttoy.more\tuse\tcalls kernel.run\t_, b" in lines
    assert lines[-1] == "toy 1.1: 9 rows, 0 missing; 4 lines differ from 1.0"


@pytest.mark.parametrize("gone", ["TABLE", "class Kernel", "def use", "kernel.run"])
def test_a_name_that_is_gone_is_not_written(toy, gone, capsys):
    more = toy / "toy/more.py"
    more.write_text(more.read_text().replace(gone, gone[:-1] + "_"))
    assert TOOL.main(["toy", str(toy), "--write"]) == 1
    assert not list(toy.glob("contracts/*.tsv")) and " 0 missing" not in capsys.readouterr().out


@pytest.mark.parametrize("tool", ["engine_contract", "rehearse_engine"])
def test_the_help_has_an_example(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool, "--help"], capture_output=True, text=True, check=True)
    assert f"tools/{tool} vllm vllm-0.33.0" in done.stdout and "Exit code" in done.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_contracts_answer_every_name(engine):
    """A contract that was written before a name was added lacks its row."""
    lines = (TOOL.FOLDER / f"{engine}.names").read_text().splitlines()
    wanted = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    assert len(wanted) > 50
    for version in TOOL.versions(engine):
        rows = TOOL.read(engine, version)
        assert not [row for row in rows if row[2] == "missing"]
        for module, name in wanted:
            name, *text = re.split(r" !?> | \( | \*$", name)
            found = [row for row in rows if row[:2] == (module, name)]
            assert found, (version, module, name)
            assert not text or not text[0] or any(text[0] in (row[3], row[2].removeprefix("calls ")) for row in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_package_names_its_door_to_the_engine(engine):
    """pyproject.toml has the group that the engine reads, and a function."""
    project = (ROOT / "pyproject.toml").read_text()
    (entry,) = re.findall(rf'"tilewright\.integrations\.{engine}:(\w+)"', project)
    for version in TOOL.versions(engine):
        group = next(row[3] for row in TOOL.read(engine, version) if row[:2] == ENGINES[engine])
        assert f'[project.entry-points."{group[1:-1]}"]\ntilewright = "tilewright.integrations.{engine}:{entry}"' in project
    assert callable(getattr(importlib.import_module(f"tilewright.integrations.{engine}"), entry))
