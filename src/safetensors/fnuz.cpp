#include "safetensors/fnuz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "formats/codec.h"
#include "formats/element.h"

namespace tilewright::safetensors {
namespace {

/// The sibling's code of `factor` times the number of each code, where it has one.
struct Recoding {
    std::array<std::uint8_t, 256> codes{};
    std::array<bool, 256> has{};

    Recoding(Format sibling, float factor) {
        for (int i = 0; i < 256; ++i) {
            const auto code = static_cast<std::uint8_t>(i);
            const float number = fnuz_number(sibling, code) * factor;
            std::uint8_t& recoded = codes[code];
            formats::store(&recoded, sibling, 0, number);
            has[code] = std::isnan(number) || formats::load(&recoded, sibling, 0) == number;
        }
    }
};

/// Half of a scale, exactly; false where the format has none.
bool halve(std::byte* scale, Format format) {
    if (format == Format::ue8m0) {
        const auto code = static_cast<std::uint8_t>(*scale);
        if (code != 255) *scale = static_cast<std::byte>(code - 1);
        return code != 0;
    }
    float number = 0;
    std::memcpy(&number, scale, sizeof number);
    const float half = number / 2;
    std::memcpy(scale, &half, sizeof half);
    return half * 2 == number || std::isnan(number);
}

/// The codes that share a scale.
struct Block {
    std::int64_t row_begin = 0;
    std::int64_t row_end = 0;
    std::int64_t k_begin = 0;
    std::int64_t k_end = 0;
    std::int64_t k = 0;  // of a whole row

    bool all_in(const Recoding& recoding, const std::uint8_t* codes) const {
        for (std::int64_t row = row_begin; row < row_end; ++row) {
            const bool in = std::all_of(codes + row * k + k_begin, codes + row * k + k_end,
                                        [&](std::uint8_t code) { return recoding.has[code]; });
            if (!in) return false;
        }
        return true;
    }
    void recode(const Recoding& recoding, std::uint8_t* codes) const {
        for (std::int64_t row = row_begin; row < row_end; ++row) {
            for (std::int64_t i = k_begin; i < k_end; ++i) codes[row * k + i] = recoding.codes[codes[row * k + i]];
        }
    }
};

}  // namespace

std::optional<Format> fnuz_sibling(std::string_view dtype) {
    if (dtype == "F8_E4M3FNUZ") return Format::e4m3;
    if (dtype == "F8_E5M2FNUZ") return Format::e5m2;
    return std::nullopt;
}

float fnuz_number(Format sibling, std::uint8_t code) {
    if (code == 0x80) return std::numeric_limits<float>::quiet_NaN();
    formats::Fields fields = formats::fields(sibling);
    fields.special = formats::Special::none;
    ++fields.bias;
    return formats::decode(fields, code);
}

bool recode_fnuz(Format sibling, const Operand& operand) {
    const Recoding doubled(sibling, 2);
    const Recoding same(sibling, 1);
    const std::int64_t rows = operand.values.shape[0];
    const std::int64_t k = operand.values.shape[1];
    const std::int64_t of_rows = row_block(operand.granularity) == 0 ? rows : row_block(operand.granularity);
    const std::int64_t of_k = k_block(operand.granularity) == 0 ? k : k_block(operand.granularity);
    auto* const codes = static_cast<std::uint8_t*>(operand.values.data);
    std::vector<std::byte> scales(
        static_cast<std::size_t>(row_major_bytes(operand.scales.format, operand.scales.shape)));
    std::memcpy(scales.data(), operand.scales.data, scales.size());
    std::vector<std::pair<Block, const Recoding*>> blocks;
    std::byte* scale = scales.data();
    for (std::int64_t row = 0; row < rows; row += of_rows) {
        for (std::int64_t i = 0; i < k; i += of_k) {
            const Block block{row, std::min(rows, row + of_rows), i, std::min(k, i + of_k), k};
            std::array<std::byte, 4> whole{};
            const auto unit = static_cast<std::size_t>(bits(operand.scales.format) / 8);
            std::memcpy(whole.data(), scale, unit);
            const bool is_doubled = block.all_in(doubled, codes) && halve(scale, operand.scales.format);
            if (!is_doubled) {
                std::memcpy(scale, whole.data(), unit);
                if (!block.all_in(same, codes)) return false;
            }
            blocks.emplace_back(block, is_doubled ? &doubled : &same);
            scale += unit;
        }
    }
    for (const auto& [block, recoding] : blocks) block.recode(*recoding, codes);
    std::memcpy(operand.scales.data, scales.data(), scales.size());
    return true;
}

}  // namespace tilewright::safetensors
