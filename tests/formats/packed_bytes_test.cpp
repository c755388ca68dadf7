// The header of packed weights, and arbitrary bytes in its place.
#include "formats/fp4_weights.h"
#include "formats/packed_layout.h"

#include <tilewright/error.h>

#include <gtest/gtest.h>

#include <string>

namespace tilewright::formats {
namespace {

/// The header names it, because separate kernels multiply weights with such a row. fp8 has windows for it.
TEST(PackedBytes, TheFirstWideRowForBf16IsNamed) {
    const OwnedOperand weights = random_weights(mxfp4, {2, 70, 256}, 100, 111);
    EXPECT_EQ(internal_of(pack_weights(weights, PackedFor::bf16).packed).wide_row, -1);
    const Operand second{.values = row_major(static_cast<std::uint8_t*>(weights.operand().values.data) + 70 * 128,
                                             Format::e2m1, {70, 256}),
                         .granularity = Granularity::block_1x32,
                         .scales = row_major(static_cast<std::uint8_t*>(weights.operand().scales.data) + 70 * 8,
                                             Format::ue8m0, {70, 8})};
    for (const std::int64_t row : {69, 33}) {
        fill_block(second, row, 2, 1);
        scale_of_block(second, row, 2) = 230;
        EXPECT_EQ(internal_of(pack_weights(weights, PackedFor::bf16).packed).wide_row, 70 + row);
    }
    EXPECT_EQ(internal_of(pack_weights(weights, PackedFor::fp8).packed).wide_row, -1);
    EXPECT_GT(internal_of(pack_weights(weights, PackedFor::fp8).packed).windows, 0);
    scale_of_block(second, 33, 2) = 105;
    scale_of_block(second, 69, 2) = 105;
    EXPECT_EQ(internal_of(pack_weights(weights, PackedFor::bf16).packed).wide_row, -1);
}

TEST(PackedBytes, DamagedBytesAreRefusedOrUnpackedNeverFollowed) {
    const OwnedOperand weights = random_weights(mxfp4, {65, 160}, 90, 140);
    const OwnedPackedWeights packed = pack_weights(weights, PackedFor::fp8);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(packed.packed.bytes));
    const auto sections = packed_sections(packed.packed);
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < 128; ++i) positions.push_back(i);
    for (std::int64_t i = 0; i < 32; ++i) positions.push_back(static_cast<std::size_t>(sections.tiles_at() + i));
    for (std::int64_t i = 0; i < 16; ++i) positions.push_back(bytes.size() - 128 + static_cast<std::size_t>(i));
    int refused = 0;
    for (const std::size_t position : positions) {
        for (const std::uint8_t flip : {0x01, 0x80, 0xFF}) {
            std::memcpy(bytes.data(), packed.packed.data, bytes.size());
            bytes[position] ^= flip;
            try {
                unpack_weights(packed_weights(bytes.data(), packed.packed.bytes));
            } catch (const Error&) {
                ++refused;
            }
        }
    }
    EXPECT_GT(refused, 100);
    EXPECT_THROW(packed_weights(bytes.data(), 127), Error);
    EXPECT_THROW(packed_weights(packed.packed.data, packed.packed.bytes - 1), Error);
}

TEST(PackedBytes, RefusesWhatItDoesNotTake) {
    const auto message = [](const Operand& weights) {
        try {
            pack_weights(weights, PackedFor::fp8);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const OwnedOperand rows({4, 64}, *parse_operand_recipe("row"));
    EXPECT_NE(message(rows).find("weights: got row; expected mxfp4 or nvfp4."), std::string::npos) << message(rows);
    const OwnedOperand weights = random_weights(mxfp4, {64, 64}, 127, 127);
    Operand turned = weights.operand();
    std::swap(turned.values.strides[0], turned.values.strides[1]);
    EXPECT_NE(message(turned).find("a stride of 1 along k"), std::string::npos) << message(turned);
}

}  // namespace
}  // namespace tilewright::formats
