// The results of the GPU's finish_groups (hopper/quantize/finish_groups.h), on the CPU.
#include <cstring>
#include <vector>

#include "base/math.h"
#include "formats/quantize_cpu.h"
#include "formats/token_source.h"

namespace tilewright {

void formats::finish_groups_on_cpu(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends,
                                   const Tensor& d) {
    const std::vector<TokenGroup> groups = token_groups(ends, tokens);
    std::int64_t column = 0;
    for (std::size_t i = 0; i < groups.size() && column_ends.given(); ++i) {
        const std::int64_t size = groups[i].end - groups[i].begin;
        static_cast<std::int32_t*>(column_ends.data)[i] = static_cast<std::int32_t>(column + size);
        column += ceil_div(size, token_block) * token_block;
    }
    if (!d.given() || !ends.given()) return;
    const std::int64_t bytes = bits(d.format) / 8;
    for (std::int64_t row = groups.empty() ? 0 : groups.back().end; row < tokens; ++row) {
        std::memset(static_cast<char*>(d.data) + row * d.strides[0] * bytes, 0,
                    static_cast<std::size_t>(d.shape[1] * bytes));
    }
}

}  // namespace tilewright
