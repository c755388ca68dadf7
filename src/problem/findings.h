// Collecting findings, and the few words their texts share.
#pragma once

#include <tilewright/problem.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::validation {

class Findings {
public:
    void add(Finding finding) { list_.push_back(std::move(finding)); }
    bool empty() const { return list_.empty(); }
    std::vector<Finding> take() { return std::move(list_); }

private:
    std::vector<Finding> list_;
};

/// "f32 or ue8m0", "bf16, f16 or f32".
std::string either(const std::vector<std::string>& words);

/// A tensor of the call under the name the caller knows it by.
struct NamedTensor {
    std::string_view name;
    const Tensor* tensor;
};

/// All tensors that a call can have, given or not; d first, because the others are compared with it.
std::array<NamedTensor, 10> tensors_of(const Problem& problem);

/// Given, of a rank that is kept, without negative sizes.
bool has_sound_shape(const Tensor& tensor);

/// A sound shape with one stride for each size, none negative, spanning less than 2^60 bytes, so that sums of
/// a few offsets cannot overflow.
bool has_sound_strides(const Tensor& tensor);

/// Whether a tensor of sound shape has no elements.
bool is_empty(const Tensor& tensor);

/// Whether the elements of a tensor have known addresses.
bool has_memory(const Tensor& tensor);

}  // namespace tilewright::validation
