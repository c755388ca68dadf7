#!/usr/bin/env python3
"""Writes src/hopper/ptx/wgmma_generated.h, with one entry per width of wgmma, because asm text must be a literal.

    tools/generate_wgmma.py > src/hopper/ptx/wgmma_generated.h
"""

HEAD = """\
// Written by tools/generate_wgmma.py: wgmma for each n (PTX ISA, "wgmma.mma_async").
//
// d = A B^T + (accumulate ? d : 0), 64 x n, with k 32 (bf16: 16). The mma A is in shared memory or in registers. Both
// scale-a and scale-b are 1. Operands in bf16 are K-major: the last numbers state this for operands in shared memory.
#pragma once

// clang-format off
namespace tilewright::hopper {

template <int n>
struct Wgmma;

#define TILEWRIGHT_REGISTERS(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TILEWRIGHT_WGMMA_TEXT(types, tail, n, list, a, b, p)                                               \\
    "{\\n.reg .pred p;\\nsetp.ne.b32 p, " p ", 0;\\n"                                                        \\
    "wgmma.mma_async.sync.aligned.m64n" #n types " {" list "}, " a ", " b ", p, 1, 1" tail ";\\n}"
#define TILEWRIGHT_WGMMA_FROM_SHARED(types, tail, n, list, a, b, p, fragment, fragment_b, fragment_p, ...) \\
    asm volatile(TILEWRIGHT_WGMMA_TEXT(types, tail, n, list, a, b, p)                                      \\
                 : __VA_ARGS__ : "l"(a_rows), "l"(b_rows), "r"(accumulate))
#define TILEWRIGHT_WGMMA_FROM_REGISTERS(types, tail, n, list, a, b, p, fragment, fragment_b, fragment_p, ...) \\
    asm volatile(TILEWRIGHT_WGMMA_TEXT(types, tail, n, list, fragment, fragment_b, fragment_p)             \\
                 : __VA_ARGS__ : "r"(a_rows[0]), "r"(a_rows[1]), "r"(a_rows[2]), "r"(a_rows[3]), "l"(b_rows), \\
                   "r"(accumulate))
#define TILEWRIGHT_WGMMA_OF(from, tail, n, ...)                                                            \\
    constexpr bool a_e4m3 = a == ValueFormat::e4m3, b_e4m3 = b == ValueFormat::e4m3;                               \\
    if constexpr (a == ValueFormat::bf16) TILEWRIGHT_WGMMA_FROM_##from("k16.f32.bf16.bf16", tail, n, __VA_ARGS__); \\
    else if constexpr (a_e4m3 && b_e4m3) TILEWRIGHT_WGMMA_FROM_##from("k32.f32.e4m3.e4m3", "", n, __VA_ARGS__); \\
    else if constexpr (a_e4m3) TILEWRIGHT_WGMMA_FROM_##from("k32.f32.e4m3.e5m2", "", n, __VA_ARGS__);      \\
    else if constexpr (b_e4m3) TILEWRIGHT_WGMMA_FROM_##from("k32.f32.e5m2.e4m3", "", n, __VA_ARGS__);      \\
    else TILEWRIGHT_WGMMA_FROM_##from("k32.f32.e5m2.e5m2", "", n, __VA_ARGS__);
#define TILEWRIGHT_WGMMA(n, ...)                                                                           \\
    template <>                                                                                            \\
    struct Wgmma<n> {                                                                                      \\
        template <ValueFormat a, ValueFormat b>                                                                    \\
        static TILEWRIGHT_DEVICE void multiply(float (&d)[n / 2], u64 a_rows, u64 b_rows, int accumulate) { \\
            TILEWRIGHT_WGMMA_OF(SHARED, ", 0, 0", n, __VA_ARGS__)                                          \\
        }                                                                                                  \\
        template <ValueFormat a, ValueFormat b>                                                                    \\
        static TILEWRIGHT_DEVICE void multiply(float (&d)[n / 2], const u32 (&a_rows)[4], u64 b_rows,      \\
                                               int accumulate) {                                           \\
            TILEWRIGHT_WGMMA_OF(REGISTERS, ", 0", n, __VA_ARGS__)                                          \\
        }                                                                                                  \\
    };
"""

TAIL = """
#undef TILEWRIGHT_WGMMA
#undef TILEWRIGHT_WGMMA_OF
#undef TILEWRIGHT_WGMMA_FROM_REGISTERS
#undef TILEWRIGHT_WGMMA_FROM_SHARED
#undef TILEWRIGHT_WGMMA_TEXT
#undef TILEWRIGHT_REGISTERS

}  // namespace tilewright::hopper
// clang-format on
"""


def entry(n):
    count = n // 2
    names = ",".join(f"%{i}" for i in range(count))
    registers = ", ".join(f"TILEWRIGHT_REGISTERS({i})" for i in range(0, count, 4))
    shared = ", ".join(f'"%{count + i}"' for i in range(3))
    fragment = ",".join(f"%{count + i}" for i in range(4))
    from_registers = f'"{{{fragment}}}", "%{count + 4}", "%{count + 5}"'
    return f'TILEWRIGHT_WGMMA({n}, "{names}", {shared}, {from_registers}, {registers})'


if __name__ == "__main__":
    print(HEAD)
    print("\n".join(entry(n) for n in range(8, 257, 8)))
    print(TAIL, end="")
