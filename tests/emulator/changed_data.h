// Operands of a case with numbers that no distribution draws, for the calls of the matrix that name them.
#pragma once

#include "check/case.h"
#include "emulator/row_call.h"

#include <cstdint>
#include <vector>

namespace tilewright::tests {

inline std::int64_t last_element(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    return last;
}

/// A copy of a tensor's memory, which the tensor then has.
template <class Element>
std::vector<Element> own_copy(Tensor& tensor) {
    const auto* const given = static_cast<const Element*>(tensor.data);
    std::vector<Element> copy(given, given + last_element(tensor) + 1);
    tensor.data = copy.data();
    return copy;
}

/// Changes a case while it exists. The case reads changed operands from memory of this.
class DataChange {
public:
    DataChange(check::Case& test, const ChangedData& changed);

    /// Where C is D, before each run.
    void fill_c();
    /// Whether sums may have any NaN.
    bool gives_any_nan() const { return changed_.any_tokens != 0; }

private:
    check::Case& test_;
    ChangedData changed_;
    std::vector<std::vector<float>> floats_{};  // that operands have
    std::vector<std::vector<std::uint8_t>> codes_{};
    std::vector<std::uint16_t> tokens_{};
};

}  // namespace tilewright::tests
