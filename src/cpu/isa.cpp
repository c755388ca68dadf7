#include "cpu/isa.h"

namespace tilewright::cpu {

Isa best_isa() {
#if defined(__x86_64__)
    static const Isa isa = [] {
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
        if (avx512) return Isa::avx512;
        return avx2 ? Isa::avx2 : Isa::baseline;
    }();
    return isa;
#else
    return Isa::baseline;
#endif
}

}  // namespace tilewright::cpu
