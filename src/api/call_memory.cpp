#include "api/call_memory.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/math.h"

namespace tilewright {
namespace {

void check(std::int64_t bytes, const Workspace& given) {
    if (bytes == 0) return;
    const std::string needed = std::to_string(bytes) + " bytes or more, as workspace_bytes says";
    if (given.data == nullptr) return require_none({{"workspace", "nothing", needed, ""}});
    if (given.bytes < bytes) return require_none({{"workspace", std::to_string(given.bytes) + " bytes", needed, ""}});
    if (reinterpret_cast<std::uintptr_t>(given.data) % Arena::alignment != 0) {
        require_none({{"workspace", "an address that is not a multiple of 128", "a multiple of 128", ""}});
    }
}

}  // namespace

void require_none(std::vector<Finding> findings) {
    if (!findings.empty()) throw Error(std::move(findings));
}

void* Arena::take(std::int64_t bytes) {
    const std::int64_t at = position_;
    position_ += round_up(bytes, alignment);
    bytes_ = std::max(bytes_, position_);
    return memory_ == nullptr ? nullptr : memory_ + at;
}

Tensor Arena::tensor(Format format, const Dims& shape) {
    Tensor made = row_major(take(row_major_bytes(format, shape)), format, shape);
    made.device = device_;
    return made;
}

Tensor Arena::adjacent_rows(const Dims& shape) {
    const int last = shape.rank() - 1;
    const std::int64_t pitch = round_up<std::int64_t>(shape[last - 1], 4);  // TMA: multiples of 16 bytes
    const std::int64_t matrix = shape[last] * pitch;
    Tensor made{.format = Format::f32, .shape = shape, .device = device_};
    made.data = take((last == 2 ? shape[0] : 1) * matrix * 4);
    if (last == 2) made.strides.push_back(matrix);
    made.strides.push_back(1);
    made.strides.push_back(pitch);
    return made;
}

Operand Arena::operand(const OperandRecipe& recipe, const Dims& shape, const Dims& scales) {
    Operand made{.values = tensor(recipe.values, shape), .granularity = recipe.granularity};
    if (recipe.granularity == Granularity::none) return made;
    const bool adjacent = recipe.granularity == Granularity::block_1x128 && recipe.scales == Format::f32;
    made.scales = adjacent ? adjacent_rows(scales) : tensor(recipe.scales, scales);
    return made;
}

CallMemory::CallMemory(std::int64_t bytes, const DeviceId& device, const Workspace& given) : data_(given.data) {
    if (device.kind == DeviceId::Kind::cuda) {
        check(bytes, given);
        return;
    }
    own_.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), aligned)));
    data_ = own_.get();
}

}  // namespace tilewright
