// The exchanges of training, by threads: what comes where, and the errors.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/peer_exchange.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "verify/shared_layer.h"

namespace tilewright {
namespace {

using verify::by_ranks;
using Bytes = std::vector<unsigned char>;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Every rank can make what another one gives in a turn.
Bytes given(int rank, std::int64_t turn, std::size_t part, std::size_t bytes) {
    std::mt19937 random(static_cast<unsigned>(rank * 1'000'003 + turn * 1'009 + static_cast<std::int64_t>(part)));
    Bytes made(bytes);
    for (unsigned char& byte : made) byte = static_cast<unsigned char>(random());
    return made;
}

constexpr std::array<std::size_t, 2> sizes{1000, 77};  // of the parts, in bytes

void gather(PeerExchange& exchange, int rank, int ranks, std::int64_t turn) {
    std::vector<Bytes> own, all;
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        own.push_back(given(rank, turn, part, sizes.at(part)));
        all.emplace_back(sizes.at(part) * static_cast<std::size_t>(ranks));
    }
    exchange.gather({{own[0].data(), sizes[0], all[0].data()}, {own[1].data(), sizes[1], all[1].data()}});
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        Bytes expected;
        for (int other = 0; other < ranks; ++other) {
            const Bytes theirs = given(other, turn, part, sizes.at(part));
            expected.insert(expected.end(), theirs.begin(), theirs.end());
        }
        EXPECT_EQ(all[part], expected) << "rank " << rank << ", turn " << turn << ", part " << part;
    }
}

void hand_back(PeerExchange& exchange, int rank, int ranks, std::int64_t turn) {
    std::vector<Bytes> own;
    std::vector<SentBytes> sent;
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        own.push_back(given(rank, turn, part + 2, sizes.at(part) * static_cast<std::size_t>(ranks)));
        sent.push_back({.from = own.back().data(), .bytes = static_cast<std::int64_t>(sizes.at(part))});
    }
    const std::vector<const void*> received = exchange.hand_back(sent);
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        const std::size_t bytes = sizes.at(part);
        for (int other = 0; other < ranks; ++other) {
            const Bytes theirs = given(other, turn, part + 2, bytes * static_cast<std::size_t>(ranks));
            EXPECT_EQ(
                std::memcmp(static_cast<const unsigned char*>(received[part]) + static_cast<std::size_t>(other) * bytes,
                            theirs.data() + static_cast<std::size_t>(rank) * bytes, bytes),
                0)
                << "rank " << rank << " from " << other << ", turn " << turn << ", part " << part;
        }
    }
}

constexpr PeerExchangeSizes enough{.gathered = 1200, .handed_back = 1200};

TEST(PeerExchange, BytesOfAllRanksComeToTheirPlaces) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
        const std::vector<std::string> errors = by_ranks(ranks, [&](std::unique_ptr<Ranks> own) {
            const int rank = own->rank();
            PeerExchange exchange(std::move(own), enough);
            for (std::int64_t turn = 0; turn < 20; ++turn) {
                // One rank is late, another one each time: no rank writes what it still reads.
                if (turn % ranks == rank) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                gather(exchange, rank, ranks, turn);
                hand_back(exchange, rank, ranks, turn);
            }
            EXPECT_FALSE(exchange.lost());
        });
        for (const std::string& error : errors) EXPECT_EQ(error, "");
    }
}

/// A call that fails between its two exchanges makes two of a kind follow each other.
TEST(PeerExchange, TwoOfAKindHaveABarrierBetweenThem) {
    const std::vector<std::string> errors = by_ranks(3, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        PeerExchange exchange(std::move(own), enough);
        for (std::int64_t turn = 0; turn < 20; ++turn) {
            if (turn % 3 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            const auto make = turn / 10 == 0 ? gather : hand_back;
            make(exchange, rank, 3, turn);
        }
        EXPECT_FALSE(exchange.lost());
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(PeerExchange, SizesAreCheckedOnAllRanks) {
    const auto errors = [](auto change) {
        return by_ranks(2, [&](std::unique_ptr<Ranks> own) {
            PeerExchangeSizes own_sizes = enough;
            if (own->rank() == 1) change(own_sizes);
            PeerExchange(std::move(own), own_sizes);
        });
    };
    const std::vector<std::string> differ = errors([](auto& s) { s.gathered = 9; });
    EXPECT_TRUE(has(differ[0], "gathered: got 1200; expected 9, as on rank 1. Pass equal sizes on all ranks."))
        << differ[0];
    EXPECT_TRUE(has(differ[1], "gathered: got 9; expected 1200, as on rank 0.")) << differ[1];
    const std::vector<std::string> none = errors([](auto& s) { s.handed_back = 0; });
    EXPECT_TRUE(has(none[0], "the sizes of rank 1 are wrong; see the error there")) << none[0];
    EXPECT_TRUE(has(none[1], "handed_back: got 0; expected 1 to ")) << none[1];
    const std::vector<std::string> never = errors([](auto& s) { s.seconds = -1; });
    EXPECT_TRUE(has(never[1], "seconds: got -1.000000; expected more than 0")) << never[1];
}

TEST(PeerExchange, MoreBytesThanAgreedAreRefusedAheadOfTheExchange) {
    const std::vector<std::string> errors = by_ranks(2, [&](std::unique_ptr<Ranks> own) {
        const int rank = own->rank();
        PeerExchange exchange(std::move(own), enough);
        Bytes many(4000);
        EXPECT_THROW(exchange.gather({{many.data(), 1900, many.data()}}), Error);
        EXPECT_THROW(exchange.hand_back({{.from = many.data(), .bytes = 1900}}), Error);
        gather(exchange, rank, 2, 0);
        hand_back(exchange, rank, 2, 0);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(PeerExchange, RanksWithoutAddressesSaySo) {
    const std::vector<std::string> errors = by_ranks(2, [&](std::unique_ptr<Ranks> own) {
        const std::shared_ptr<Ranks> inner = std::move(own);
        RankFunctions functions{.rank = inner->rank(), .size = 2};
        functions.share = [inner](const void* mine, void* all, std::int64_t bytes) { inner->share(mine, all, bytes); };
        functions.allocate = [inner](std::int64_t bytes) { return inner->allocate(bytes); };
        functions.all_gather = functions.all_to_all = [](std::int64_t, std::int64_t, std::int64_t, void*) {};
        PeerExchange(ranks_of_functions(std::move(functions)), enough);
    });
    for (const std::string& error : errors) {
        EXPECT_TRUE(has(error, "ranks: got 2 ranks without addresses of each other; expected at most 16 that reach"))
            << error;
    }
}

TEST(PeerExchange, ALostRankEndsTheWaitAndIsNamed) {
    for (const bool in_gather : {true, false}) {
        PeerExchangeSizes short_wait = enough;
        short_wait.seconds = 0.2;
        const std::vector<std::string> errors = by_ranks(3, [&](std::unique_ptr<Ranks> own) {
            const int rank = own->rank();
            PeerExchange exchange(std::move(own), short_wait);
            gather(exchange, rank, 3, 0);
            hand_back(exchange, rank, 3, 0);
            if (rank == 1 && in_gather) return;
            Bytes some(3);
            Bytes all(9);
            exchange.gather({{some.data(), 3, all.data()}});
            if (rank == 1) return;
            exchange.hand_back({{.from = all.data(), .bytes = 3}});
            const std::optional<LostRank> lost = exchange.lost();
            ASSERT_TRUE(lost);
            EXPECT_EQ(lost->rank, 1);
            EXPECT_EQ(lost->turn, 1);
            EXPECT_EQ(lost->in_gather, in_gather);
            exchange.gather({{some.data(), 3, all.data()}});  // no rank waits again
            EXPECT_TRUE(exchange.lost());
        });
        for (const std::string& error : errors) EXPECT_EQ(error, "");
    }
}

}  // namespace
}  // namespace tilewright
