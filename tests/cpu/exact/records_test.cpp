// The recorded chains of an H200 through the vectorised kernels, and as GEMMs through the public API.
#include "cpu/exact/records.h"

#include "cpu/exact/decode.h"
#include "cpu/exact/levels.h"
#include "problem/geometry.h"

#include <tilewright/tilewright.h>

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

namespace tilewright::tests {
namespace {

using namespace cpu;

Tensor values(const std::vector<std::byte>& memory, Format format, std::int64_t rows, std::int64_t k) {
    return row_major(memory.data(), format, {rows, k});
}

/// The problem D = A B of a record with unit scales.
class RecordProblem {
public:
    explicit RecordProblem(const MmaRecord& record) : d(MmaRecord::rows * MmaRecord::columns) {
        const bool fp8 = record.a_format != Format::bf16;
        problem.a = operand(record.a, record.a_format, MmaRecord::rows, record.products(), fp8);
        problem.b = operand(record.b, record.b_format, MmaRecord::columns, record.products(), fp8);
        problem.d = row_major(d.data(), Format::f32, {MmaRecord::rows, MmaRecord::columns});
        problem.arithmetic = Arithmetic::bit_exact;
    }

    std::vector<float> d;
    Problem problem;

private:
    Operand operand(const std::vector<std::byte>& memory, Format format, std::int64_t rows, std::int64_t k, bool fp8) {
        Operand side{.values = values(memory, format, rows, k)};
        if (!fp8) return side;
        side.granularity = Granularity::tensor;
        side.scales = row_major(&one_, Format::f32, {1});
        return side;
    }

    float one_ = 1;
};

/// Runs the record's chain from its own accumulator with the kernels of one level.
std::vector<float> run_kernels(const MmaRecord& record, Isa isa, bool general) {
    RecordProblem call(record);
    const Geometry g = geometry(call.problem);
    const StepKind kind = record.a_format == Format::bf16 ? StepKind::bf16 : StepKind::fp8;
    const ExactKernels& kernels = exact_kernels(isa);
    const auto [narrow, wide] = kind == StepKind::bf16 ? std::pair(kernels.bf16, kernels.bf16_general)
                                                       : std::pair(kernels.fp8, kernels.fp8_general);
    const TileLayout rows = rows_layout(kind, kernels);
    const TileLayout panels = panels_layout(kind, kernels);
    const std::int64_t count = (MmaRecord::columns + panels.panel - 1) / panels.panel;
    std::vector<float> sums(static_cast<std::size_t>(count) * MmaRecord::rows * panels.panel);
    const auto at = [&](int i) -> float& {
        const int column = i % MmaRecord::columns;
        return sums[(column / panels.panel * MmaRecord::rows + i / MmaRecord::columns) * panels.panel +
                    column % panels.panel];
    };
    for (int i = 0; i < std::ssize(record.c); ++i) at(i) = record.c[i];

    DecodedTile a;
    DecodedTile b;
    for (std::int64_t k = 0; k < record.products(); k += tile_k) {
        const std::int64_t k_count = std::min<std::int64_t>(tile_k, record.products() - k);
        const GroupGemm gemm = group_gemms(g).front();
        decode_tile({.operand = g.a, .rows = MmaRecord::rows, .origin = gemm.a, .k = k, .k_count = k_count}, rows,
                    nullptr, a);
        decode_tile({.operand = g.b, .rows = MmaRecord::columns, .origin = gemm.b, .k = k, .k_count = k_count}, panels,
                    nullptr, b);
        EXPECT_TRUE(general || !(a.general || b.general));
        for (std::int64_t step = 0; step < k_count; step += step_products(kind)) {
            for (std::int64_t panel = 0; panel < count; ++panel) {
                const std::int64_t line = panel * tile_k + step;
                (general ? wide : narrow)({.a = a.values.data() + step,
                                           .a_codes = a.codes.data() + step,
                                           .b = b.values.data() + line * panels.panel,
                                           .b_codes = b.codes.data() + line * panels.lanes,
                                           .c = sums.data() + panel * MmaRecord::rows * panels.panel,
                                           .a_stride = tile_k,
                                           .rows = MmaRecord::rows});
            }
        }
    }
    std::vector<float> d(record.c.size());
    for (int i = 0; i < std::ssize(record.c); ++i) d[i] = at(i);
    return d;
}

template <class Results>
::testing::AssertionResult same_bits(const Results& results, const MmaRecord& record) {
    for (std::size_t i = 0; i < record.d.size(); ++i) {
        if (std::bit_cast<std::uint32_t>(results[i]) == std::bit_cast<std::uint32_t>(record.d[i])) continue;
        return ::testing::AssertionFailure() << "output " << i << ": " << results[i] << " for " << record.d[i];
    }
    return ::testing::AssertionSuccess();
}

TEST(MmaRecords, EveryInstructionLevelReturnsTheirBits) {
    const std::vector<MmaRecord> records = read_mma_records();
    ASSERT_EQ(records.size(), 144U);
    for (const Isa isa : instruction_levels()) {
        for (std::size_t i = 0; i < records.size(); ++i) {
            for (const bool general : {false, true}) {
                ASSERT_TRUE(same_bits(run_kernels(records[i], isa, general), records[i]))
                    << "record " << i << ", level " << static_cast<int>(isa) << ", general kernel: " << general;
            }
        }
    }
}

/// The general bf16 kernel takes any operands and accumulators. (fp8 ones never have accumulators beyond their sums.)
TEST(MmaRecords, TheGeneralKernelReturnsTheBitsOfExtremeBf16Records) {
    int count = 0;
    for (const MmaRecord& record : read_extreme_records()) {
        if (record.a_format != Format::bf16) continue;
        for (const Isa isa : instruction_levels()) {
            ASSERT_TRUE(same_bits(run_kernels(record, isa, true), record)) << "level " << static_cast<int>(isa);
        }
        ++count;
    }
    EXPECT_EQ(count, 66);
}

/// Chains from zero of four fp8 steps are promotion blocks; bf16 chains are GEMMs at any length, fp8 ones unpromoted.
TEST(MmaRecords, ChainsFromZeroAreGemmsOfThePublicApi) {
    int promotion_blocks = 0;
    int others = 0;
    for (const MmaRecord& record : read_mma_records()) {
        if (!record.starts_from_zero()) continue;
        RecordProblem call(record);
        const bool fits_promotion = record.a_format == Format::bf16 || record.steps <= 4;
        call.problem.accumulation = fits_promotion ? Accumulation::promoted : Accumulation::unpromoted;
        run(call.problem);
        ASSERT_TRUE(same_bits(call.d, record));
        const bool block = record.a_format != Format::bf16 && record.steps == 4;
        ++(block ? promotion_blocks : others);
    }
    EXPECT_EQ(promotion_blocks, 5 * 4);  // fp8 kinds, distributions
    EXPECT_EQ(others, 72 - 5 * 4);
}

}  // namespace
}  // namespace tilewright::tests
