// Operands of a case with numbers that no distribution draws, for the calls of the matrix that name them.
#pragma once

#include "check/case.h"
#include "emulator/row_call.h"

#include <cstddef>
#include <vector>

namespace tilewright::tests {

/// Changes a case while it exists. The case reads changed operands from memory of this.
class DataChange {
public:
    DataChange(check::Case& test, const ChangedData& changed);

    /// Where C is D, before each run.
    void fill_c();
    /// Whether sums may have any NaN.
    bool gives_any_nan() const { return changed_.any_tokens != 0; }

private:
    /// A copy of a tensor's memory, which the tensor then has; its elements.
    template <class Element>
    Element* copied(Tensor& tensor);

    check::Case& test_;
    ChangedData changed_;
    std::vector<std::vector<std::byte>> memory_;
};

}  // namespace tilewright::tests
