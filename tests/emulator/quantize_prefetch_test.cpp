// The memory that the quantizers' kernels prefetch into L2 while they compute.
#include "emulator/emulator.h"
#include "emulator/other_kernels.h"
#include "emulator/quantize_case.h"

#include <gtest/gtest.h>

#include <set>

namespace tilewright::tests {
namespace {

/// The lines of a matrix in the order of blocks, features fastest. Excluded are the first strips of 128 rows, and the
/// first columns of the next strip.
void add_lines(const Tensor& matrix, std::int64_t strip_before, std::int64_t columns_before,
               std::set<const void*>& lines) {
    const std::int64_t numbers = hopper::prefetched_bytes * 8 / bits(matrix.format);
    for (std::int64_t row = strip_before * 128; row < matrix.shape[0]; ++row) {
        const bool first = row < (strip_before + 1) * 128;
        for (std::int64_t column = first ? columns_before : 0; column < matrix.shape[1]; column += numbers) {
            lines.insert(static_cast<const char*>(matrix.data) +
                         (row * matrix.strides[0] + column) * bits(matrix.format) / 8);
        }
    }
}

/// One group of tokens with 272 features, three tiles of them, to 1x128 rows and folded columns of squares.
struct FoldedCall {
    explicit FoldedCall(std::int32_t tokens)
        : c{.tokens = tokens,
            .features = 272,
            .ends = {tokens},
            .rows = blocks,
            .columns = Granularity::block_128x128,
            .folds = true},
          call(c),
          rows(output(c, false)),
          columns(output(c, true)),
          launch(launch::lower(call.source, call.operand(c, rows.get(), false), call.operand(c, columns.get(), true),
                               false)
                     .back()) {}

    TokenCase c;
    TokenCall call;
    decltype(output(TokenCase{}, false)) rows, columns;
    launch::OtherLaunch launch;
};

/// A block asks for the tile that is 128 tokens and `later` features after its own. All tiles except those of the first
/// blocks are asked for, and nothing else.
TEST(QuantizePrefetch, LaterTilesAreAskedFor) {
    constexpr int later = 128;
    const FoldedCall folded(400);
    launch::OtherLaunch launch = folded.launch;
    auto& call = std::get<launch::CallOf<launch::Quantize>>(launch.call);
    call.arguments.later_tokens = 128;
    call.arguments.later_features = later;
    emulator::Counts counts;
    run_on_emulator(launch, 0, &counts);
    std::set<const void*> expected;
    add_lines(folded.call.x.tensor(), 1, later, expected);
    EXPECT_EQ(counts.prefetched, expected);
}

TEST(QuantizePrefetch, TheLaterTileIsOfTheBlockThatStartsWhenThisOneEnds) {
    const FoldedCall folded(130);
    const auto& [kernel, arguments] = folded.launch.of<launch::Quantize>();
    EXPECT_EQ(kernel.spec.grouped, true);
    EXPECT_EQ(arguments.later_tokens / 128 * 3 + arguments.later_features / 128, 2 * 132);
    EXPECT_LT(arguments.later_features, 3 * 128);
}

}  // namespace
}  // namespace tilewright::tests
