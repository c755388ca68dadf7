// The kernels between ranks on the emulator: each rank is a thread with a separate machine, and their memory is
// common. Every round has the results of the same steps on the CPU, whatever rank is late.
#include "emulator/other_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "api/rank_layout.h"
#include "check/random.h"
#include "emulator/emulator.h"
#include "launch/moe.h"
#include "moe/exchange.h"
#include "sample.h"

namespace tilewright::tests {
namespace {

using formats::CallState;
using formats::RankReport;
using moe::Collects;

constexpr std::int64_t hidden = 144;
constexpr std::int64_t each = 3;  // experts of a rank, of which one is shared
constexpr std::int64_t given = 4;
constexpr std::int64_t choices = given + 1;
constexpr std::int64_t room = 6;
constexpr std::int64_t wait_limit = 10'000'000'000;  // nanoseconds

/// How a rank runs a step: on the CPU, or on the emulator.
struct OnCpu {
    template <class... Steps>
    void operator()(const Steps&... steps) const {
        const auto one = [](const auto& step) {
            if constexpr (requires { moe::run_on_cpu(step, ConversionOptions{}); }) {
                moe::run_on_cpu(step, {.threads = 1});
            } else {
                moe::run_on_cpu(step);
            }
        };
        (one(steps), ...);
    }
};
/// `joins`: steps that one kernel can do are one launch.
struct OnEmulator {
    std::uint64_t seed = 0;
    bool joins = false;

    template <class... Steps>
    void operator()(const Steps&... steps) const {
        if constexpr (sizeof...(steps) > 1) {
            if (joins) return run(launch::lower(steps...));
        }
        (run(launch::lower(steps)), ...);
    }

private:
    /// In clusters of 8 blocks, because each thread of the emulator takes two of the 65,530 mappings of a process.
    void run(const std::vector<launch::OtherLaunch>& launches) const {
        for (const launch::OtherLaunch& started : launches) {
            const bool is_large = started.cluster > hopper::portable_cluster;
            run_on_emulator(is_large ? launch::in_portable_cluster(started) : started, seed);
        }
    }
};

/// Numbers in separate memory, at a multiple of 128.
class Numbers {
public:
    Numbers(Format format, const Dims& shape)
        : bytes_(static_cast<std::size_t>(row_major_bytes(format, shape)) + 256, std::byte{0xCD}) {
        void* first = bytes_.data();
        std::size_t left = bytes_.size();
        tensor_ = row_major(std::align(128, bytes_.size() - 256, first, left), format, shape);
    }
    const Tensor& tensor() const { return tensor_; }
    bool operator==(const Numbers& other) const {
        const auto size = static_cast<std::size_t>(row_major_bytes(tensor_.format, tensor_.shape));
        return std::memcmp(tensor_.data, other.tensor_.data, size) == 0;
    }

private:
    std::vector<std::byte> bytes_;
    Tensor tensor_;
};

/// Small whole numbers, exact in bf16.
void fill_bf16(const Tensor& tensor, std::uint64_t seed) {
    auto* const to = static_cast<std::uint16_t*>(tensor.data);
    for (std::int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i) {
        const float number = static_cast<float>(check::random_bits(seed, i) % 256) - 128;
        to[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
    }
}

/// The numbers that a rank has in a round, and those that it gets.
struct Results {
    Numbers rows{Format::i32, {1, 1}}, copies = rows, out = rows, sums = rows;
    /// The first that differs; empty if none does.
    /// `joined`: kernels kept to themselves what other kernels would read.
    std::string difference(const Results& other, bool joined = false) const {
        if (!(copies == other.copies)) return "rows of tokens";
        if (!joined && !(rows == other.rows)) return "places of rows";
        if (!joined && !(sums == other.sums)) return "places of sums";
        return out == other.out ? "" : "results";
    }
};

/// The ranks of a test. Their memory is laid out for rows, with room for sums after it.
class Group {
public:
    /// Epochs wrap around after some rounds.
    static constexpr unsigned first_epoch = 0xFFFF'FFFAU;

    explicit Group(int ranks, bool quantized = false, Format sums = Format::bf16)
        : ranks_(ranks), quantized_(quantized), sums_(sums), sizes_(options(quantized), ranks, Exchange::addresses) {
        const std::int64_t bytes = RankLayout(sizes_, nullptr, {}).bytes;
        for (int rank = 0; rank < ranks; ++rank) {
            memory_.push_back(std::make_unique<Numbers>(Format::ue8m0, Dims{bytes + sums_bytes()}));
            std::memset(data(rank), 0, sizeof(formats::RankCounters));
            layouts_.emplace_back(sizes_, data(rank), DeviceId{});
            layouts_.back().counters->epoch = first_epoch;
            for (unsigned long long& word : layouts_.back().counters->words) {
                word = formats::RankWord::of(first_epoch, CallState::right).bits;
            }
        }
    }

    int ranks() const { return ranks_; }
    RankReport report(int rank) const { return reports_[rank]; }
    const RankLayout& layout(int rank) const { return layouts_[static_cast<std::size_t>(rank)]; }

    moe::RankMemory memory_of(int rank, std::int64_t rows) {
        auto& shifts = shifts_[rank];
        shifts.clear();
        for (int other = 0; other < ranks_; ++other) shifts.push_back(data(other) - data(rank));
        return {.rank = rank, .size = ranks_, .shifts = shifts.data(), .room = rows};
    }

    static Tensor own_choices(int rank, Tensor all) {
        all.data = static_cast<std::byte*>(all.data) + rank * room * choices * 4;
        all.shape[0] = room;
        return all;
    }

    moe::MeetStep meet_step(int rank, int phase, Collects what, const Tensor& out) {
        const RankLayout& own = layout(rank);
        return {.memory = memory_of(rank, room),
                .counters = own.counters,
                .phase = phase,
                .nanoseconds = wait_limit,
                .report = &reports_[rank],
                .collects = what,
                .experts = static_cast<int>(each),
                .ids = own_choices(rank, own.ids),
                .weights = own_choices(rank, own.weights),
                .out = out,
                .rows = own.rows,
                .row_count = sizes_.all_rows()};
    }

    /// `pause` is called between the steps.
    template <class Run>
    Results play(int rank, std::uint64_t round, Run run, const std::function<void()>& pause) {
        const RankLayout& own = layout(rank);
        const std::uint64_t seed = round * 100 + static_cast<std::uint64_t>(rank);
        const auto tokens = static_cast<std::int64_t>(check::random_bits(seed, 1) % (room + 1));
        announce(rank, seed, tokens, run);
        Results got{.rows = Numbers(Format::i32, {tokens, choices}),
                    .copies = Numbers(sizes_.tokens.values, {sizes_.all_rows(), hidden}),
                    .out = Numbers(Format::bf16, {tokens, hidden}),
                    .sums = Numbers(Format::i32, {tokens, ranks_})};
        std::memset(got.copies.tensor().data, 0,
                    static_cast<std::size_t>(row_major_bytes(sizes_.tokens.values, got.copies.tensor().shape)));
        pause();
        const moe::MeetStep first = meet_step(rank, 0, Collects::nothing, {});
        compute(rank, seed, first, got, run);
        pause();
        moe::MeetStep second = meet_step(rank, 1, round % 2 == 0 ? Collects::rows : Collects::sums,
                                         round % 2 == 0 ? got.rows.tensor() : got.sums.tensor());
        moe::CombineStep sum{
            .y = round % 2 == 0 ? own.y : sums_of(rank), .places = second.out, .out = got.out.tensor()};
        if (round % 2 == 0) sum.y_ranks = memory_of(rank, sizes_.all_rows());
        run(second, sum);
        return got;
    }

private:
    static ExpertGroupOptions options(bool quantized) {
        ExpertGroupOptions made{.max_tokens = room,
                                .hidden = hidden,
                                .experts = each - 1,
                                .choices = static_cast<int>(given),
                                .shared = 1,
                                .combine = RankSums::rows,
                                .per_rank = each};
        if (!quantized) made.activations = {Format::bf16, Granularity::none};
        return made;
    }
    std::byte* data(int rank) const {
        return static_cast<std::byte*>(memory_[static_cast<std::size_t>(rank)]->tensor().data);
    }
    std::int64_t sums_bytes() const { return ranks_ * own_sums_bytes(); }
    std::int64_t own_sums_bytes() const { return room * hidden * bits(sums_) / 8; }
    Tensor sums_of(int rank) const {
        const std::int64_t at = RankLayout(sizes_, nullptr, {}).bytes;
        return row_major(static_cast<void*>(data(rank) + at), sums_, {ranks_ * room, hidden});
    }

    template <class Run>
    void announce(int rank, std::uint64_t seed, std::int64_t tokens, Run run) {
        const RankLayout& own = layout(rank);
        std::vector<std::int64_t> ids(static_cast<std::size_t>(room * given));
        std::vector<std::uint16_t> weights(ids.size());
        const std::int64_t numbers = ranks_ * (each - 1);
        for (std::size_t i = 0; i < ids.size(); ++i) {  // a few name no expert
            const std::uint64_t random = check::random_bits(seed, 10 + static_cast<std::int64_t>(i));
            ids[i] = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(numbers + 2)) - 1;
            weights[i] = static_cast<std::uint16_t>(0x3F80 + i);
        }
        std::vector<std::int32_t> places(static_cast<std::size_t>(2 * numbers), -1);  // two copies of number 0
        for (std::int64_t number = 0; number < numbers; ++number) {
            places[static_cast<std::size_t>(2 * number)] =
                static_cast<std::int32_t>(number / (each - 1) * each + number % (each - 1));
        }
        places[1] = static_cast<std::int32_t>(ranks_ * each - 2);
        Routing routing{.experts = row_major(ids.data(), Format::i64, {tokens, given}),
                        .weights = row_major(weights.data(), Format::bf16, {tokens, given}),
                        .shared = 1};
        Numbers x(sizes_.tokens.values, {room, hidden}), scales(Format::f32, {room, 2});
        moe::PermuteStep values{.out = own.tokens};
        if (quantized_) {
            auto* const codes = static_cast<std::uint8_t*>(x.tensor().data);
            for (std::int64_t i = 0; i < tokens * hidden; ++i)
                codes[i] = static_cast<std::uint8_t>(check::random_bits(seed, i) % 120);
            auto* const factors = static_cast<float*>(scales.tensor().data);
            for (std::int64_t i = 0; i < tokens * 2; ++i) factors[i] = static_cast<float>(i + rank);
            values.quantized = {.values = x.tensor(), .granularity = own.tokens.granularity, .scales = scales.tensor()};
        } else {
            fill_bf16(x.tensor(), seed);
            values.x = x.tensor();
        }
        for (Tensor* tensor :
             {&values.x, &values.quantized.values, &values.quantized.scales, &values.out.values, &values.out.scales}) {
            if (tensor->given()) tensor->shape[0] = tokens;
        }
        const moe::AnnounceStep announced{
            .routing = routing,
            .places = seed % 2 == 0 ? row_major(places.data(), Format::i32, {numbers, 2}) : Tensor{},
            .rank = rank,
            .numbers = numbers,
            .experts = static_cast<int>(each),
            .shared = 1,
            .ids = own_choices(rank, own.ids),
            .weights = own_choices(rank, own.weights),
            .to = memory_of(rank, room),
            .rows = own.rows,
            .counters = own.counters};
        if (tokens > 0) {
            run(values, announced);
        } else {
            run(announced);
        }
    }

    /// Tokens come to this rank's rows, and results leave it. Products are numbers of the round.
    template <class Run>
    void compute(int rank, std::uint64_t seed, const moe::MeetStep& meet, Results& got, Run run) {
        const RankLayout& own = layout(rank);
        Numbers places(Format::i32, {ranks_ * room, choices});
        const moe::RouteStep route{.routing = {.experts = own.ids, .weights = own.weights},
                                   .first = rank * each,
                                   .experts = each,
                                   .out = {.rows = places.tensor()},
                                   .owners = memory_of(rank, room),
                                   .owner_rows = own.rows};
        Operand from = own.tokens;
        from.values.shape[0] = ranks_ * room;
        Numbers scales(Format::f32, {sizes_.all_rows(), 2});
        moe::PermuteStep permute{.places = places.tensor(),
                                 .ranks = memory_of(rank, room),
                                 .out = {.values = got.copies.tensor(), .granularity = Granularity::none}};
        if (quantized_) {
            from.scales.shape[0] = ranks_ * room;
            permute.quantized = from;
            permute.out.granularity = from.granularity;
            permute.out.scales = scales.tensor();
        } else {
            permute.x = from.values;
        }
        run(meet, route, permute);
        fill_bf16(own.y, seed + 7);
        moe::CombineStep partial{.y = own.y,
                                 .places = places.tensor(),
                                 .weights = own.weights,
                                 .out = sums_of(rank),
                                 .out_ranks = memory_of(rank, room),
                                 .skips = true};
        partial.out.data = static_cast<std::byte*>(partial.out.data) + rank * own_sums_bytes();
        run(partial);
    }

    int ranks_;
    bool quantized_;
    Format sums_;
    GroupSizes sizes_;
    std::vector<std::unique_ptr<Numbers>> memory_{};
    std::vector<RankLayout> layouts_{};
    std::vector<std::int64_t> shifts_[formats::most_ranks_at_barrier];
    RankReport reports_[formats::most_ranks_at_barrier]{};
};

/// Rounds of all ranks, each in a thread. `late` sleeps now and then.
template <class Run>
std::vector<std::vector<Results>> rounds(Group& group, int count, int late, Run run) {
    std::vector<std::vector<Results>> all(static_cast<std::size_t>(group.ranks()));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < group.ranks(); ++rank) {
        threads.emplace_back([&, rank] {
            int step = 0;
            const auto pause = [&] {
                if (rank == late && ++step % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            };
            for (int round = 0; round < count; ++round) {
                all[static_cast<std::size_t>(rank)].push_back(
                    group.play(rank, static_cast<std::uint64_t>(round), run, pause));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return all;
}

struct RoundsCase {
    int ranks = 1;
    bool quantized = false;
    Format sums = Format::bf16;
    int count = 6;
    int late = -1;  // a rank
    OnEmulator how{};
};

void expect_cpu_results(const RoundsCase& c) {
    SCOPED_TRACE(std::to_string(c.ranks) + (c.quantized ? " ranks, quantized" : " ranks") +
                 (c.how.joins ? ", joined" : ""));
    Group on_cpu(c.ranks, c.quantized, c.sums), on_emulator(c.ranks, c.quantized, c.sums);
    const auto wanted = rounds(on_cpu, c.count, -1, OnCpu{}), found = rounds(on_emulator, c.count, c.late, c.how);
    for (int rank = 0; rank < c.ranks; ++rank) {
        for (std::size_t round = 0; round < wanted[static_cast<std::size_t>(rank)].size(); ++round) {
            const auto index = static_cast<std::size_t>(rank);
            EXPECT_EQ(found[index][round].difference(wanted[index][round], c.how.joins), "")
                << "rank " << rank << ", round " << round;
        }
        EXPECT_EQ(on_emulator.report(rank).bits, 0U);
    }
}

TEST(Exchange, EveryRoundHasTheResultsOfTheCpu) {
    Sample sample(7);
    for (const bool joins : {false, true}) {
        for (const int ranks : {1, 2, 3}) {
            for (const bool quantized : {false, true}) {
                if (!sample.takes_next()) continue;
                const OnEmulator how{.seed = quantized ? 5U : 0U, .joins = joins};
                expect_cpu_results({.ranks = ranks, .quantized = quantized, .late = ranks - 1, .how = how});
            }
        }
        for (const int ranks : {1, 2, 3, 4}) {
            if (!sample.takes_next()) continue;
            const OnEmulator how{.seed = static_cast<std::uint64_t>(ranks), .joins = joins};
            expect_cpu_results({.ranks = ranks, .sums = Format::f32, .count = 4, .late = 0, .how = how});
        }
    }
    expect_cpu_results({.ranks = 2, .count = 20, .late = 1, .how = {.seed = 3, .joins = true}});
}

/// Sums of other bits: each rank's is not rounded.
TEST(Exchange, SumsInF32AreNotThoseInBf16) {
    Group rounded(2), exact(2, false, Format::f32);
    const auto in_bf16 = rounds(rounded, 2, -1, OnCpu{}), in_f32 = rounds(exact, 2, -1, OnCpu{});
    EXPECT_EQ(in_f32[0][1].difference(in_bf16[0][1]), "results");
}

TEST(Exchange, ARankThatIsGoneEndsTheWait) {
    Group group(3);
    const RankLayout& own = group.layout(1);
    moe::MeetStep step = group.meet_step(1, 0, Collects::nothing, {});
    step.nanoseconds = 20'000'000;
    own.counters->epoch = 8;
    own.counters->words[2] = formats::RankWord::of(7, CallState::right).bits;
    own.counters->words[0] = formats::RankWord::of(8, CallState::right).bits;  // rank 2 does not come
    OnEmulator{}(step);
    const RankReport report = group.report(1);
    EXPECT_EQ(report.kind(), RankReport::Kind::lost);
    EXPECT_EQ(report.rank(), 2);
    EXPECT_EQ(report.phase(), 0);
    EXPECT_EQ(report.epoch(), 8U);
    EXPECT_EQ(own.counters->is_lost, 1U);
    step.nanoseconds = wait_limit;  // no rank waits again
    const auto begin = std::chrono::steady_clock::now();
    OnEmulator{}(step);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Exchange, AWrongCallIsReported) {
    Group group(2);
    const RankLayout& own = group.layout(0);
    own.counters->words[1] = formats::RankWord::of(Group::first_epoch + 1, CallState::wrong).bits;
    moe::MeetStep step = group.meet_step(0, 1, Collects::nothing, {});
    OnEmulator{}(step);
    EXPECT_EQ(group.report(0).kind(), RankReport::Kind::wrong);
    EXPECT_EQ(group.report(0).rank(), 1);
}

TEST(Exchange, AWordCountsForItsCallOnly) {
    using formats::RankWord;
    const RankWord wrong = RankWord::of(5, CallState::wrong), first = RankWord::of(1, CallState::right);
    EXPECT_TRUE(wrong.is_wrong_in(4));  // A rank that is ahead has passed a barrier whose word it has overwritten.
    EXPECT_TRUE(wrong.is_wrong_in(5));
    EXPECT_FALSE(wrong.is_wrong_in(3));
    EXPECT_FALSE(RankWord::of(4, CallState::right).is_wrong_in(4));
    EXPECT_TRUE(first.has_come_to(0xFFFF'FFFFU));  // The epoch wraps around after 2^31 calls.
    EXPECT_TRUE(first.has_come_to(1));
    EXPECT_FALSE(first.has_come_to(2));
    EXPECT_FALSE(RankWord::of(0xFFFF'FFFFU, CallState::right).has_come_to(0));
}

}  // namespace
}  // namespace tilewright::tests
