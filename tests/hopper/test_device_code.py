"""Device code is always compiled, GPU or not: NVRTC takes every header as kernels do, without a standard header or a warning."""

import ctypes
import glob
import pathlib
import re
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# As kernels are compiled (src/cuda/compiler.cpp).
OPTIONS = ["-default-device", "-std=c++20", "-fmad=false", "-arch=sm_90a"]

CODEC = """
#include "formats/codec.h"
using namespace tilewright::formats;
static_assert(decode(e4m3_fields, 0x7E) == 448 && encode_ue8m0(3.0) == 129 && encode_ue4m3(448.0) == 0x7E);
extern "C" __global__ void convert(const float* in, unsigned* codes, float* out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u32 code = encode(e2m1_fields, in[i], Overflow::saturate_finite);
    codes[i] = pack_e2m1(code, encode(e4m3_fields, in[i])) + encode_ue8m0(in[i], Rounding::up) + encode_ue4m3(in[i]);
    out[i] = decode(e5m2_fields, codes[i]) + decode_ue8m0(code) + decode_ue4m3(first_e2m1(code));
}
"""

DESIGN = """
#include "hopper/description/design.h"
using namespace tilewright::hopper;
template <Kernel kernel> __global__ void run(int* out) {
    constexpr Design design = Design(kernel);
    *out = design.shared_bytes + design.consumer_registers;
}
template __global__ void run<Kernel{.shape = {.m = 64, .n = 96, .warpgroups = 1}, .stages = 6}>(int*);
static_assert(Design(Kernel{.shape = {.m = 256}}).threads == 384);
"""


def nvrtc():
    packages = sysconfig.get_paths()["platlib"]
    patterns = [
        f"{packages}/nvidia/*/lib/libnvrtc.so.*",
        "/usr/local/cuda*/lib64/libnvrtc.so.*",
        "/usr/local/cuda*/targets/*/lib/libnvrtc.so.*",
    ]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern)) if ".alt." not in path]
    assert found, f"NVRTC is in none of {patterns}; `make setup` installs it"
    # It opens its builtins by their bare name, and PyPI's has no run path: they must be open already.
    for builtins in pathlib.Path(found[0]).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(found[0])


def device_headers():
    """Every header that kernels may include, by the name they include it with."""
    (names,) = re.findall(r"list\(APPEND device_headers (.*)\)", (ROOT / "src/cuda/CMakeLists.txt").read_text())
    common = [ROOT / f"src/{name}" for name in names.split()]
    paths = [*common, *sorted((ROOT / "src/hopper").rglob("*.h"))]
    return {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in paths}


def compile_for_gpu(source):
    """(succeeded, log) of NVRTC for this source, with the device headers and no others."""
    library = nvrtc()
    found = device_headers()
    headers = (ctypes.c_char_p * len(found))(*found.values())
    names = (ctypes.c_char_p * len(found))(*[name.encode() for name in found])
    program = ctypes.c_void_p()
    create = library.nvrtcCreateProgram
    assert create(ctypes.byref(program), source.encode(), b"kernel.cu", len(found), headers, names) == 0
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    result = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return result == 0, log.value.decode()


@pytest.mark.parametrize("source", [CODEC, DESIGN], ids=["codec", "design"])
def test_nvrtc_compiles(source):
    succeeded, log = compile_for_gpu(source)
    assert succeeded and log.strip("\0\n ") == "", log


# A generated header is a table of the header that includes it, and is compiled there.
@pytest.mark.parametrize("name", [name for name in device_headers() if "generated" not in name])
def test_every_header_compiles_on_its_own(name):
    succeeded, log = compile_for_gpu(f'#include "{name}"\n')
    assert succeeded and log.strip("\0\n ") == "", log


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        ("static_assert(decode(e4m3_fields, 0x7E) == 447);", "static assertion failed"),
        ("#include <cstdint>", "could not open source file"),
        ("extern \"C\" __global__ void unused() { int never_used = 1; }", "never_used"),
    ],
)
def test_the_check_can_fail(mistake, complaint):
    _, log = compile_for_gpu(CODEC + mistake)
    assert complaint in log
