// The kernels that pack weights on the emulator against the CPU's packing, byte for byte. Neither writes the memory
// after the packed weights.
#include <gtest/gtest.h>
#include <tilewright/packed.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/other_kernels.h"
#include "emulator/primitives.h"
#include "formats/fp4_weights.h"
#include "formats/packed_source.h"
#include "hopper/pack/pack_rows.h"
#include "launch/weight_packing.h"
#include "sample.h"

namespace tilewright::tests {
namespace {

// Device code cannot include all headers of the host. Its constants are theirs.
static_assert(hopper::pack_blocks == formats::BlockWindows::blocks);
static_assert(hopper::ue8m0_bias == formats::ue8m0_bias && hopper::ue8m0_nan == formats::ue8m0_nan);

using formats::fill_block;
using formats::mxfp4;
using formats::nvfp4;
using formats::random_weights;
using formats::scale_of_block;
constexpr std::uint8_t untouched = 0xA5;

void run(const std::vector<launch::OtherLaunch>& launches) { run_on_emulator(launches, 5); }

/// As src/cuda/weight_packing.cpp does it, with more bytes after the packed weights.
std::vector<std::uint8_t> pack_by_kernels(const Operand& weights, PackedFor activations, std::int64_t behind) {
    const Dims& shape = weights.values.shape;
    const std::int64_t rows = shape[shape.rank() - 2] * (shape.rank() == 3 ? shape[0] : 1);
    std::vector<std::uint8_t> judgements(static_cast<std::size_t>(rows), untouched), again = judgements;
    const formats::PackedSections sections = formats::PackedSource(weights).sections();
    run(launch::lower_tiles(weights, activations, sections, judgements.data(), nullptr));
    const launch::PackedPlan plan = launch::packed_plan(weights, activations, judgements);
    std::vector<std::uint8_t> out(static_cast<std::size_t>(plan.bytes + behind), untouched);
    run(launch::lower_tiles(weights, activations, sections, again.data(), out.data()));
    EXPECT_EQ(again, judgements);
    if (plan.sections.windows != 0) {
        run(launch::lower_tiles(weights, activations, plan.sections, again.data(), out.data()));
    }
    run({launch::lower_rest(weights, activations, plan, plan.kept_rows.data(), out.data())});
    return out;
}

void expect_cpu_bytes(const Operand& weights, PackedFor activations, const std::string& what) {
    SCOPED_TRACE(what + " " + to_string(weights.values.shape) + " for " + std::string(name(activations)));
    constexpr std::int64_t behind = 64;
    const OwnedPackedWeights expected = pack_weights(weights, activations);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(expected.packed.bytes + behind), untouched);
    std::memcpy(bytes.data(), expected.packed.data, static_cast<std::size_t>(expected.packed.bytes));
    const std::vector<std::uint8_t> given = pack_by_kernels(weights, activations, behind);
    const auto first = std::mismatch(given.begin(), given.end(), bytes.begin(), bytes.end()).first - given.begin();
    EXPECT_TRUE(given == bytes) << "byte " << first << " is not the CPU's";
}

constexpr PackedFor both[] = {PackedFor::fp8, PackedFor::bf16};

TEST(PackWeights, OfAnyShape) {
    Sample sample(5);
    for (const OperandRecipe& recipe : {mxfp4, nvfp4}) {
        for (const PackedFor activations : both) {
            for (const Dims& shape : {Dims{1, 2}, Dims{64, 128}, Dims{65, 130}, Dims{200, 72}, Dims{140, 480},
                                      Dims{3, 70, 96}, Dims{0, 128}, Dims{8, 0}, Dims{0, 64, 64}}) {
                if (!sample.takes_next()) continue;
                expect_cpu_bytes(random_weights(recipe, shape, 110, 120).operand(), activations, name(recipe));
            }
        }
    }
}

TEST(PackWeights, OfRowsThatSharedMemoryHoldsInParts) {
    for (const OperandRecipe& recipe : {mxfp4, nvfp4}) {
        for (const int least : {110, 90}) {
            expect_cpu_bytes(random_weights(recipe, {3, 27424}, least, 120).operand(), PackedFor::fp8, name(recipe));
        }
    }
}

TEST(PackWeights, OfAnyScales) {
    Sample sample(5);
    for (const PackedFor activations : both) {
        for (const int most : {5, 127, 200, 255}) {
            for (const int difference : {0, 12, 121, 255}) {
                if (!sample.takes_next()) continue;
                const int least = std::max(most - difference, 0);
                expect_cpu_bytes(random_weights(mxfp4, {67, 320}, least, most).operand(), activations,
                                 "scales from " + std::to_string(least) + " to " + std::to_string(most));
            }
        }
        expect_cpu_bytes(random_weights(nvfp4, {67, 320}, 0, 255).operand(), activations, "nvfp4");
    }
}

TEST(PackWeights, WithBlocksOfZerosNanAndAWideRow) {
    for (const PackedFor activations : both) {
        const OwnedOperand weights = random_weights(mxfp4, {130, 256}, 120, 122);
        const Operand& operand = weights.operand();
        for (std::int64_t row = 0; row < 130; ++row) {
            if (row % 5 == 0) fill_block(operand, row, row % 8, row % 2 == 0 ? 0 : 8);
            if (row % 10 == 0)
                scale_of_block(operand, row, row % 8) = static_cast<std::uint8_t>(row % 3 == 0 ? 127 : row);
            if (row % 17 == 0) scale_of_block(operand, row, 3) = 255;
        }
        scale_of_block(operand, 77, 6) = 60;
        expect_cpu_bytes(operand, activations, "zeros and NaN");
    }
}

TEST(PackWeights, FromRowsAndScalesThatAreNotAligned) {
    const OwnedOperand weights = random_weights(mxfp4, {2, 66, 256}, 100, 130);
    Operand view = weights.operand();
    view.values.shape = {2, 66, 190};  // the first of each row, whose scales go on after them
    view.scales.shape = {2, 66, 6};
    expect_cpu_bytes(view, PackedFor::fp8, "a part of rows");
    view.values.data = static_cast<std::uint8_t*>(view.values.data) + 3;
    view.scales.data = static_cast<std::uint8_t*>(view.scales.data) + 1;
    expect_cpu_bytes(view, PackedFor::fp8, "bytes that no vector may load");
    std::vector<std::uint8_t> turned(2 * 6 * 66);
    for (std::size_t i = 0; i < turned.size(); ++i) turned[i] = static_cast<std::uint8_t>(115 + i % 9);
    view.scales.data = turned.data();
    view.scales.strides = {6 * 66, 1, 66};
    expect_cpu_bytes(view, PackedFor::bf16, "scales along n");
}

}  // namespace
}  // namespace tilewright::tests
