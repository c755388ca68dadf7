// The results of the GPU's finish_groups (hopper/quantize/finish_groups.h), on the CPU.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "formats/element.h"
#include "formats/quantize_cpu.h"
#include "formats/token_source.h"

namespace tilewright {

void formats::finish_groups_on_cpu(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends,
                                   const Tensor& d) {
    const std::int64_t groups = ends.given() ? ends.shape[0] : 1;
    std::int64_t begin = 0;
    std::int64_t column = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t given =
            ends.given() ? load_integer(ends.data, ends.format, group * ends.strides[0]) : tokens;
        const std::int64_t end = std::clamp(given, begin, tokens);
        if (column_ends.given()) {
            static_cast<std::int32_t*>(column_ends.data)[group] = static_cast<std::int32_t>(column + end - begin);
        }
        column += ceil_div(end - begin, token_block) * token_block;
        begin = end;
    }
    if (!d.given() || !ends.given()) return;
    const std::int64_t bytes = bits(d.format) / 8;
    for (std::int64_t row = begin; row < tokens; ++row) {
        std::memset(static_cast<char*>(d.data) + row * d.strides[0] * bytes, 0,
                    static_cast<std::size_t>(d.shape[1] * bytes));
    }
}

}  // namespace tilewright
