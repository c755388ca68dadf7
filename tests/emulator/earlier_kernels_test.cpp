// A kernel that starts while the kernels ahead of it run, and is told that its weights are ready. It may read weights
// and sizes of groups at once. Tokens and D belong to the others until these have ended.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/changed_data.h"
#include "emulator/kernel_case.h"
#include "emulator/row_call.h"

namespace tilewright::tests {
namespace {

using emulator::Timing;

/// The kernels ahead of the tested one: tokens and their scales are NaN until they end.
class EarlierKernels {
public:
    explicit EarlierKernels(check::Case& test) : test_(test) {
        for (const Tensor* tensor : {&test.problem().a.values, &test.problem().a.scales}) {
            if (!tensor->given()) continue;
            auto* const first = static_cast<std::byte*>(tensor->data);
            const std::int64_t bytes = (last_element(*tensor) + 1) * bits(tensor->format) / 8;
            written_.emplace(first, std::vector(first, first + bytes));
        }
    }

    void run(bool ended) {
        for (const auto& [first, bytes] : written_) {
            if (ended) {
                std::memcpy(first, bytes.data(), bytes.size());
            } else {
                std::memset(first, 0xFF, bytes.size());
            }
        }
        if (ended) {
            ++ends_;
            wrote_ = wrote_ || test_.output() != before_;
        } else {
            before_ = test_.output();
        }
    }

    /// An access of the tested kernel that is too early, or a wait that is missing.
    std::string mistake() const {
        if (ends_ == 0) return "the kernel did not wait";
        return wrote_ ? "the kernel wrote D while earlier kernels ran" : "";
    }

private:
    check::Case& test_;
    std::map<std::byte*, std::vector<std::byte>> written_;
    std::vector<std::byte> before_;
    int ends_ = 0;
    bool wrote_ = false;
};

struct Tried {
    std::string_view kernel;
    std::vector<std::string_view> calls;
};

constexpr std::string_view rows_anywhere = "offsets groups=3 group_sizes=40,0,9 m=49 n=2*columns k=256";
constexpr std::string_view longer_than_the_ring = "masked groups=2 group_sizes=17,30 m=32 n=columns k=1152";
constexpr std::string_view no_rows = "offsets groups=2 group_sizes=0,0 m=5 n=columns k=128";

void expect_waits(const RowKernel& of, std::string_view call) {
    const check::CaseSpec spec = spec_of(of.row, call);
    for (const Timing timing : {Timing::early, Timing::late}) {
        check::Case test(spec);
        EarlierKernels earlier(test);
        const Conditions run{.sms = of.kernel.tile.cluster.k_slices * 3,
                             .tma = timing,
                             .wgmma = timing,
                             .seed = 3,
                             .earlier = [&](bool ended) { earlier.run(ended); }};
        EXPECT_EQ(difference(of.kernel, test, run), "") << describe(of.kernel, spec, run);
        EXPECT_EQ(earlier.mistake(), "") << describe(of.kernel, spec, run);
    }
}

/// Each way of operands and scales to the tensor core.
TEST(EarlierKernels, MayStillWriteTokensWhileWeightsAreLoaded) {
    const std::vector<std::string_view> all{rows_anywhere, longer_than_the_ring, no_rows};
    const std::vector<Tried> list{
        {"1x128:128x128 m_grouped | 128x48x128 stages=4 | bf16", {longer_than_the_ring}},  // TMA loads A's scales
        {"1x128:128x128 m_grouped | 128x48x128 stages=4 | any", all},
        {"1x128:1x128 m_grouped | 64x32x128 stages=6 warpgroups=1 | bf16_copies", all},
        {"1x128:128x128 m_grouped | 64x72x128 stages=4 warpgroups=1 swap | bf16_copies", all},
        {"row:row m_grouped | 128x16x128 stages=3 swap split=2 | any", all},
        {"1x128:128x128 nn m_grouped | 256x128x128 stages=3 swap | bf16", {longer_than_the_ring}},
        {"row:mxfp4 m_grouped packed | 128x32x128 stages=3 swap | any", all},
        {"bf16:mxfp4 m_grouped packed | 256x16x128 stages=2 warpgroups=4 swap | any", all}};
    for (const Tried& tried : list) {
        for (const RowKernel& of : emulated(std::vector{tried.kernel})) {
            for (const std::string_view call : tried.calls) expect_waits(of, call);
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
