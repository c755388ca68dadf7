// The pack that embedded_pack.S puts into this library.
#include "cuda/kernel_pack.h"

extern "C" {
extern const char tilewright_kernel_pack_begin[];
extern const char tilewright_kernel_pack_end[];
}

namespace tilewright::cuda {

const KernelPack& embedded_pack() {
    const char* const begin = tilewright_kernel_pack_begin;
    const char* const end = tilewright_kernel_pack_end;
    static const KernelPack pack(std::string_view(begin, static_cast<std::size_t>(end - begin)));
    return pack;
}

}  // namespace tilewright::cuda
