// Ranks of an NCCL communicator, as threads on a fake NCCL and a fake driver. Tested are the bytes that move, the
// addresses that all ranks agree on, and the errors.
#include "ranks/nccl.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <array>
#include <barrier>
#include <cstring>
#include <thread>

#include "cuda/fake_driver.h"
#include "ranks/fake_nccl.h"

namespace tilewright::ranks {
namespace {

using test::FakeDriver;
using test::FakeNccl;

/// `driver()` and `nccl()` then find the fakes: libraries of their names are open.
const cuda::OpenLibrary& fake_driver_file() {
    static const cuda::OpenLibrary opened({TILEWRIGHT_FAKE_DRIVER});
    return opened;
}
const cuda::OpenLibrary& fake_nccl_file() {
    static const cuda::OpenLibrary opened({TILEWRIGHT_FAKE_NCCL});
    return opened;
}

template <class Fake>
Fake& reset(Fake& fake) {
    fake.~Fake();
    return *new (&fake) Fake;
}

template <class Action>
std::string message_of(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

testing::AssertionResult has(const std::string& message, const std::string& part) {
    if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "\"" << part << "\" is not in \"" << message << "\"";
}

/// Ranks of one communicator, each in a thread.
struct Team {
    int size = 4;
    std::vector<Place> places{};  // empty: as they are, in one process
    const Nccl* nccl = nullptr;   // null: this process's
    const cuda::Driver* driver = nullptr;
};

Place place_of(int host, int process) {
    Place place{.process = static_cast<std::uint64_t>(process), .key = 7};
    place.host[0] = static_cast<char>('a' + host);
    return place;
}
std::vector<Place> processes_of_one_host(int count) {
    std::vector<Place> places;
    places.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) places.push_back(place_of(0, i));
    return places;
}

class NcclTest : public testing::Test {
protected:
    NcclTest()
        : driver_(reset(*fake_driver_file().function<FakeDriver*()>("tilewright_fake_driver")())),
          nccl_(reset(*fake_nccl_file().function<FakeNccl*()>("tilewright_fake_nccl")())) {
        driver_.devices = 16;
        set_context(-1);
    }

    void set_context(int device) { fake_driver_file().function<void(int)>("tilewright_fake_make_current")(device); }

    std::vector<void*> communicators(int size) {
        std::vector<void*> made(static_cast<std::size_t>(size));
        fake_nccl_file().function<void(int, int, void**)>("tilewright_fake_communicators")(size, 0, made.data());
        return made;
    }

    /// The messages of all ranks. No rank is destroyed before all have acted.
    std::vector<std::string> run(const Team& team, const std::function<void(Ranks&)>& action) {
        const std::vector<void*> made = communicators(team.size);
        std::vector<std::string> messages(static_cast<std::size_t>(team.size));
        std::barrier all(team.size);
        std::vector<std::thread> threads;
        for (std::size_t rank = 0; rank < messages.size(); ++rank) {
            threads.emplace_back([&, rank] {
                const std::unique_ptr<Ranks> ranks =
                    ranks_of_parts({.nccl = team.nccl == nullptr ? nccl() : *team.nccl,
                                    .driver = team.driver == nullptr ? cuda::driver() : *team.driver,
                                    .communicator = static_cast<Communicator>(made[rank]),
                                    .place = team.places.empty() ? this_place() : team.places[rank]});
                messages[rank] = message_of([&] { action(*ranks); });
                all.arrive_and_wait();
            });
        }
        for (std::thread& thread : threads) thread.join();
        return messages;
    }

    /// The addresses that each rank got, after a piece of 256 bytes, whose first byte is its number.
    std::vector<std::vector<void*>> addresses(const Team& team) {
        std::vector<std::vector<void*>> found(static_cast<std::size_t>(team.size));
        std::barrier all(team.size);
        const auto messages = run(team, [&](Ranks& ranks) {
            static_cast<std::uint8_t*>(ranks.allocate(256))[0] = static_cast<std::uint8_t>(ranks.rank());
            const std::vector<void*> mine = ranks.addresses();
            found[static_cast<std::size_t>(ranks.rank())] = mine;
            for (std::size_t peer = 0; peer < mine.size(); ++peer) {
                EXPECT_EQ(static_cast<std::uint8_t*>(mine[peer])[0], peer);
            }
            all.arrive_and_wait();
            if (mine.empty()) {
                EXPECT_EQ(driver_.imports, 0);
            }
        });
        for (const std::string& message : messages) EXPECT_EQ(message, "no error");
        return found;
    }

    void expect_no_addresses(const Team& team) {
        for (const std::vector<void*>& each : addresses(team)) EXPECT_TRUE(each.empty());
        EXPECT_EQ(driver_.imports, 0);
    }

    /// The message of the rank of a group of one.
    std::string message_of_one(const std::function<void(Ranks&)>& action) { return run({.size = 1}, action)[0]; }

    FakeDriver& driver_;
    FakeNccl& nccl_;
};

std::uint8_t value(int from_rank, int part, std::int64_t i) {
    return static_cast<std::uint8_t>(1 + from_rank * 50 + part * 7 + static_cast<int>(i) % 5);
}

TEST_F(NcclTest, APublicCallFindsLoadedLibraries) {
    const std::vector<void*> made = communicators(3);
    const std::unique_ptr<Ranks> ranks = ranks_of_nccl(made[2]);
    EXPECT_EQ(ranks->rank(), 2);
    EXPECT_EQ(ranks->size(), 3);
    EXPECT_EQ(ranks->device(), (DeviceId{.kind = DeviceId::Kind::cuda, .index = 2}));
    EXPECT_EQ(ranks->engine(), "NCCL 2.28.9");
    EXPECT_TRUE(has(message_of([] { ranks_of_nccl(nullptr); }), "communicator: got null; expected an ncclComm_t"));
}

TEST_F(NcclTest, ShareBringsBytesOfAllToTheHost) {
    for (const std::string& message : run({.size = 3}, [&](Ranks& ranks) {
             const std::array<int, 3> own{ranks.rank(), 7, -ranks.rank()};
             std::array<int, 9> all{};
             ranks.share(own.data(), all.data(), sizeof(own));
             EXPECT_EQ(all, (std::array{0, 7, 0, 1, 7, -1, 2, 7, -2}));
         })) {
        EXPECT_EQ(message, "no error");
    }
    EXPECT_TRUE(has(message_of_one([&](Ranks& ranks) {
                        driver_.failing_call = "cuMemAlloc_v2";
                        int number = 0;
                        ranks.share(&number, &number, sizeof(number));
                    }),
                    "cuMemAlloc failed"));
}

TEST_F(NcclTest, MemoryIsZerosAndIsFreed) {
    const auto messages = run({.size = 2}, [&](Ranks& ranks) {
        const auto* memory = static_cast<std::uint8_t*>(ranks.allocate(4096));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 128, 0U);
        for (int i = 0; i < 4096; ++i) EXPECT_EQ(memory[i], 0);
        EXPECT_TRUE(has(message_of([&] { ranks.allocate(4096); }), "allocate: got a second call; expected one"));
    });
    EXPECT_EQ(messages, std::vector<std::string>(2, "no error"));
    EXPECT_EQ(driver_.allocations, 0);
    EXPECT_EQ(driver_.allocated % (std::size_t{2} << 20), 0U);  // the driver exports whole blocks
    EXPECT_EQ(driver_.strict_loads, 0);
    EXPECT_EQ(driver_.pushes, driver_.pops);
    EXPECT_GT(driver_.waits, 0);
}

TEST_F(NcclTest, AllGatherMovesEachRanksBytes) {
    constexpr int size = 4;
    constexpr std::int64_t bytes = 384;
    const auto messages = run({.size = size}, [&](Ranks& ranks) {
        auto* memory = static_cast<std::uint8_t*>(ranks.allocate(128 + bytes * (size + 1)));
        for (std::int64_t i = 0; i < bytes; ++i) memory[128 + i] = value(ranks.rank(), 0, i);
        ranks.all_gather(128, 128 + bytes, bytes, reinterpret_cast<void*>(0x5));
        for (int from = 0; from < size; ++from) {
            for (std::int64_t i = 0; i < bytes; ++i) {
                EXPECT_EQ(memory[128 + bytes * (from + 1) + i], value(from, 0, i));
            }
        }
        EXPECT_EQ(memory[0], 0);
    });
    EXPECT_EQ(messages, std::vector<std::string>(size, "no error"));
    EXPECT_EQ(nccl_.stream, reinterpret_cast<void*>(0x5));
}

TEST_F(NcclTest, AllToAllMovesAPartToEachRank) {
    constexpr int size = 4;
    constexpr std::int64_t bytes = 256;
    const auto messages = run({.size = size}, [&](Ranks& ranks) {
        auto* memory = static_cast<std::uint8_t*>(ranks.allocate(2 * size * bytes + 128));
        for (int part = 0; part < size; ++part) {
            for (std::int64_t i = 0; i < bytes; ++i) memory[part * bytes + i] = value(ranks.rank(), part, i);
        }
        ranks.all_to_all(0, size * bytes + 128, bytes, reinterpret_cast<void*>(0x6));
        for (int from = 0; from < size; ++from) {
            for (std::int64_t i = 0; i < bytes; ++i) {
                EXPECT_EQ(memory[(size + from) * bytes + 128 + i], value(from, ranks.rank(), i));
            }
        }
    });
    EXPECT_EQ(messages, std::vector<std::string>(size, "no error"));
    EXPECT_EQ(nccl_.stream, reinterpret_cast<void*>(0x6));
    EXPECT_EQ(nccl_.open_groups, 0);
}

TEST_F(NcclTest, NoBytesAreNoCollective) {
    EXPECT_EQ(message_of_one([](Ranks& ranks) {
                  ranks.allocate(128);
                  ranks.all_gather(0, 0, 0, nullptr);
                  ranks.all_to_all(0, 0, 0, nullptr);
              }),
              "no error");
    EXPECT_EQ(nccl_.collectives, 0);
}

TEST_F(NcclTest, RanksOfOneProcessShareTheirPointers) {
    const auto found = addresses({.size = 3});
    for (const std::vector<void*>& each : found) {
        EXPECT_EQ(each.size(), 3U);
        EXPECT_EQ(each, found[0]);
    }
    EXPECT_EQ(driver_.allocations, 0);
    EXPECT_EQ(message_of_one([](Ranks& ranks) {
                  void* memory = ranks.allocate(128);
                  EXPECT_EQ(ranks.addresses(), std::vector<void*>{memory});
                  EXPECT_EQ(ranks.addresses(), std::vector<void*>{memory});
              }),
              "no error");
}

TEST_F(NcclTest, ProcessesOfOneHostImportEachOthersMemory) {
    std::atomic<int> imports{0};
    std::barrier all(4);
    const auto messages = run({.size = 4, .places = processes_of_one_host(4)}, [&](Ranks& ranks) {
        void* memory = ranks.allocate(256);
        const std::vector<void*> mine = ranks.addresses();
        ASSERT_EQ(mine.size(), 4U);
        EXPECT_EQ(mine[static_cast<std::size_t>(ranks.rank())], memory);
        for (void* each : mine) static_cast<std::atomic<std::uint8_t>*>(each)[128 + ranks.rank()] = 1;
        all.arrive_and_wait();
        for (int peer = 0; peer < 4; ++peer) EXPECT_EQ(static_cast<std::uint8_t*>(memory)[128 + peer], 1);
        imports = driver_.imports.load();
    });
    EXPECT_EQ(messages, std::vector<std::string>(4, "no error"));
    EXPECT_EQ(imports, 12);
    EXPECT_EQ(driver_.imports, 0);
    EXPECT_EQ(driver_.allocations, 0);
    EXPECT_EQ(addresses({.size = 4, .places = processes_of_one_host(4)})[1].size(), 4U);
}

TEST_F(NcclTest, RanksOfTwoHostsHaveNone) {
    expect_no_addresses({.size = 3, .places = {place_of(0, 1), place_of(1, 1), place_of(0, 2)}});
    expect_no_addresses({.size = 2, .places = {place_of(0, 1), place_of(1, 1)}});
}

TEST_F(NcclTest, OneRankWithoutReachLeavesAllWithout) {
    const Team team{.size = 4, .places = processes_of_one_host(4)};
    for (const char* call : {"cuIpcOpenMemHandle_v2", "cuIpcGetMemHandle"}) {
        driver_.failing_call = call;
        driver_.failing_device = 2;
        expect_no_addresses(team);
    }
    driver_.failing_call = "cuCtxEnablePeerAccess";
    expect_no_addresses({.size = 4});
    driver_.failure = 704;  // it is enabled already
    EXPECT_EQ(addresses({.size = 4})[2].size(), 4U);
}

TEST_F(NcclTest, DevicesThatDoNotReachEachOtherHaveNone) {
    driver_.reaches_peers = false;
    expect_no_addresses({.size = 2, .places = processes_of_one_host(2)});
    expect_no_addresses({.size = 2});
    // Devices of buses that this process does not see: the import decides.
    driver_.failing_call = "cuDeviceGetPCIBusId";
    EXPECT_EQ(addresses({.size = 2, .places = processes_of_one_host(2)})[0].size(), 2U);
}

TEST_F(NcclTest, MoreRanksThanHaveAddressesDoNotExchangeThem) {
    driver_.devices = most_ranks_with_addresses + 1;
    expect_no_addresses({.size = most_ranks_with_addresses + 1});
    EXPECT_EQ(nccl_.collectives, 0);
}

TEST_F(NcclTest, AnOldDriverHasCollectivesAndNoAddresses) {
    const cuda::Driver old(TILEWRIGHT_FAKE_OLD_DRIVER);
    cuda::OpenLibrary({TILEWRIGHT_FAKE_OLD_DRIVER}).function<FakeDriver*()>("tilewright_fake_driver")()->devices = 16;
    expect_no_addresses({.size = 2, .places = processes_of_one_host(2), .driver = &old});
    EXPECT_EQ(nccl_.collectives, 4);  // two exchanges of two ranks
}

TEST_F(NcclTest, PlacesTellHostsAndProcessesApart) {
    const Place here = this_place();
    EXPECT_TRUE(here.is_in_process_of(this_place()));
    EXPECT_NE(here.host[0], '\0');
    EXPECT_TRUE(place_of(0, 1).is_on_host_of(place_of(0, 2)));
    EXPECT_FALSE(place_of(0, 1).is_in_process_of(place_of(0, 2)));
    EXPECT_FALSE(place_of(0, 1).is_on_host_of(place_of(1, 1)));
    EXPECT_FALSE(place_of(0, 1).is_in_process_of(place_of(1, 1)));
    Place reused = here;  // a number in another container
    ++reused.key;
    EXPECT_FALSE(here.is_in_process_of(reused));
}

struct FailingCall {
    const char* name;
    std::function<void(Ranks&)> action;
};

TEST_F(NcclTest, AFailedCallNamesItselfTheRankAndTheReason) {
    nccl_.last_error = "socket closed by 10.0.0.7\n";
    const auto gather = [](Ranks& ranks) {
        ranks.allocate(1024);
        ranks.all_gather(0, 128, 128, nullptr);
    };
    const auto all_to_all = [](Ranks& ranks) {
        ranks.allocate(1024);
        ranks.all_to_all(0, 128, 128, nullptr);
    };
    const auto share = [](Ranks& ranks) {
        ranks.allocate(1024);
        ranks.addresses();
    };
    for (const FailingCall& each : std::vector<FailingCall>{{"ncclAllGather", gather},
                                                            {"ncclAllGather", share},
                                                            {"ncclGroupStart", all_to_all},
                                                            {"ncclSend", all_to_all},
                                                            {"ncclRecv", all_to_all},
                                                            {"ncclGroupEnd", all_to_all},
                                                            {"ncclCommGetAsyncError", gather}}) {
        nccl_.failing_call = each.name;
        EXPECT_EQ(message_of_one(each.action),
                  std::string("rank 0 of 1: ") + each.name +
                      " failed: internal error (ncclResult_t 3): socket closed by 10.0.0.7; NCCL_DEBUG=WARN in the "
                      "environment prints more");
        EXPECT_EQ(nccl_.open_groups, 0) << each.name;
    }
    nccl_.last_error = "";
    for (const char* call : {"ncclCommCount", "ncclCommUserRank", "ncclCommCuDevice"}) {
        nccl_.failing_call = call;
        EXPECT_TRUE(has(message_of([&] { ranks_of_nccl(communicators(1)[0]); }),
                        std::string(call) + " failed: internal error (ncclResult_t 3); NCCL_DEBUG=WARN"));
    }
}

TEST_F(NcclTest, AFailureOfTheDriverNamesTheDevice) {
    for (const char* call : {"cuMemAlloc_v2", "cuMemsetD8Async", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuStreamQuery",
                             "cuStreamSynchronize"}) {
        driver_.failing_call = call;
        const std::string message = message_of_one([](Ranks& ranks) {
            ranks.allocate(128);
            ranks.addresses();
        });
        // The first that waits for a stream is the copy to the device.
        const bool waits = std::string_view(call) == "cuStreamSynchronize";
        const std::string name = waits ? "cuMemcpyHtoD" : std::string(call).substr(0, std::string(call).find("_v2"));
        EXPECT_EQ(message, "cuda:0: " + name + " failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY); free GPU memory");
        EXPECT_EQ(driver_.allocations, 0) << call;
    }
    driver_.failing_call = nullptr;
    driver_.devices = 1;
    EXPECT_TRUE(has(message_of([&] { ranks_of_nccl(communicators(2)[1]); }), "cuda:1: cuDeviceGet failed"));
}

TEST_F(NcclTest, AnErrorOfAnEarlierCallEndsTheNextOne) {
    const std::string message = message_of_one([&](Ranks& ranks) {
        ranks.allocate(1024);
        nccl_.state = 6;
        ranks.all_gather(0, 128, 128, nullptr);
    });
    EXPECT_TRUE(has(message, "an earlier call failed: remote process exited (ncclResult_t 6)"));
    EXPECT_EQ(nccl_.collectives, 0);
}

TEST_F(NcclTest, AWaitEndsWhereAnotherRankIsGone) {
    const std::string message = message_of_one([&](Ranks& ranks) {
        ranks.allocate(1024);
        nccl_.state = 6;
        driver_.busy_queries = 2000;
        ranks.addresses();
    });
    EXPECT_TRUE(has(message, "ncclAllGather failed: remote process exited (ncclResult_t 6)"));
}

TEST_F(NcclTest, ACommunicatorThatDoesNotBlockIsWaitedFor) {
    nccl_.blocks = false;
    nccl_.busy_states = 3;
    EXPECT_EQ(message_of_one([](Ranks& ranks) {
                  auto* memory = static_cast<std::uint8_t*>(ranks.allocate(1024));
                  memory[0] = 9;
                  ranks.all_gather(0, 128, 128, nullptr);
                  ranks.all_to_all(128, 256, 128, nullptr);
                  EXPECT_EQ(memory[256], 9);
              }),
              "no error");
    EXPECT_EQ(nccl_.busy_states, 0);
    EXPECT_EQ(nccl_.states, 3 + 4);  // the busy ones; one before and one after each call
    const std::string message = message_of_one([&](Ranks& ranks) {
        ranks.allocate(1024);
        nccl_.busy_states = 1;
        nccl_.state = 3;
        ranks.all_gather(0, 128, 128, nullptr);
    });
    EXPECT_TRUE(has(message, "failed: internal error (ncclResult_t 3)"));
}

TEST_F(NcclTest, NothingWaitsWhileAStreamIsCaptured) {
    const std::string message = message_of_one([&](Ranks& ranks) {
        driver_.capturing = reinterpret_cast<void*>(0x5);
        EXPECT_TRUE(has(message_of([&] { ranks.allocate(1024); }),
                        "allocate waits for its stream, and a capture is under way; call it before the capture"));
        driver_.capturing = nullptr;
        ranks.allocate(1024);
        driver_.capturing = reinterpret_cast<void*>(0x5);
        EXPECT_TRUE(has(message_of([&] { ranks.addresses(); }), "addresses waits for its stream"));
        const int waits = driver_.waits;
        ranks.all_gather(0, 128, 128, driver_.capturing);
        ranks.all_to_all(0, 128, 128, driver_.capturing);
        EXPECT_EQ(driver_.waits, waits);
    });
    EXPECT_EQ(message, "no error");
    EXPECT_EQ(nccl_.collectives, 2);
}

TEST_F(NcclTest, RangesOutsideOfTheMemoryAreRefused) {
    struct Wrong {
        std::int64_t from, to, bytes;
    };
    constexpr std::int64_t most = INT64_MAX / 128 * 128;
    const auto messages = run({.size = 2}, [&](Ranks& ranks) {
        EXPECT_TRUE(has(message_of([&] { ranks.all_gather(0, 128, 128, nullptr); }), "call allocate first"));
        EXPECT_TRUE(has(message_of([&] { ranks.addresses(); }), "call allocate first"));
        for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-128}, std::int64_t{100}}) {
            EXPECT_TRUE(has(message_of([&] { ranks.allocate(bytes); }),
                            "bytes: got " + std::to_string(bytes) + "; expected a positive multiple of 128"));
        }
        ranks.allocate(1024);
        for (const Wrong& each :
             {Wrong{-128, 0, 128}, Wrong{0, -128, 128}, Wrong{0, 0, -128}, Wrong{64, 128, 128}, Wrong{0, 64, 128},
              Wrong{1024, 0, 128}, Wrong{0, 896, 128}, Wrong{0, 0, most}, Wrong{most, 0, 128}, Wrong{0, most, 128}}) {
            EXPECT_TRUE(has(message_of([&] { ranks.all_gather(each.from, each.to, each.bytes, nullptr); }),
                            "all_gather: got from " + std::to_string(each.from)));
            EXPECT_TRUE(has(message_of([&] { ranks.all_to_all(each.from, each.to, each.bytes, nullptr); }),
                            "within the piece of 1024 bytes"));
        }
        for (const std::int64_t from : {768, 896}) {  // onto received bytes
            EXPECT_TRUE(has(message_of([&] { ranks.all_gather(from, 768, 128, nullptr); }), "apart from each other"));
        }
        EXPECT_TRUE(has(message_of([&] { ranks.all_to_all(640, 768, 128, nullptr); }), "2 x bytes sent"));
        EXPECT_TRUE(has(message_of([&] { ranks.all_to_all(896, 0, 128, nullptr); }), "2 x bytes sent"));
        ranks.all_gather(640, 768, 128, nullptr);
        ranks.all_to_all(0, 128, 30, nullptr);
        ranks.all_gather(896, 640, 128, nullptr);
        ranks.all_to_all(768, 512, 128, nullptr);
    });
    EXPECT_EQ(messages, std::vector<std::string>(2, "no error"));
    EXPECT_EQ(nccl_.collectives, 2 * 4);
}

TEST_F(NcclTest, AnotherCurrentDeviceStaysCurrent) {
    const std::vector<void*> made = communicators(1);
    set_context(3);
    const std::unique_ptr<Ranks> ranks = ranks_of_nccl(made[0]);
    ranks->allocate(1024);
    ranks->all_gather(0, 128, 128, nullptr);
    EXPECT_EQ(ranks->addresses().size(), 1U);
    int device = -1;
    EXPECT_EQ(cuda::driver().call.context_device(&device), 0);
    EXPECT_EQ(device, 3);
}

TEST_F(NcclTest, AMissingLibraryIsNamedWithTheWayOut) {
    const std::string message = message_of([] { const Nccl none(cuda::OpenLibrary({"libnccl-not-there.so.2"})); });
    EXPECT_EQ(message,
              "no NCCL: libnccl.so.2 was not found; only layers over several GPUs need it: apt-get install libnccl2 "
              "(Python uses torch's copy)");
}

TEST_F(NcclTest, ALibraryWithoutTheEntryPointsIsRefused) {
    EXPECT_TRUE(has(message_of([] { const Nccl other(cuda::OpenLibrary({"libm.so.6"})); }),
                    "is not NCCL: it has no ncclGetVersion that works; install NCCL 2.7 or later"));
    const std::string message = message_of([] { const Nccl other(cuda::OpenLibrary({TILEWRIGHT_FAKE_NCCL_PARTIAL})); });
    EXPECT_TRUE(has(message, "has no ncclRecv; install NCCL 2.7 or later"));
    EXPECT_TRUE(has(message, TILEWRIGHT_FAKE_NCCL_PARTIAL));
    nccl_.failing_call = "ncclGetVersion";
    EXPECT_TRUE(has(message_of([] { const Nccl other(fake_nccl_file()); }), "is not NCCL"));
}

TEST_F(NcclTest, AnOldVersionIsNamed) {
    nccl_.version = 2604;
    EXPECT_EQ(message_of([] { const Nccl old(fake_nccl_file()); }),
              std::string("NCCL 2.6.4 of ") + TILEWRIGHT_FAKE_NCCL +
                  " is too old: it has no ncclSend; install NCCL 2.7 or later (apt-get install libnccl2)");
    nccl_.version = 2700;
    EXPECT_EQ(Nccl(fake_nccl_file()).name(), "NCCL 2.7.0");
}

TEST_F(NcclTest, AVersionWithoutLastErrorWorks) {
    const cuda::OpenLibrary file({TILEWRIGHT_FAKE_NCCL_EARLY});
    auto& early = *file.function<FakeNccl*()>("tilewright_fake_nccl")();
    early.version = 2708;
    const Nccl nccl(file);
    EXPECT_EQ(nccl.name(), "NCCL 2.7.8");
    early.failing_call = "ncclAllGather";
    const auto messages = run({.size = 1, .nccl = &nccl}, [](Ranks& ranks) {
        ranks.allocate(1024);
        ranks.all_gather(0, 128, 128, nullptr);
    });
    EXPECT_TRUE(has(messages[0], "ncclAllGather failed: internal error (ncclResult_t 3); NCCL_DEBUG"));
}

TEST_F(NcclTest, AReportNamesTheFileOrTheProblem) {
    const cuda::Library found = probe_nccl(fake_nccl_file());
    EXPECT_TRUE(found.usable);
    EXPECT_EQ(found.path, TILEWRIGHT_FAKE_NCCL);
    EXPECT_EQ(found.version, "2.28.9");
    EXPECT_EQ(probe_nccl().path, found.path);
    const cuda::Library missing = probe_nccl(cuda::OpenLibrary({"libnccl-not-there.so.2"}));
    EXPECT_FALSE(missing.usable);
    EXPECT_EQ(missing.problem, "no NCCL: libnccl.so.2 was not found");
    EXPECT_NE(missing.advice, "");
}

TEST_F(NcclTest, WhatTheProgramExportsIsNccl) {
    EXPECT_FALSE(cuda::OpenLibrary::loaded("libnccl-not-there.so.2").is_open());
    EXPECT_TRUE(cuda::OpenLibrary::loaded("libnccl.so.2").is_open());
    ASSERT_FALSE(probe_nccl(cuda::OpenLibrary::of_process()).usable);
    void* exported = dlopen(TILEWRIGHT_FAKE_NCCL_EARLY, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(exported, nullptr);
    const cuda::Library found = probe_nccl(cuda::OpenLibrary::of_process());
    EXPECT_TRUE(found.usable);
    EXPECT_EQ(found.path, TILEWRIGHT_FAKE_NCCL_EARLY);
}

}  // namespace
}  // namespace tilewright::ranks
