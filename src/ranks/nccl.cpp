#include "ranks/nccl.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <tilewright/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <type_traits>

#include "cuda/scopes.h"

namespace tilewright::ranks {
namespace {

constexpr std::int64_t offset_unit = 128;  // of offsets and sizes

// The driver exports whole blocks of 2 MiB: two small pieces in one block would be one export.
constexpr std::size_t export_unit = std::size_t{2} << 20;

// CUresult and CUipcMem_flags.
constexpr int not_ready = 600;
constexpr int peer_access_is_enabled = 704;
constexpr int capture_is_implicit = 906;
constexpr unsigned enable_peer_access_lazily = 1;

void wait_briefly() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

/// A rank tells the others this about its piece.
struct alignas(offset_unit) Announcement {
    Place place{};
    cuda::ContextHandle context = nullptr;  // of the piece; for ranks of the same process
    cuda::DeviceAddress address = 0;        // the same
    cuda::MemoryHandle handle{};            // for other processes
    bool has_handle = false;
    char bus_id[16] = {};  // empty: unknown
};
static_assert(std::is_trivially_copyable_v<Announcement>);

/// Destroyed when no rank uses the addresses any more: a piece that others have imported must not be freed.
class NcclRanks final : public Ranks {
public:
    explicit NcclRanks(const NcclParts& parts) : parts_(parts), nccl_(parts.nccl), driver_(parts.driver) {
        who_ = "ranks_of_nccl";  // until the rank is known
        if (parts.communicator == nullptr) {
            throw Error("ranks_of_nccl: communicator: got null; expected an ncclComm_t. Pass ncclCommInitRank's.");
        }
        require(nccl_.call.count(parts.communicator, &size_), "ncclCommCount");
        require(nccl_.call.rank(parts.communicator, &rank_), "ncclCommUserRank");
        who_ = fmt::format("rank {} of {}", rank_, size_);
        require(nccl_.call.device(parts.communicator, &index_), "ncclCommCuDevice");
        require_driver(driver_.call.device_get(&handle_, index_), "cuDeviceGet");
        const cuda::RelaxedCapture relaxed(driver_);
        require_driver(driver_.call.primary_context_retain(&context_, handle_), "cuDevicePrimaryCtxRetain");
    }

    /// Nothing is thrown: at the end of a process the driver may be gone already.
    ~NcclRanks() override {
        try {
            const cuda::RelaxedCapture relaxed(driver_);
            const cuda::ContextScope scope(driver_, handle_, context_);
            close_imports();
            if (memory_ != 0) driver_.call.release(memory_);
        } catch (const Error&) {
        }
    }
    NcclRanks(const NcclRanks&) = delete;
    NcclRanks& operator=(const NcclRanks&) = delete;

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    DeviceId device() const override { return {.kind = DeviceId::Kind::cuda, .index = index_}; }
    std::string engine() const override { return nccl_.name(); }

    void share(const void* own, void* all, std::int64_t bytes) override {
        refuse_capture("share");
        const cuda::RelaxedCapture relaxed(driver_);
        const cuda::ContextScope scope(driver_, handle_, context_);
        const Scratch scratch(*this, bytes * size_);
        gather(scratch.address, own, all, static_cast<std::size_t>(bytes));
    }

    void* allocate(std::int64_t bytes) override {
        if (bytes <= 0 || bytes % offset_unit != 0) {
            throw Error(fmt::format("{}: allocate: bytes: got {}; expected a positive multiple of {}. Round it up.",
                                    who_, bytes, offset_unit));
        }
        if (memory_ != 0)
            throw Error(fmt::format("{}: allocate: got a second call; expected one. Keep its piece.", who_));
        refuse_capture("allocate");
        const cuda::RelaxedCapture relaxed(driver_);
        const cuda::ContextScope scope(driver_, handle_, context_);
        const std::size_t wanted =
            static_cast<std::size_t>(bytes) + static_cast<std::size_t>(size_) * sizeof(Announcement);
        const std::size_t whole = (wanted + export_unit - 1) / export_unit * export_unit;
        require_driver(driver_.call.allocate(&memory_, whole), "cuMemAlloc");
        bytes_ = bytes;
        require_driver(driver_.call.fill_bytes_in_order(memory_, 0, whole, parts_.stream), "cuMemsetD8Async");
        wait_for_stream("allocate");
        return reinterpret_cast<void*>(memory_);
    }

    std::vector<void*> addresses() override {
        require_memory("addresses");
        if (!peers_.empty() || size_ > most_ranks_with_addresses) return peers_;
        refuse_capture("addresses");
        const cuda::RelaxedCapture relaxed(driver_);
        const cuda::ContextScope scope(driver_, handle_, context_);
        const std::vector<Announcement> announced = exchange(announcement());
        // From here to the second exchange nothing throws: the others would wait for this rank.
        std::vector<void*> peers;
        peers.reserve(announced.size());
        for (const Announcement& peer : announced) peers.push_back(reinterpret_cast<void*>(reach(peer)));
        const bool reached = std::count(peers.begin(), peers.end(), nullptr) == 0;
        const std::vector<std::uint64_t> all_reached = exchange(std::uint64_t{reached ? 1U : 0U});
        if (std::count(all_reached.begin(), all_reached.end(), 1U) == size_) {
            peers_ = std::move(peers);
        } else {
            close_imports();
        }
        return peers_;
    }

    void all_gather(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        require_ranges("all_gather", {.from = from, .to = to, .bytes = bytes, .parts_sent = 1});
        if (bytes == 0) return;
        const cuda::ContextScope scope(driver_, handle_, context_);
        settle("an earlier call");
        require(nccl_.call.all_gather(at(from), at(to), static_cast<std::size_t>(bytes), nccl_bytes,
                                      parts_.communicator, static_cast<cuda::StreamHandle>(stream)),
                "ncclAllGather");
    }

    void all_to_all(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        require_ranges("all_to_all", {.from = from, .to = to, .bytes = bytes, .parts_sent = size_});
        if (bytes == 0) return;
        const cuda::ContextScope scope(driver_, handle_, context_);
        settle("an earlier call");
        require(nccl_.call.group_start(), "ncclGroupStart");
        const auto count = static_cast<std::size_t>(bytes);
        auto* const order = static_cast<cuda::StreamHandle>(stream);
        const char* what = nullptr;
        int result = 0;
        const auto is_good = [&](int of_call, const char* call) {
            if (of_call == 0 || of_call == nccl_in_progress) return true;
            result = of_call;
            what = call;
            return false;
        };
        for (int peer = 0; peer < size_; ++peer) {
            if (!is_good(nccl_.call.send(at(from + peer * bytes), count, nccl_bytes, peer, parts_.communicator, order),
                         "ncclSend") ||
                !is_good(nccl_.call.receive(at(to + peer * bytes), count, nccl_bytes, peer, parts_.communicator, order),
                         "ncclRecv")) {
                break;
            }
        }
        const int ended =
            nccl_.call.group_end();  // after an error too, or this thread's later calls would join the group
        require(result, what);
        require(ended, "ncclGroupEnd");
    }

private:
    struct Ranges {
        std::int64_t from = 0;
        std::int64_t to = 0;
        std::int64_t bytes = 0;
        int parts_sent = 1;
    };

    void* at(std::int64_t offset) const {
        return reinterpret_cast<void*>(memory_ + static_cast<std::uint64_t>(offset));
    }

    void require_memory(const char* what) const {
        if (memory_ == 0)
            throw Error(fmt::format("{}: {}: there is no piece of memory; call allocate first", who_, what));
    }

    void require_ranges(const char* what, const Ranges& given) const {
        require_memory(what);
        const auto fits = [&](std::int64_t offset, std::int64_t parts) {
            return offset >= 0 && offset <= bytes_ && offset % offset_unit == 0 &&
                   given.bytes <= (bytes_ - offset) / parts;
        };
        const bool inside = given.bytes >= 0 && fits(given.from, given.parts_sent) && fits(given.to, size_);
        // Overlapping, one rank would overwrite what another one still reads.
        if (inside && (given.bytes == 0 || given.from + given.parts_sent * given.bytes <= given.to ||
                       given.to + size_ * given.bytes <= given.from)) {
            return;
        }
        throw Error(fmt::format(
            "{}: {}: got from {}, to {}, bytes {}; expected offsets that are multiples of {}, with {} x bytes sent and "
            "{} x bytes received, apart from each other and within the piece of {} bytes. Allocate "
            "a larger piece.",
            who_, what, given.from, given.to, given.bytes, offset_unit, given.parts_sent, size_, bytes_));
    }

    void require_driver(int result, const char* what) const { driver_.require(result, what, index_); }

    void require(int result, const char* what) const {
        if (result == nccl_in_progress) return settle(what);
        if (result != 0) nccl_.fail(result, who_, what, parts_.communicator);
    }

    /// Waits until NCCL has enqueued its calls, which it does later where the communicator does not block. Throws the
    /// error of a call that ended since.
    void settle(const char* what) const {
        int state = nccl_in_progress;
        while (true) {
            const int result = nccl_.call.state(parts_.communicator, &state);
            if (result != 0) nccl_.fail(result, who_, "ncclCommGetAsyncError", parts_.communicator);
            if (state != nccl_in_progress) break;
            wait_briefly();
        }
        if (state != 0) nccl_.fail(state, who_, what, parts_.communicator);
    }

    /// Throws instead of waiting for ever where NCCL notices that another rank is gone.
    void wait_for_stream(const char* what) const {
        if (driver_.call.stream_query == nullptr) {
            return require_driver(driver_.call.stream_synchronize(parts_.stream), "cuStreamSynchronize");
        }
        int result = driver_.call.stream_query(parts_.stream);
        for (; result == not_ready; result = driver_.call.stream_query(parts_.stream)) {
            settle(what);
            wait_briefly();
        }
        require_driver(result, "cuStreamQuery");
    }

    /// A wait would end the capture. Copies wait for the default stream too.
    void refuse_capture(const char* what) const {
        if (driver_.call.stream_is_capturing == nullptr) return;
        const cuda::ContextScope scope(driver_, handle_, context_);
        for (auto* const stream : {parts_.stream, cuda::StreamHandle{nullptr}}) {
            int capturing = 0;
            const int result = driver_.call.stream_is_capturing(stream, &capturing);
            if (result != capture_is_implicit) require_driver(result, "cuStreamIsCapturing");
            if (result == 0 && capturing == 0) continue;
            throw Error(fmt::format(
                "{}: {} waits for its stream, and a capture is under way; call it before the capture", who_, what));
        }
    }

    /// Memory of the GPU for a moment.
    struct Scratch {
        Scratch(const NcclRanks& of, std::int64_t bytes) : ranks(of) {
            of.require_driver(of.driver_.call.allocate(&address, static_cast<std::size_t>(bytes)), "cuMemAlloc");
        }
        ~Scratch() { ranks.driver_.call.release(address); }
        Scratch(const Scratch&) = delete;
        Scratch& operator=(const Scratch&) = delete;

        const NcclRanks& ranks;
        cuda::DeviceAddress address = 0;
    };

    /// Brings bytes of every rank to memory of the host, through memory of the GPU.
    void gather(cuda::DeviceAddress begin, const void* own, void* all, std::size_t bytes) const {
        const cuda::DeviceAddress mine = begin + static_cast<std::uint64_t>(rank_) * bytes;
        require_driver(driver_.call.write(mine, own, bytes), "cuMemcpyHtoD");
        require(nccl_.call.all_gather(reinterpret_cast<void*>(mine), reinterpret_cast<void*>(begin), bytes, nccl_bytes,
                                      parts_.communicator, parts_.stream),
                "ncclAllGather");
        wait_for_stream("ncclAllGather");
        require_driver(driver_.call.copy_to_host(all, begin, static_cast<std::size_t>(size_) * bytes), "cuMemcpyDtoH");
    }

    /// Every rank's value, in their order. Travels in the memory after the piece.
    template <class Value>
    std::vector<Value> exchange(const Value& own) const {
        std::vector<Value> all(static_cast<std::size_t>(size_));
        gather(memory_ + static_cast<std::uint64_t>(bytes_), &own, all.data(), sizeof(Value));
        return all;
    }

    Announcement announcement() const {
        const cuda::DriverCalls& call = driver_.call;
        Announcement own{.place = parts_.place, .address = memory_};
        if (call.context_current(&own.context) != 0) own.context = nullptr;
        own.has_handle = call.export_memory != nullptr && call.import_memory != nullptr &&
                         call.close_import != nullptr && call.export_memory(&own.handle, memory_) == 0;
        if (call.device_bus_id(own.bus_id, sizeof(own.bus_id), handle_) != 0) own.bus_id[0] = '\0';
        return own;
    }

    /// The address of another rank's piece for this rank's device; 0 if there is none.
    cuda::DeviceAddress reach(const Announcement& peer) {
        if (peer.address == memory_ && peer.place.is_in_process_of(parts_.place)) return memory_;
        if (!peer.place.is_on_host_of(parts_.place) || !reaches_device(peer)) return 0;
        if (peer.place.is_in_process_of(parts_.place)) return shares_context(peer.context) ? peer.address : 0;
        cuda::DeviceAddress address = 0;
        if (!peer.has_handle || driver_.call.import_memory == nullptr || driver_.call.close_import == nullptr) return 0;
        if (driver_.call.import_memory(&address, peer.handle, enable_peer_access_lazily) != 0) return 0;
        imports_.push_back(address);
        return address;
    }

    /// A device that this process does not see (CUDA_VISIBLE_DEVICES) may be reached all the same: the import decides.
    bool reaches_device(const Announcement& peer) const {
        int device = 0;
        int reaches = 1;
        const cuda::DriverCalls& call = driver_.call;
        if (call.device_of_bus_id == nullptr || call.can_access_peer == nullptr || peer.bus_id[0] == '\0') return true;
        if (call.device_of_bus_id(&device, peer.bus_id) != 0 || device == handle_) return true;
        return call.can_access_peer(&reaches, handle_, device) == 0 && reaches != 0;
    }

    bool shares_context(cuda::ContextHandle context) const {
        cuda::ContextHandle current = nullptr;
        const cuda::DriverCalls& call = driver_.call;
        if (context == nullptr || call.context_current(&current) != 0) return false;
        if (current == context) return true;
        if (call.enable_peer_access == nullptr) return false;
        const int result = call.enable_peer_access(context, 0);
        return result == 0 || result == peer_access_is_enabled;
    }

    void close_imports() {
        for (const cuda::DeviceAddress address : imports_) driver_.call.close_import(address);
        imports_.clear();
    }

    const NcclParts parts_;
    const Nccl& nccl_;
    const cuda::Driver& driver_;
    std::string who_;
    int rank_ = 0;
    int size_ = 1;
    int index_ = 0;   // of the device
    int handle_ = 0;  // CUdevice
    cuda::ContextHandle context_ = nullptr;
    cuda::DeviceAddress memory_ = 0;
    std::int64_t bytes_ = 0;  // of the piece; the announcements of all ranks follow it
    std::vector<void*> peers_;
    std::vector<cuda::DeviceAddress> imports_;
};

}  // namespace

bool Place::is_on_host_of(const Place& other) const { return std::strncmp(host, other.host, sizeof(host)) == 0; }

bool Place::is_in_process_of(const Place& other) const {
    return is_on_host_of(other) && process == other.process && key == other.key;
}

Place this_place() {
    // libstdc++'s random_device would need glibc 2.36.
    static const std::uint64_t key = [] {
        std::uint64_t drawn = 0;
        if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
            throw Error("getrandom failed; allow it in the sandbox");
        return drawn;
    }();
    Place place{.process = static_cast<std::uint64_t>(getpid()), .key = key};
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    // Names of hosts are not unique. Without the boot's id, each process counts as a separate host.
    if (boot.empty()) boot = fmt::format("{:x}", key);
    char name[65] = {};  // HOST_NAME_MAX
    gethostname(name, sizeof(name) - 1);
    const std::string host = boot + ' ' + name;
    host.copy(place.host, sizeof(place.host) - 1);
    return place;
}

std::unique_ptr<Ranks> ranks_of_parts(const NcclParts& parts) { return std::make_unique<NcclRanks>(parts); }

}  // namespace tilewright::ranks

namespace tilewright {

std::unique_ptr<Ranks> ranks_of_nccl(void* communicator, void* stream) {
    return ranks::ranks_of_parts({.nccl = ranks::nccl(),
                                  .driver = cuda::driver(),
                                  .communicator = static_cast<ranks::Communicator>(communicator),
                                  .stream = static_cast<cuda::StreamHandle>(stream)});
}

}  // namespace tilewright
