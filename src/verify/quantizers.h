// The quantizers as rows of `tilewright verify`. The CPU's are judged by the float64 values of codes and scales, a
// GPU's by the CPU's bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "verify/row.h"

namespace tilewright::verify {

struct Quantizer {
    std::string_view name;
    Granularity granularity = Granularity::none;
    bool columns = false;  // of the transpose, over groups of tokens
    bool folds = false;    // factors of tokens and features come first
    bool swiglu = false;
};

/// Per tensor, row, column, 1x128, 128x1, 128x128; with factors; of SwiGLU.
const std::vector<Quantizer>& all_quantizers();

/// Every format of the numbers and of the codes, with scales unrounded and rounded up; `quick`: one of them.
RowResult run_quantizer(const Quantizer& quantizer, const VerifySettings& settings,
                        const std::function<void()>& progress);

/// How many times `run_quantizer` will call `progress`.
std::int64_t count_cases(const VerifySettings& settings);

}  // namespace tilewright::verify
