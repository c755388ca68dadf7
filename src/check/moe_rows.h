// The rows of a layer of experts, one after another: whose token each is, and which expert multiplies it. Written from
// the documentation in tilewright/moe.h and apart from src/moe, so that tests can compare the two.
#pragma once

#include <tilewright/moe.h>

#include <cstdint>
#include <vector>

namespace tilewright::check {

struct MoeRow {
    std::int64_t expert = -1;  // local; -1: the row does not exist
    std::int64_t source = -1;  // row of x
    std::int64_t choice = 0;   // of the token; 0 in the forms without routing
    float weight = 1;
};

/// The rows of the first product. Tokens: T * (k + shared) of them, sorted by expert, and those of no expert last.
std::vector<MoeRow> moe_rows(const Moe& layer);

struct MoeShape {
    std::int64_t experts = 0, hidden = 0, inner = 0, up_rows = 0;
    std::int64_t sources = 0;  // rows of x; masked: of all groups
    std::int64_t choices = 1;  // per source
    Dims rows{};               // of the first product, without the columns: [rows] or [E, room]

    Dims matrix(std::int64_t columns) const {
        return rows.rank() == 2 ? Dims{rows[0], rows[1], columns} : Dims{rows[0], columns};
    }
};
MoeShape moe_shape(const Moe& layer);

/// The numbers of a matrix in f32, [rows] x [columns]; groups one after another. Decoded exactly.
std::vector<float> numbers_of(const Tensor& matrix);

}  // namespace tilewright::check
