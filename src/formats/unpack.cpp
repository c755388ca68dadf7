// Unpacking weights, bit for bit. The bytes may be anybody's: every position that they name is checked.
#include "base/threads.h"
#include "formats/element.h"
#include "formats/pack_plan.h"
#include "formats/packed_layout.h"
#include "formats/quantize_check.h"

#include <tilewright/quantize.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tilewright {
namespace {

using namespace formats;

[[noreturn]] void refuse_damaged(const std::string& what) {
    throw Error({{.operand = "packed",
                  .given = what,
                  .expected = "bytes written by pack_weights",
                  .advice = "pack the weights again"}});
}

/// Reads the codes of a tile from the places that `packed_place` defines.
int code_at(const std::byte* tile, const PackedTable& table, std::int64_t row, std::int64_t k) {
    const auto in_step = static_cast<std::size_t>(k % 32);
    std::uint32_t word = 0;
    std::memcpy(&word, tile + (packed_word(row, k / 32) + table.word[in_step]) * 4, sizeof word);
    std::uint32_t code = 0;
    for (std::size_t bit = 0; bit < 4; ++bit) code |= (word >> table.place[in_step].bit[bit] & 1U) << bit;
    return static_cast<int>(code);
}

class Unpacker {
public:
    Unpacker(const PackedWeights& packed, const Operand& out)
        : header_(checked_header(packed)),
          sections_(packed_sections(packed)),
          data_(static_cast<const std::byte*>(packed.data)),
          table_(packed_table(packed.recipe, packed.activations)),
          packed_(packed),
          values_(static_cast<std::uint8_t*>(out.values.data)),
          scales_(static_cast<std::uint8_t*>(out.scales.data)) {}

    void run(const ConversionOptions& how) {
        const std::int64_t row_tiles = sections_.row_tiles();
        for_each_item(sections_.groups * row_tiles, how,
                      [&](std::int64_t i) { unpack_tiles(i / row_tiles, i % row_tiles); });
        if (header_.bytes > header_.kept_at) restore_kept();
    }

    void unpack_tensor_scales(const Tensor& out) const {
        for (std::int64_t i = 0; out.given() && i < out.shape[0]; ++i) {
            const std::int64_t from = header_.tensor_scales > 1 ? i : 0;
            std::memcpy(static_cast<std::byte*>(out.data) + i * 4,
                        data_ + PackedSections::tensor_scales_at() + from * 4, 4);
        }
    }

private:
    std::uint8_t* row_values(std::int64_t group, std::int64_t row) const {
        return values_ + (group * sections_.n + row) * (sections_.k / 2);
    }
    std::uint8_t* row_scales(std::int64_t group, std::int64_t row) const {
        return scales_ + (group * sections_.n + row) * sections_.scale_columns();
    }

    void unpack_tiles(std::int64_t group, std::int64_t row_tile) const {
        const std::int64_t first = row_tile * packed_rows;
        const std::int64_t rows = std::min<std::int64_t>(packed_rows, sections_.n - first);
        for (std::int64_t k_block = 0; k_block < sections_.k_blocks(); ++k_block) {
            const std::byte* const tile = data_ + sections_.tile_at(group, row_tile, k_block);
            for (std::int64_t row = 0; row < rows; ++row)
                unpack_codes(tile, row, k_block, row_values(group, first + row));
        }
        for (std::int64_t row = 0; row < rows; ++row) unpack_scales(group, first + row);
    }

    void unpack_codes(const std::byte* tile, std::int64_t row, std::int64_t k_block, std::uint8_t* values) const {
        const std::int64_t begin = k_block * packed_k;
        const std::int64_t count = std::min<std::int64_t>(packed_k, sections_.k - begin);
        for (std::int64_t k = 0; k < count; k += 2) {
            const int pair = code_at(tile, table_, row, k) | code_at(tile, table_, row, k + 1) << 4;
            values[(begin + k) / 2] = static_cast<std::uint8_t>(pair);
        }
    }

    void unpack_scales(std::int64_t group, std::int64_t row) const {
        PackedRow info;
        const std::int64_t index = group * sections_.row_tiles() * packed_rows + row;
        std::memcpy(&info, data_ + sections_.rows_at() + index * static_cast<std::int64_t>(sizeof info), sizeof info);
        const std::int64_t per_tile = sections_.scales_of_row();
        std::uint8_t* const out = row_scales(group, row);
        for (std::int64_t column = 0; column < sections_.scale_columns(); ++column) {
            const std::byte* const tile = data_ + sections_.tile_at(group, row / packed_rows, column / per_tile);
            const auto stored =
                static_cast<int>(tile[packed_scale_at(row % packed_rows, per_tile) + column % per_tile]);
            out[column] = static_cast<std::uint8_t>(has_blocks_of_32(packed_.recipe) ? scale_of(info, stored) : stored);
        }
        if (has_blocks_of_32(packed_.recipe)) restore_zeros(row_values(group, row), out);
    }

    int scale_of(const PackedRow& row, int stored) const {
        const int top = packed_.activations == PackedFor::fp8 ? 2 * fp8_top_exponent : 2 * ue8m0_bias - 1;
        return row.reference + stored - top + ue8m0_bias;  // of wide rows, which are kept, no scale
    }

    /// Blocks of zeros have the scale 1 here; rows in which one has another are kept.
    void restore_zeros(const std::uint8_t* values, std::uint8_t* scales) const {
        for (std::int64_t column = 0; column < sections_.scale_columns(); ++column) {
            const std::int64_t begin = column * 16;
            const std::int64_t end = std::min(begin + 16, sections_.k / 2);
            const bool zeros =
                std::all_of(values + begin, values + end, [](std::uint8_t pair) { return (pair & 0x77) == 0; });
            if (zeros) scales[column] = ue8m0_bias;
        }
    }

    void restore_kept() const {
        std::uint32_t count = 0;
        std::memcpy(&count, data_ + header_.kept_at, sizeof count);
        const std::int64_t size = sections_.kept_row_bytes();
        if (std::int64_t{count} > (header_.bytes - header_.kept_at - 8) / size)
            refuse_damaged("kept rows beyond the end");
        const std::byte* next = data_ + header_.kept_at + 8;
        for (std::uint32_t i = 0; i < count; ++i, next += size) {
            std::int64_t row = 0;
            std::memcpy(&row, next, sizeof row);
            if (row < 0 || row >= sections_.groups * sections_.n) refuse_damaged("a kept row outside the weights");
            std::memcpy(row_scales(0, row), next + 8, static_cast<std::size_t>(sections_.scale_columns()));
        }
    }

    PackedHeader header_;
    PackedSections sections_;
    const std::byte* data_;
    const PackedTable& table_;
    const PackedWeights& packed_;
    std::uint8_t* values_;
    std::uint8_t* scales_;
};

}  // namespace

void unpack_weights(const PackedWeights& packed, const Operand& out, const ConversionOptions& how) {
    checked_header(packed);
    std::vector<Finding> findings = check_unpacked(packed, out);
    if (!findings.empty()) throw Error(std::move(findings));
    Unpacker unpacker(packed, out);
    unpacker.run(how);
    unpacker.unpack_tensor_scales(out.tensor_scale);
}

OwnedOperand unpack_weights(const PackedWeights& packed) {
    checked_header(packed);
    OwnedOperand out(packed.shape(), packed.recipe);
    unpack_weights(packed, out, {});
    return out;
}

}  // namespace tilewright
