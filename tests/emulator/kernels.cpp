#include "emulator/kernels.h"

#include "emulator/row_kernel.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace tilewright::tests {

const std::vector<EmulatedKernel>& emulated_kernels() {
    static const std::vector<EmulatedKernel> kernels = [] {
        std::vector<EmulatedKernel> list;
        [&]<int... part>(std::integer_sequence<int, part...>) { (add_kernels<part>(list), ...); }
        (std::make_integer_sequence<int, TILEWRIGHT_KERNEL_PARTS>());
        return list;
    }();
    return kernels;
}

EmulatedKernel emulated(const hopper::Kernel& tile) {
    const auto found =
        std::ranges::find_if(emulated_kernels(), [&](const EmulatedKernel& each) { return each.tile == tile; });
    return found == emulated_kernels().end() ? EmulatedKernel{.tile = hopper::Design(tile), .run = nullptr} : *found;
}

EmulatedKernel emulated(const KernelRow& row) { return emulated(tile_of(row)); }

std::vector<RowKernel> emulated(const std::vector<std::string_view>& texts) {
    std::vector<RowKernel> list;
    for (const std::string_view text : texts) {
        const KernelRow row = parse_kernel(text);
        const EmulatedKernel kernel = emulated(row);
        if (kernel.run != nullptr) list.push_back({.row = row, .kernel = kernel});
        if (kernel.run == nullptr && !sanitizes)
            throw std::invalid_argument("no line of the matrix has this kernel: " + std::string(text));
    }
    return list;
}

}  // namespace tilewright::tests
