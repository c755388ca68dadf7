// The kernels that are embedded in the library: machine code, found by the expression of its instantiation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cuda {

/// One kernel of the pack; views of the library's own memory.
struct PackedKernel {
    std::string_view expression;
    std::string_view name;  // of the function in `cubin`
    std::string_view cubin;
};

class KernelPack {
public:
    /// `bytes` must outlive the pack. Bytes that are not a pack hold no kernels.
    explicit KernelPack(std::string_view bytes);

    std::optional<PackedKernel> find(std::string_view expression) const;
    const std::vector<PackedKernel>& kernels() const { return kernels_; }
    std::int64_t bytes() const { return bytes_; }

private:
    std::vector<PackedKernel> kernels_;
    std::int64_t bytes_ = 0;
};

/// The pack that is part of this library; empty if it was built without NVRTC.
const KernelPack& embedded_pack();

/// The bytes of a pack that holds these kernels.
std::string pack_bytes(const std::vector<PackedKernel>& kernels);

}  // namespace tilewright::cuda
