// Finds what a run wrote outside its output.
#include "check/case.h"
#include "check/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilewright::check {

/// `offset` counts bytes from D's first element.
std::string Case::describe_offset(std::int64_t offset) const {
    if (offset < 0) return fmt::format("d: byte {} before the beginning was written", -offset);
    if (offset >= static_cast<std::int64_t>(output_.size())) {
        return fmt::format("d: byte {} behind the end was written", offset - static_cast<std::int64_t>(output_.size()));
    }
    const Geometry g = geometry();
    const std::int64_t index = offset * 8 / bits(g.output);
    const std::int64_t group = g.d.group_stride == 0 ? 0 : index / g.d.group_stride;
    const std::int64_t rest = index - group * g.d.group_stride;
    const std::int64_t row = g.d.row_stride == 0 ? 0 : rest / g.d.row_stride;
    const std::int64_t column = (rest - row * g.d.row_stride) / std::max<std::int64_t>(1, g.d.column_stride);
    return fmt::format("d: group {}, row {}, column {} is {} and was written", group, row, column,
                       row < g.m && column < g.n ? "in a row of no group, or a gap," : "a gap");
}

std::string Case::output_damage() const {
    std::vector<std::byte> now(output_.with_guards().begin(), output_.with_guards().end());
    const std::int64_t before = output_.data() - output_.with_guards().data();
    const Geometry g = geometry();
    const auto bytes = static_cast<std::size_t>(bits(g.output) / 8);
    for (const GroupGemm& gemm : gemms_) {
        for (std::int64_t row = gemm.row_begin; row < gemm.row_begin + gemm.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                const std::size_t at = static_cast<std::size_t>(before) +
                                       static_cast<std::size_t>(output_index(g.d, gemm.group, row, column)) * bytes;
                std::memcpy(now.data() + at, pristine_.data() + at, bytes);
            }
        }
    }
    const auto [changed, original] = std::mismatch(now.begin(), now.end(), pristine_.begin());
    return changed == now.end() ? std::string{} : describe_offset(changed - now.begin() - before);
}

std::string Case::damage() const {
    for (const Input& input : inputs_) {
        if (hash(input.memory.with_guards()) != input.hash)
            return input.name + ": an input, or its surroundings, was written";
    }
    return output_damage();
}

}  // namespace tilewright::check
