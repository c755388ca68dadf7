#include "measure/activity.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <array>
#include <cstring>

#include "measure/sequence.h"
#include "measure/timing.h"

namespace tilewright::measure {
namespace {

constexpr std::size_t record_bytes = 184;  // more than the prefix, as CUPTI's own

/// What cuptiActivityGetNextRecord does with a buffer: CUPTI_ERROR_MAX_LIMIT_REACHED (12) at its end.
int next_record(std::uint8_t* buffer, std::size_t bytes, void** record) {
    auto* at = *record == nullptr ? buffer : static_cast<std::uint8_t*>(*record) + record_bytes;
    if (at + record_bytes > buffer + bytes) return 12;
    *record = at;
    return 0;
}

void put(std::uint8_t* at, std::uint32_t kind, std::uint64_t start, std::uint64_t end) {
    std::memset(at, 0xEE, record_bytes);
    std::memcpy(at, &kind, sizeof(kind));
    std::memcpy(at + 16, &start, sizeof(start));
    std::memcpy(at + 24, &end, sizeof(end));
}

TEST(Activity, KernelsAndFillsAreReadOthersLeftOut) {
    std::array<std::uint8_t, 3 * record_bytes> buffer{};
    put(buffer.data(), 10, 100, 150);
    put(buffer.data() + record_bytes, 1, 200, 900);  // a copy
    put(buffer.data() + 2 * record_bytes, 2, 300, 310);
    const std::vector<Activity> found = read_records(buffer.data(), buffer.size(), next_record);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].start, 100U);
    EXPECT_EQ(found[0].end, 150U);
    EXPECT_EQ(found[1].end, 310U);
    EXPECT_TRUE(read_records(buffer.data(), 0, next_record).empty());
}

TEST(Activity, OfACallOnlyItsOwnKernelsCount) {
    const std::array<Activity, 5> ran{{{0, 1000}, {2000, 9000}, {10000, 10300}, {10400, 10450}, {11000, 12000}}};
    EXPECT_NEAR(call_seconds(ran, 2, 1), 350e-9, 1e-15);
    EXPECT_NEAR(call_seconds(ran, 0, 4), 1000e-9, 1e-15);
    EXPECT_THROW(call_seconds(ran, 3, 2), Error);
}

TEST(Activity, AChainLastsFromItsFirstStartToItsLastEnd) {
    const std::array<Activity, 5> ran{{{0, 1000}, {1000, 1400}, {1300, 2600}, {1500, 2200}, {2300, 2500}}};
    EXPECT_NEAR(sequence_seconds(ran, 1, 4), 400e-9, 1e-15);  // the second kernel ends last
    EXPECT_NEAR(sequence_seconds(ran, 2, 1), 1300e-9, 1e-15);
    EXPECT_THROW(sequence_seconds(ran, 2, 4), Error);
}

}  // namespace
}  // namespace tilewright::measure
