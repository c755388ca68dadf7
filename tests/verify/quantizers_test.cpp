// The quantizers' rows of `tilewright verify`: the CPU's results pass, and one code, one scale or one zero that is
// wrong is found.
#include "verify/quantizers.h"
#include "sample.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "verify/quantizer_case.h"

namespace tilewright::verify {
namespace {

TEST(VerifyQuantizers, TheCpuPasses) {
    tests::Sample sample(5);
    for (const bool quick : {false, true}) {
        const VerifySettings settings{.quick = quick};
        for (const Quantizer& quantizer : all_quantizers()) {
            if (!sample.takes_next()) continue;
            std::int64_t progress = 0;
            const RowResult row = run_quantizer(quantizer, settings, [&] { ++progress; });
            EXPECT_EQ(row.failed, 0) << quantizer.name << ": " << row.failures.front();
            EXPECT_EQ(row.cases, count_cases(settings));
            EXPECT_EQ(progress, row.cases);
            EXPECT_GT(row.ratio, 0.5) << quantizer.name << " judges nothing";
            EXPECT_LE(row.ratio, 1) << quantizer.name;
        }
    }
}

/// What `judge` says of the CPU's result after a mistake in it.
std::string failure_after(const Quantizer& quantizer, const std::function<void(const Operand&)>& mistake) {
    const QuantizerCase test({.quantizer = quantizer});
    const TokenOperand none{};
    quantize_tokens(test.source(), quantizer.columns ? none : test.out(), quantizer.columns ? test.out() : none);
    EXPECT_EQ(test.judge().failure, "") << quantizer.name;
    mistake(test.out().operand);
    return test.judge().failure;
}

std::uint8_t* codes(const Operand& operand) { return static_cast<std::uint8_t*>(operand.values.data); }

TEST(VerifyQuantizers, FindAMistake) {
    for (const Quantizer& quantizer : all_quantizers()) {
        SCOPED_TRACE(quantizer.name);
        const auto next_code = [](const Operand& out) {
            std::int64_t at = 0;
            while ((codes(out)[at] & 0x7F) < 0x20 || (codes(out)[at] & 0x7F) > 0x60) ++at;  // neither small nor large
            codes(out)[at] += 2;
        };
        EXPECT_NE(failure_after(quantizer, next_code).find(" for "), std::string::npos);
        const auto larger_scale = [](const Operand& out) { *static_cast<float*>(out.scales.data) *= 1.001F; };
        const std::string of_scale = failure_after(quantizer, larger_scale);
        const bool of_empty_group = quantizer.columns && quantizer.granularity == Granularity::row;
        EXPECT_EQ(of_scale.find("the scale is") == std::string::npos, of_empty_group) << of_scale;
        if (!quantizer.columns) continue;
        const auto gap = [](const Operand& out) { codes(out)[5] = 1; };  // the group of five tokens
        EXPECT_NE(failure_after(quantizer, gap).find("behind its group"), std::string::npos);
    }
}

TEST(VerifyQuantizers, AreAllThatATrainingStepHas) {
    std::vector<std::string_view> names;
    for (const Quantizer& quantizer : all_quantizers()) names.push_back(quantizer.name);
    EXPECT_EQ(names, (std::vector<std::string_view>{"tensor", "row", "column", "1x128", "128x1", "128x128", "folded",
                                                    "swiglu"}));
}

}  // namespace
}  // namespace tilewright::verify
