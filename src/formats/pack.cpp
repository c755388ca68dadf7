// Packing weights: rows are judged first, then each row tile is written by one thread.
#include "formats/codec.h"
#include "formats/pack_plan.h"
#include "formats/quantize_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace tilewright {
namespace {

using namespace formats;

constexpr std::size_t packed_block = 32;  // k-elements per MXFP4 scale

/// Writes one row tile: its rows and its tiles.
class TileWriter {
public:
    TileWriter(const PackPlan& plan, std::byte* out, std::int64_t index)
        : plan_(plan),
          out_(out),
          table_(packed_table(plan.source.recipe(), plan.activations)),
          group_(index / plan.sections.row_tiles()),
          row_tile_(index % plan.sections.row_tiles()),
          first_row_(row_tile_ * packed_rows),
          rows_(std::min<std::int64_t>(packed_rows, plan.sections.n - first_row_)) {}

    void write() {
        write_rows();
        for (std::int64_t k_block = 0; k_block < plan_.sections.k_blocks(); ++k_block) {
            std::byte* const tile = out_ + plan_.sections.tile_at(group_, row_tile_, k_block);
            for (std::int64_t row = 0; row < rows_; ++row) {
                if (has_blocks_of_32(plan_.source.recipe())) {
                    write_mxfp4(tile, row, k_block);
                } else {
                    write_nvfp4(tile, row, k_block);
                }
            }
            fill_scales(tile);
            if (plan_.sections.windows != 0) write_windows(tile + plan_.sections.windows_in_tile(), k_block);
        }
    }

private:
    /// The scale of a block that does not count, and of rows after n.
    std::uint8_t unused_scale() const {
        if (!has_blocks_of_32(plan_.source.recipe())) return 0;
        return plan_.activations == PackedFor::fp8 ? 2 * fp8_top_exponent : 2 * ue8m0_bias - 1;
    }

    void write_rows() {
        for (std::int64_t i = 0; i < rows_; ++i) {
            const PackedRow row = packed_row(plan_.judgement(group_, first_row_ + i));
            const std::int64_t index = group_ * plan_.sections.row_tiles() * packed_rows + first_row_ + i;
            std::memcpy(out_ + plan_.sections.rows_at() + index * static_cast<std::int64_t>(sizeof row), &row,
                        sizeof row);
        }
    }

    PackedRow packed_row(const RowJudgement& judged) const {
        const std::uint8_t kept = judged.kept ? packed_row_kept : 0;
        if (!has_blocks_of_32(plan_.source.recipe())) return {.end_factor = 1, .flags = kept};
        const int reference = judged.exponents.reference(plan_.range);
        const bool fp8 = plan_.activations == PackedFor::fp8;
        PackedRow row{.reference = static_cast<std::int16_t>(reference)};
        row.end_factor = fp8 ? power_of_two(reference - fp8_top_exponent) : power_of_two(reference);
        if (judged.wide) row.end_factor = 1;
        if (judged.exponents.nan) row.end_factor = std::numeric_limits<float>::quiet_NaN();
        if (judged.wide && plan_.has_windows()) row.end_factor = std::copysign(row.end_factor, -1.0F);
        row.flags = static_cast<std::uint8_t>((judged.wide ? packed_row_wide : 0) | kept);
        return row;
    }

    /// The codes of one block of a row, at most 32 k-elements.
    void write_codes(std::byte* tile, std::int64_t row, std::int64_t column, int block) {
        std::array<std::uint8_t, packed_block> codes{};
        const auto count = plan_.source.codes(group_, first_row_ + row, column, codes.data());
        const std::int64_t first = column * block % packed_k;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t k = first + i;
            const auto in_step = static_cast<std::size_t>(k % 32);
            const std::int64_t word = packed_word(row, k / 32) + table_.word[in_step];
            std::uint32_t bits = 0;
            std::memcpy(&bits, tile + word * 4, 4);
            bits |= table_.bits[in_step][codes[static_cast<std::size_t>(i)]];
            std::memcpy(tile + word * 4, &bits, 4);
        }
    }

    void write_nvfp4(std::byte* tile, std::int64_t row, std::int64_t k_block) {
        const std::int64_t count = plan_.sections.scales_of_row();
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t column = k_block * count + i;
            if (column >= plan_.sections.scale_columns()) return;
            write_codes(tile, row, column, plan_.sections.scale_block);
            tile[packed_scale_at(row, count) + i] =
                static_cast<std::byte>(packed_nvfp4_scale(plan_.source.scale(group_, first_row_ + row, column)));
        }
    }

    void write_mxfp4(std::byte* tile, std::int64_t row, std::int64_t k_block) {
        const RowJudgement& judged = plan_.judgement(group_, first_row_ + row);
        const auto exponents = plan_.block_exponents(group_, first_row_ + row, k_block);
        const BlockWindows windows = plan_.windows(group_, first_row_ + row, k_block);
        const bool split = plan_.has_windows() && judged.wide;
        for (std::size_t i = 0; i < exponents.size(); ++i) {
            const std::int64_t column = k_block * BlockWindows::blocks + static_cast<std::int64_t>(i);
            if (column >= plan_.sections.scale_columns()) break;
            write_codes(tile, row, column, plan_.sections.scale_block);
            const int window = windows.of_block[i];
            const int top =
                split ? windows.top[static_cast<std::size_t>(window)] : judged.exponents.reference(plan_.range);
            int scale = unused_scale();
            if (plan_.activations == PackedFor::bf16 && judged.wide) {
                scale = plan_.source.scale(group_, first_row_ + row, column);
            } else if (exponents[i] != BlockWindows::none) {
                scale += exponents[i] - top;
            }
            const int byte = scale | window << packed_window_shift;
            tile[packed_scale_at(row, BlockWindows::blocks) + static_cast<std::int64_t>(i)] =
                static_cast<std::byte>(byte);
        }
    }

    /// The windows of a tile's rows in one k-block.
    void write_windows(std::byte* to, std::int64_t k_block) const {
        PackedWindows head;
        std::byte* const exponents = to + sizeof head;
        std::fill_n(exponents, plan_.sections.windows * packed_window_bytes, static_cast<std::byte>(no_window));
        for (std::int64_t row = 0; row < packed_rows; ++row) {
            const bool wide = row < rows_ && plan_.judgement(group_, first_row_ + row).wide;
            exponents[packed_exponent_at(row, 0)] = std::byte{unit_window};
            if (!wide) continue;
            head.wide[static_cast<std::size_t>(row % 16 / 8)] |= std::uint32_t{1} << (row / 16 * 8 + row % 8);
            const BlockWindows windows = plan_.windows(group_, first_row_ + row, k_block);
            head.windows = std::max(head.windows, static_cast<std::uint32_t>(windows.count));
            for (int window = 0; window < windows.count; ++window) {
                const int top = windows.top[static_cast<std::size_t>(window)];
                exponents[packed_exponent_at(row, window)] =
                    static_cast<std::byte>(top == BlockWindows::none ? 0 : top);
            }
        }
        std::memcpy(to, &head, sizeof head);
    }

    /// MXFP4 scale bytes that no block has written are 0; a kernel may read them all.
    void fill_scales(std::byte* tile) const {
        if (!has_blocks_of_32(plan_.source.recipe())) return;
        for (std::int64_t i = packed_code_bytes; i < packed_code_bytes + packed_rows * BlockWindows::blocks; ++i) {
            if (tile[i] == std::byte{0} && plan_.activations == PackedFor::fp8) tile[i] = std::byte{unused_scale()};
        }
    }

    const PackPlan& plan_;
    std::byte* out_;
    const PackedTable& table_;
    std::int64_t group_;
    std::int64_t row_tile_;
    std::int64_t first_row_;
    std::int64_t rows_;
};

void write_kept(const PackPlan& plan, std::byte* out) {
    if (plan.bytes == plan.sections.kept_at()) return;
    const auto count = static_cast<std::uint32_t>(plan.kept_rows);
    std::byte* next = out + plan.sections.kept_at();
    std::memcpy(next, &count, sizeof count);
    next += 8;
    for (std::int64_t i = 0; i < std::ssize(plan.rows); ++i) {
        if (!plan.rows[static_cast<std::size_t>(i)].kept) continue;
        std::memcpy(next, &i, 8);
        for (std::int64_t column = 0; column < plan.sections.scale_columns(); ++column) {
            next[8 + column] =
                static_cast<std::byte>(plan.source.scale(i / plan.sections.n, i % plan.sections.n, column));
        }
        next += plan.sections.kept_row_bytes();
    }
}

void write(const PackPlan& plan, std::byte* out, const ConversionOptions& how) {
    std::memset(out, 0, static_cast<std::size_t>(plan.bytes));
    const PackedHeader header =
        header_of(plan.sections, plan.source.recipe(), plan.activations, plan.source.grouped(), plan.bytes);
    std::memcpy(out, &header, sizeof header);
    for (std::int64_t i = 0; i < plan.sections.tensor_scales; ++i) {
        const float scale = plan.source.tensor_scale(i);
        std::memcpy(out + PackedSections::tensor_scales_at() + i * 4, &scale, 4);
    }
    for_each_item(plan.sections.groups * plan.sections.row_tiles(), how,
                  [&](std::int64_t i) { TileWriter(plan, out, i).write(); });
    write_kept(plan, out);
}

}  // namespace

std::int64_t formats::packed_bytes_on_cpu(const Operand& weights, PackedFor activations) {
    return pack_plan(weights, activations, {}).bytes;
}

void formats::check_packed_bytes(const void* out, std::int64_t given, std::int64_t expected) {
    if (out != nullptr && given == expected) return;
    throw Error({{.operand = "out",
                  .given = out == nullptr ? "a null pointer" : std::to_string(given) + " bytes",
                  .expected = std::to_string(expected) + " bytes, the result of packed_bytes",
                  .advice = {}}});
}

PackedWeights formats::pack_on_cpu(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes,
                                   const ConversionOptions& how) {
    const PackPlan plan = pack_plan(weights, activations, how);
    check_packed_bytes(out, bytes, plan.bytes);
    write(plan, static_cast<std::byte*>(out), how);
    return packed_weights(out, bytes);
}

OwnedPackedWeights formats::pack_on_cpu(const Operand& weights, PackedFor activations, const ConversionOptions& how) {
    const PackPlan plan = pack_plan(weights, activations, how);
    OwnedPackedWeights owned(plan.bytes);
    write(plan, static_cast<std::byte*>(owned.packed.data), how);
    owned.packed = packed_weights(owned.packed.data, plan.bytes);
    return owned;
}

}  // namespace tilewright
