// MXFP4 weights whose scales are far apart within a row: the choice of rows, and their scales.
#pragma once

#include "check/random.h"

#include <algorithm>
#include <cstdint>

namespace tilewright::check {

struct FarScales {
    int one_row_in = 0;  // has them; 0: none
    int spread = 24;     // the largest difference of its exponents
    bool odd = false;    // blocks of zeros, with any scale, and one row in eight with scales of NaN
};

/// The places of one operand's far scales, as a pure function of position.
class FarScalePlaces {
public:
    FarScalePlaces(const FarScales& how, std::uint64_t seed) : how_(how), seed_(mix(seed)) {}

    bool any() const { return how_.one_row_in > 0; }
    bool has_row(std::int64_t group, std::int64_t row) const {
        return any() && of_row(group, row) % static_cast<std::uint64_t>(how_.one_row_in) == 0;
    }
    bool is_zero(std::int64_t group, std::int64_t row, std::int64_t block) const {
        return how_.odd && has_row(group, row) && random_bits(seed_ + 1, group, row, block) % 5 == 0;
    }
    /// Changes the ue8m0 scale of a block, at `index`, if its row is to have them.
    void change(const void* scales, std::int64_t index, std::int64_t group, std::int64_t row,
                std::int64_t block) const {
        auto& code = static_cast<std::uint8_t*>(const_cast<void*>(scales))[index];
        if (has_row(group, row)) code = static_cast<std::uint8_t>(changed(code, group, row, block));
    }

private:
    /// In half of the rows four blocks are changed alike.
    int changed(int code, std::int64_t group, std::int64_t row, std::int64_t block) const {
        const bool by_four = (of_row(group, row) >> 32) % 2 == 0;
        const std::uint64_t random = random_bits(seed_ + 2, group, row, by_four ? block / 4 : block);
        if (how_.odd && (of_row(group, row) >> 40) % 8 == 0 && (random >> 32) % 3 == 0) return 255;
        if (is_zero(group, row, block)) return static_cast<int>((random >> 40) % 256);
        const int off = static_cast<int>(random % static_cast<std::uint64_t>(how_.spread + 1));
        return std::clamp(code + how_.spread / 2 - off, 0, 254);
    }
    std::uint64_t of_row(std::int64_t group, std::int64_t row) const { return random_bits(seed_, group, row); }

    FarScales how_;
    std::uint64_t seed_;
};

}  // namespace tilewright::check
