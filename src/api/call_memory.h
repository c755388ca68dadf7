// The memory in which a call of several steps keeps what passes between them: the caller's workspace on a GPU, an
// allocation on the CPU.
#pragma once

#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tilewright {

inline bool is_on_gpu(const Tensor& tensor) { return tensor.device.kind == DeviceId::Kind::cuda; }

/// Throws Error if there are findings.
void require_none(std::vector<Finding> findings);

/// Hands out the memory of a call, one piece after another. Without memory it only counts, and pointers are null.
class Arena {
public:
    static constexpr std::int64_t alignment = 128;  // of the memory and of everything in it

    Arena(void* memory, DeviceId device) : memory_(static_cast<std::byte*>(memory)), device_(device) {}

    void* take(std::int64_t bytes);
    Tensor tensor(Format format, const Dims& shape);
    /// Values and scales, without a scale of the tensor. f32 scales of 1x128 have rows adjacent, as TMA loads them
    /// fastest.
    Operand operand(const OperandRecipe& recipe, const Dims& shape, const Dims& scales);
    /// The same for [rows, k] or [groups, rows, k].
    Operand rows(const OperandRecipe& recipe, const Dims& shape) {
        return operand(recipe, shape, scale_shape(recipe.granularity, shape));
    }

    /// Pieces that were handed out since `at` may be handed out again.
    std::int64_t position() const { return position_; }
    void rewind(std::int64_t at) { position_ = at; }
    /// The bytes that all pieces need.
    std::int64_t bytes() const { return bytes_; }

private:
    Tensor adjacent_rows(const Dims& shape);

    std::byte* memory_;
    DeviceId device_;
    std::int64_t position_ = 0;
    std::int64_t bytes_ = 0;
};

/// At least `bytes` of memory. Throws Error for a workspace that is too small.
class CallMemory {
public:
    CallMemory(std::int64_t bytes, const DeviceId& device, const Workspace& given);
    void* data() const { return data_; }

private:
    static constexpr std::align_val_t aligned{static_cast<std::size_t>(Arena::alignment)};
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, aligned); }
    };

    void* data_;
    std::unique_ptr<std::byte, Free> own_{};
};

}  // namespace tilewright
