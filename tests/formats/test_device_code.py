"""codec.h is device code too: NVRTC compiles it as kernels will, with no standard header and no warning."""

import ctypes
import glob
import pathlib
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# As kernels are compiled (docs/design.md, rules for device code).
OPTIONS = ["-default-device", "-std=c++20", "-fmad=false", "-arch=sm_90a"]

KERNEL = """
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


def nvrtc():
    packages = sysconfig.get_paths()["platlib"]
    patterns = [
        f"{packages}/nvidia/*/lib/libnvrtc.so.*",
        "/usr/local/cuda*/lib64/libnvrtc.so.*",
        "/usr/local/cuda*/targets/*/lib/libnvrtc.so.*",
    ]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern)) if ".alt." not in path]
    assert found, f"NVRTC is in none of {patterns}; `make setup` installs it"
    return ctypes.CDLL(found[0])


def compile_for_gpu(source):
    """(succeeded, log) of NVRTC for this source, with src/formats/codec.h as its only header."""
    library = nvrtc()
    header = (ROOT / "src/formats/codec.h").read_bytes()
    program = ctypes.c_void_p()
    headers, names = (ctypes.c_char_p * 1)(header), (ctypes.c_char_p * 1)(b"formats/codec.h")
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 1, headers, names) == 0
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    result = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return result == 0, log.value.decode()


def test_nvrtc_compiles_the_codec():
    succeeded, log = compile_for_gpu(KERNEL)
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
    _, log = compile_for_gpu(KERNEL + mistake)
    assert complaint in log
