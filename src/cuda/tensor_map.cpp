#include "cuda/tensor_map.h"

#include <fmt/format.h>

#include "hopper/description/kernel.h"

namespace tilewright::cuda {
namespace {

// CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion. Elements are only moved, so integers suffice.
constexpr int unsigned_8 = 0;
constexpr int unsigned_16 = 1;
constexpr int unsigned_32 = 2;
constexpr int not_swizzled = 0;
constexpr int swizzled_64_bytes = 2;
constexpr int swizzled_128_bytes = 3;
constexpr int promote_to_256_bytes = 3;

int swizzle(const hopper::TensorMapDescription& d) {
    if (!d.swizzled) return not_swizzled;
    const int row_bytes = static_cast<int>(d.box[0]) * d.element_bytes;
    return row_bytes == hopper::raw_row_bytes ? swizzled_64_bytes : swizzled_128_bytes;
}

int data_type(int bytes) { return bytes == 1 ? unsigned_8 : bytes == 2 ? unsigned_16 : unsigned_32; }

}  // namespace

void encode(const Driver& driver, int device, const hopper::TensorMapDescription& d, const char* name,
            hopper::TensorMap& map) {
    constexpr int rank = 3;
    const std::uint64_t sizes[rank] = {d.sizes[0], d.sizes[1], d.sizes[2]};
    const std::uint64_t strides[rank - 1] = {d.strides[0], d.strides[1]};
    constexpr std::uint32_t every_element[rank] = {1, 1, 1};
    const int result =
        driver.call.encode_tiled(&map, data_type(d.element_bytes), rank, const_cast<void*>(d.base), sizes, strides,
                                 d.box, every_element, 0, swizzle(d), promote_to_256_bytes, 0);
    if (result == 0) return;
    const std::string call = fmt::format(
        "cuTensorMapEncodeTiled of {} (address {}, sizes [{}, {}, {}], strides [{}, {}] bytes, box [{}, {}, {}])", name,
        d.base, d.sizes[0], d.sizes[1], d.sizes[2], d.strides[0], d.strides[1], d.box[0], d.box[1], d.box[2]);
    driver.require(result, call.c_str(), device);
}

}  // namespace tilewright::cuda
