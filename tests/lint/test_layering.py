"""The rooms know each other downward only, and device code is self-contained."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# room -> what its files may include with quotes: itself and these (docs/contributing/architecture.md, "Folders").
MAY_INCLUDE = {
    "base": [],
    "formats": [],
    "problem": ["formats"],
    "hopper": ["formats"],
    "moe": ["problem", "formats"],
    "plan": ["problem", "formats", "hopper/description", "hopper/schedule/dense.h", "hopper/schedule/work_tile.h"],
    "cpu": ["problem", "formats"],
    "launch": ["plan", "problem", "formats", "hopper/description", "hopper/schedule/dense.h", "hopper/schedule/work_tile.h", "hopper/arguments.h", "hopper/quantize/quantizer.h", "hopper/quantize/arguments.h", "moe", "hopper/moe/spec.h", "hopper/moe/arguments.h"],
    "cuda": ["launch", "plan", "problem", "formats", "hopper/description", "hopper/arguments.h", "hopper/quantize/quantizer.h", "hopper/quantize/arguments.h", "hopper/moe/spec.h", "hopper/moe/arguments.h"],
    "ranks": ["cuda"],
    "emulator": ["hopper", "formats", "cpu"],
    "check": ["cpu", "problem", "formats"],
    "api": ["cpu", "cuda", "launch", "moe", "plan", "problem", "formats"],
    "measure": ["cuda"],
    "output": [],
    "safetensors": ["output", "formats"],
    "verify": ["measure", "check", "api", "cuda", "launch", "plan", "problem", "formats"],
    "bench": ["output", "measure", "check", "api", "cpu", "cuda", "launch", "plan", "problem", "formats", "hopper/description"],
    "cli": ["bench", "verify", "safetensors", "output", "measure", "check", "api", "cpu", "ranks", "cuda", "plan", "problem", "formats"],
}

# The same for the rooms of src/hopper; a file of src/hopper itself is a room of its name.
MAY_INCLUDE_IN_HOPPER = {
    "description": [],
    "ptx": ["description/kernel.h"],
    "arguments.h": ["ptx/types.h", "schedule/dense.h"],
    "block": ["description", "ptx", "arguments.h"],
    "schedule": ["description", "ptx", "arguments.h", "block"],
    "load": ["description", "ptx", "arguments.h", "block", "schedule"],
    "multiply": ["description", "ptx", "arguments.h", "block", "schedule"],
    "store": ["description", "ptx", "arguments.h", "block", "schedule"],
    "kernel": ["description", "ptx", "arguments.h", "block", "schedule", "load", "multiply", "store"],
    "quantize": ["description", "ptx"],
    "prepare": ["description", "ptx", "quantize", "pack/packed_order.h"],
    "pack": ["description", "ptx", "quantize"],
    "moe": ["description", "ptx", "quantize"],
    "gemm.h": ["description", "ptx", "arguments.h", "block", "schedule", "load", "store", "kernel"],
}

GENERATED = re.compile(r"generated")


def tracked(*patterns):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


def includes(path):
    return re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', path.read_text(), re.MULTILINE)


def room_of(path):
    return path.relative_to(ROOT / "src").parts[0]


@pytest.mark.parametrize("path", tracked("src/*.h", "src/*.cpp"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_includes_only_rooms_below_it(path):
    room = room_of(path)
    assert room in MAY_INCLUDE, f"{room} is not a folder of docs/contributing/architecture.md; add it there and here"
    for quote, name in includes(path):
        if quote == "<":
            continue
        target = name.split("/")[0]
        known = MAY_INCLUDE[room]
        allowed = target in (room, "base", *known) or name in known or name.rsplit("/", 1)[0] in known
        assert allowed, f"{path.relative_to(ROOT)} includes {name}: {room} may know only {MAY_INCLUDE[room]}"


@pytest.mark.parametrize("path", tracked("src/hopper/*.h"), ids=lambda p: str(p.relative_to(ROOT / "src/hopper")))
def test_a_room_of_device_code_includes_only_rooms_below_it(path):
    room = path.relative_to(ROOT / "src/hopper").parts[0]
    assert room in MAY_INCLUDE_IN_HOPPER, f"src/hopper/{room} is not a folder of src/hopper/README.md; add it there and here"
    for _, name in includes(path):
        if not name.startswith("hopper/"):
            continue
        inner = name.removeprefix("hopper/")
        target = inner.split("/")[0]
        allowed = target == room or {target, inner} & set(MAY_INCLUDE_IN_HOPPER[room])
        assert allowed, f"{path.relative_to(ROOT)} includes {name}: {room} may know only {MAY_INCLUDE_IN_HOPPER[room]}"


@pytest.mark.parametrize("path", tracked("src/hopper/*.h", "src/base/math.h", "src/formats/codec.h", "src/formats/gated_unit.h", "src/formats/order.h", "src/formats/packed_tile.h", "src/formats/swiglu.h"), ids=lambda p: p.name)
def test_device_code_needs_no_standard_library(path):
    for quote, name in includes(path):
        assert quote == '"', f"{path.name} includes <{name}>; NVRTC compiles it without any standard header"


@pytest.mark.parametrize("path", tracked("include/*.h"), ids=lambda p: p.name)
def test_public_headers_include_nothing_of_src(path):
    for quote, name in includes(path):
        assert quote == "<", f"{path.name} includes {name} from src; users do not have it"
        known = name.startswith("tilewright/") or "/" not in name
        assert known, f"{path.name} includes <{name}>, which is neither ours nor the standard library's"


def test_inline_assembly_is_in_one_folder():
    allowed = {"src/hopper/ptx/ptx_sm90.h", "src/hopper/ptx/ptx_numbers_sm90.h"}
    for path in tracked("src/*.h", "src/*.cpp"):
        name = str(path.relative_to(ROOT))
        if name in allowed or GENERATED.search(name) or name.startswith("src/emulator/"):
            continue
        assert not re.search(r"\basm\b\s*(volatile)?\s*\(", path.read_text()), f"{name} contains inline assembly"


def test_kernels_use_no_cuda_intrinsics():
    words = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|__syncthreads|__shfl\w*|__shared__|__ldg)\b")
    for path in tracked("src/hopper/*.h"):
        if path.name.startswith("ptx") or GENERATED.search(path.name):
            continue
        found = words.search(path.read_text())
        assert not found, f"{path.name} uses {found.group(0)}; call a primitive of ptx.h"


@pytest.mark.parametrize("path", tracked("src/*.h", "src/*.cpp", "include/*.h"), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_say_what_they_are_for(path):
    first = path.read_text().lstrip().splitlines()[0]
    has_header = path.suffix == ".cpp" and path.with_suffix(".h").exists()
    assert first.startswith("//") or has_header, f"{path.relative_to(ROOT)} should open by saying what it is for"


def test_public_headers_have_no_internal_types():
    internal = re.compile(r"\b(?:PlannedTile|KernelVariant|Multicast|parse_tile|wide_row|windows)\b")
    for path in tracked("include/tilewright/*.h"):
        found = [line for line in path.read_text().splitlines() if internal.search(line.split("//")[0])]
        assert not found, f"{path.relative_to(ROOT)}: {found}"


def test_environment_variables_are_read_in_one_place():
    readers = [p.relative_to(ROOT).as_posix() for p in tracked("src/*.cpp", "src/*.h") if "getenv(" in p.read_text()]
    # HOME and XDG_CACHE_HOME, the usual defaults, are read next to TILEWRIGHT_CACHE_DIR.
    assert len(readers) <= 1, f"environment variables are read in {readers}; one file is enough"


def test_the_arrows_of_the_architecture_page_are_the_table():
    page = (ROOT / "docs/contributing/architecture.md").read_text()
    block = page[page.index("Includes go from left to right") :].split("\n\n")[1]
    arrows = 0
    for path in re.split(r"\s{4,}|\n", block.strip()):
        steps = [[room.strip() for room in step.split(",")] for step in path.split("->")]
        for left, right in zip(steps, steps[1:]):
            for above in left:
                known = {name.split("/")[0] for name in MAY_INCLUDE.get(above, ["api"])}  # python knows api alone
                assert set(right) <= known, f"docs/contributing/architecture.md: {above} -> {right}, but it may include {sorted(known)}"
                arrows += 1
    assert arrows >= 15


@pytest.mark.parametrize(
    "path", tracked("src/cli/*.cpp", "src/safetensors/*.cpp"), ids=lambda p: str(p.relative_to(ROOT))
)
def test_commands_print_through_output_streams(path):
    """fmt::print throws where a stream is full or closed, within catch blocks and parallel regions too."""
    found = re.findall(r"\b(?:fmt::print|std::cout|std::cerr|std::printf|std::fprintf)\b", path.read_text())
    assert not found, f"{path.relative_to(ROOT)}: {found}: use output::print or output::complain"
