#include "expert_group.h"

#include "array.h"
#include "keywords.h"
#include "moe_call.h"
#include "moe_questions.h"
#include "unlocked.h"
#include "workspace.h"

#include <tilewright/expert_group.h>
#include <tilewright/peer_exchange.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tilewright::python {
namespace {

/// The ranks of an engine, or functions of Python that are one. A group takes them.
struct RanksHandle {
    std::unique_ptr<Ranks> ranks{};
};

/// A function of Python, called and given back with the interpreter's lock, which the library's threads do not hold.
class Callable {
public:
    explicit Callable(nb::handle function) : function_(new nb::object(nb::borrow(function)), &give_back) {}

    template <class... Arguments>
    nb::object operator()(const Arguments&... arguments) const {
        return (*function_)(arguments...);
    }

private:
    static void give_back(nb::object* function) {
        const nb::gil_scoped_acquire locked;
        delete function;
    }
    std::shared_ptr<nb::object> function_;
};

/// Ranks of functions of Python. Addresses are numbers.
RanksHandle ranks_of_callables(int rank, int size, int device, const std::string& engine, const nb::dict& functions) {
    const auto callable = [&](const char* name) { return Callable(functions[name]); };
    const auto collective = [&](const char* name) {
        return [call = callable(name)](std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) {
            const nb::gil_scoped_acquire locked;
            call(from, to, bytes, reinterpret_cast<std::uintptr_t>(stream));
        };
    };
    RankFunctions made{.rank = rank, .size = size, .engine = engine};
    if (device >= 0) made.device = {DeviceId::Kind::cuda, device};
    made.share = [call = callable("share")](const void* own, void* all, std::int64_t bytes) {
        const nb::gil_scoped_acquire locked;
        const nb::bytes of_all = nb::cast<nb::bytes>(call(nb::bytes(own, static_cast<std::size_t>(bytes))));
        std::memcpy(all, of_all.c_str(), of_all.size());
    };
    made.allocate = [call = callable("allocate")](std::int64_t bytes) {
        const nb::gil_scoped_acquire locked;
        return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(call(bytes)));
    };
    made.addresses = [call = callable("addresses")] {
        const nb::gil_scoped_acquire locked;
        std::vector<void*> all;
        for (const nb::handle address : nb::list(call())) {
            all.push_back(reinterpret_cast<void*>(nb::cast<std::uintptr_t>(address)));
        }
        return all;
    };
    made.all_gather = collective("all_gather");
    made.all_to_all = collective("all_to_all");
    return {ranks_of_functions(std::move(made))};
}

std::vector<std::vector<int>> places_of(nb::handle given) {
    std::vector<std::vector<int>> places;
    if (!given.is_none()) places = nb::cast<std::vector<std::vector<int>>>(given);
    return places;
}

using Of = ExpertGroupOptions;
constexpr std::array group_options{
    Keyword<Of>{"max_tokens", [](Of& o, nb::handle v) { o.max_tokens = integer(v, "max_tokens"); }},
    Keyword<Of>{"hidden", [](Of& o, nb::handle v) { o.hidden = integer(v, "hidden"); }},
    Keyword<Of>{"experts", [](Of& o, nb::handle v) { o.experts = integer(v, "experts"); }},
    Keyword<Of>{"choices", [](Of& o, nb::handle v) { o.choices = small_count(v, "choices", "experts of a token"); }},
    Keyword<Of>{"shared", [](Of& o, nb::handle v) { o.shared = small_count(v, "shared", "shared experts"); }},
    Keyword<Of>{"activations", [](Of& o, nb::handle v) { o.activations = operand_recipe(v, "activations"); }},
    Keyword<Of>{"round_up", [](Of& o, nb::handle v) { o.round_up = flag(v, "round_up"); }},
    Keyword<Of>{"x",
                [](Of& o, nb::handle v) {
                    o.x = format_word(v, "x", {Format::f32, Format::bf16, Format::f16});
                }},
    Keyword<Of>{"weights_at", [](Of& o, nb::handle v) { o.weights_at = one_of(all_weights_at, v, "weights_at"); }},
    Keyword<Of>{"exchange", [](Of& o, nb::handle v) { o.exchange = one_of(all_exchanges, v, "exchange"); }},
    Keyword<Of>{"combine", [](Of& o, nb::handle v) { o.combine = one_of(all_rank_sums, v, "combine"); }},
    Keyword<Of>{"sums",
                [](Of& o, nb::handle v) {
                    o.sums = format_word(v, "sums", {Format::bf16, Format::f32});
                }},
    Keyword<Of>{"invariant",
                [](Of& o, nb::handle v) {
                    if (flag(v, "invariant")) o.reproducibility = Reproducibility::invariant;
                }},
    Keyword<Of>{"chunk", [](Of& o, nb::handle v) { o.chunk = integer(v, "chunk", 1); }},
    Keyword<Of>{"places", [](Of& o, nb::handle v) { o.places = places_of(v); }},
    Keyword<Of>{"per_rank", [](Of& o, nb::handle v) { o.per_rank = integer(v, "per_rank", 0); }},
    Keyword<Of>{"seconds", [](Of& o, nb::handle v) { o.seconds = static_cast<double>(number(v, "seconds")); }},
};

ExpertGroupOptions options_of_group(const nb::dict& keywords) {
    ExpertGroupOptions options;
    read_all(group_options, keywords, options);
    return options;
}

ExplainedLayer explain_over_ranks(nb::handle x, nb::handle up, nb::handle down, const nb::dict& own_keywords,
                                  const nb::dict& keywords, const nb::dict& group_keywords, int ranks,
                                  bool has_addresses) {
    const CallOptions options(keywords);
    const MoeCall call(x, up, down, MoeOptions(own_keywords), GroupOptions(nb::dict()), options);
    const ExpertGroupOptions group = options_of_group(group_keywords);
    return explained_layer(call, options, [&](const DeviceDescription& device) {
        return explain(call.layer, group, ranks, has_addresses, device);
    });
}

/// The exchanges of training. Memory is named by addresses.
class ExchangeOfRanks {
public:
    using Address = std::uintptr_t;

    ExchangeOfRanks(RanksHandle& handle, std::int64_t gathered, std::int64_t handed_back, double seconds) {
        if (!handle.ranks) refuse("ranks", "ranks of another group", "new ones", "An exchange takes its ranks.");
        const nb::gil_scoped_release unlocked;
        exchange_ = std::make_unique<PeerExchange>(
            std::move(handle.ranks),
            PeerExchangeSizes{.gathered = gathered, .handed_back = handed_back, .seconds = seconds});
    }

    void gather(const std::vector<std::tuple<Address, std::int64_t, Address>>& parts, Address stream) {
        std::vector<SentBytes> sent;
        for (const auto& [from, bytes, to] : parts) sent.push_back({pointer(from), bytes, pointer(to)});
        const nb::gil_scoped_release unlocked;
        exchange_->gather(sent, pointer(stream));
    }
    std::vector<Address> hand_back(const std::vector<std::tuple<Address, std::int64_t>>& parts, Address stream) {
        std::vector<SentBytes> sent;
        for (const auto& [from, bytes] : parts) sent.push_back({.from = pointer(from), .bytes = bytes});
        std::vector<Address> received;
        const nb::gil_scoped_release unlocked;
        for (const void* at : exchange_->hand_back(sent, pointer(stream))) {
            received.push_back(reinterpret_cast<Address>(at));
        }
        return received;
    }
    std::optional<std::tuple<int, std::int64_t, bool>> lost() {
        const std::optional<LostRank> found = exchange_->lost();
        if (!found) return std::nullopt;
        return std::tuple(found->rank, found->turn, found->in_gather);
    }

private:
    static void* pointer(Address address) { return reinterpret_cast<void*>(address); }

    std::unique_ptr<PeerExchange> exchange_{};
};

class GroupOfRanks {
public:
    GroupOfRanks(RanksHandle& handle, const nb::dict& keywords) {
        if (!handle.ranks) refuse("ranks", "ranks of another group", "new ones", "A group takes its ranks.");
        const ExpertGroupOptions options = options_of_group(keywords);
        const nb::gil_scoped_release unlocked;
        group_ = std::make_unique<ExpertGroup>(std::move(handle.ranks), options);
    }

    int rank() const { return group_->rank(); }
    int size() const { return group_->size(); }
    std::string exchange() const { return std::string(name(group_->exchange())); }
    std::string combine() const { return std::string(name(group_->combine())); }
    void check() { group_->check(); }
    /// `stream`: an address.
    void decline(std::uintptr_t stream) {
        const nb::gil_scoped_release unlocked;
        group_->decline({.stream = reinterpret_cast<void*>(stream)});
    }

    nb::object moe(nb::handle x, nb::handle up, nb::handle down, const nb::dict& own_keywords, const nb::dict& keywords,
                   std::uintptr_t stream) {
        void* const on = reinterpret_cast<void*>(stream);
        std::unique_ptr<MoeCall> call;
        std::optional<CallWorkspace> workspace;
        RunOptions how{.stream = on, .cancelled = &signal_arrived};
        try {
            const CallOptions options(keywords);
            call = std::make_unique<MoeCall>(x, up, down, MoeOptions(own_keywords), GroupOptions(nb::dict()), options);
            call->require_result();
            const std::int64_t bytes = group_->workspace_bytes(call->layer);
            workspace.emplace(bytes, call->layer.out.device, call->result, options.workspace, on);
            how.threads = options.threads;
            how.overlap = options.overlap;
            how.workspace = workspace->memory();
        } catch (...) {  // the other ranks make the call
            decline(stream);
            throw;
        }
        run_unlocked([&] { group_->run(call->layer, how); },
                     [&](const std::vector<Finding>& found) { return call->in_callers_words(found); });
        return call->result;
    }

private:
    std::unique_ptr<ExpertGroup> group_{};
};

}  // namespace

void bind_expert_group(nb::module_& m) {
    nb::class_<RanksHandle>(m, "Ranks", "The ranks of an engine. A group takes them.");
    m.def("ranks_of_callables", &ranks_of_callables, nb::arg("rank"), nb::arg("size"), nb::arg("device"),
          nb::arg("engine"), nb::arg("functions"),
          "Ranks of functions: share, allocate, addresses, all_gather, all_to_all. `device`: of CUDA, -1: the CPU.");
    m.def(
        "ranks_of_threads",
        [](int size, int device) {
            const DeviceId on = device >= 0 ? DeviceId{DeviceId::Kind::cuda, device} : DeviceId{};
            nb::list all;
            for (std::unique_ptr<Ranks>& ranks : ranks_of_threads(size, on)) {
                all.append(nb::cast(RanksHandle{std::move(ranks)}));
            }
            return all;
        },
        nb::arg("size"), nb::arg("device"), "Ranks that are threads of this process, in a list.");
    m.def(
        "ranks_of_nccl",
        [](std::uintptr_t communicator, std::uintptr_t stream) {
            const nb::gil_scoped_release unlocked;
            return RanksHandle{ranks_of_nccl(reinterpret_cast<void*>(communicator), reinterpret_cast<void*>(stream))};
        },
        nb::arg("communicator"), nb::arg("stream"), "The ranks of an ncclComm_t. Both are addresses.");
    m.def("explain_moe_over_ranks", &explain_over_ranks, nb::arg("x"), nb::arg("up"), nb::arg("down"), nb::arg("layer"),
          nb::arg("options"), nb::arg("group"), nb::arg("ranks"), nb::arg("has_addresses"),
          "As explain_moe, for a round of a call over ranks. `group` has the options of ExpertGroup.");
    m.attr("most_ranks_with_addresses") = most_ranks_with_addresses;
    m.attr("peer_alignment") = peer_alignment;
    nb::class_<ExchangeOfRanks>(m, "PeerExchange", "The exchanges of training through memory that all ranks reach.")
        .def(nb::init<RanksHandle&, std::int64_t, std::int64_t, double>(), nb::arg("ranks"), nb::arg("gathered"),
             nb::arg("handed_back"), nb::arg("seconds"),
             "gathered: the most bytes of a rank. handed_back: the most from one rank to another. By all ranks "
             "together.")
        .def("gather", &ExchangeOfRanks::gather, nb::arg("parts"), nb::arg("stream"),
             "Brings (from, bytes, to) of each rank to all. By all ranks together.")
        .def("hand_back", &ExchangeOfRanks::hand_back, nb::arg("parts"), nb::arg("stream"),
             "Brings part r of (from, bytes of a part) to rank r. Returns the addresses of what came here.")
        .def("lost", &ExchangeOfRanks::lost,
             "The rank that did not come, its turn, and whether it lacks in a gather; or None.");
    nb::class_<GroupOfRanks>(m, "ExpertGroup", "A group of ranks over which the experts of layers are spread.")
        .def(nb::init<RanksHandle&, const nb::dict&>(), nb::arg("ranks"), nb::arg("options"))
        .def_prop_ro("rank", &GroupOfRanks::rank)
        .def_prop_ro("size", &GroupOfRanks::size)
        .def_prop_ro("exchange", &GroupOfRanks::exchange, "collectives or addresses")
        .def_prop_ro("combine", &GroupOfRanks::combine, "rows or sums")
        .def("check", &GroupOfRanks::check, "Raises what another rank has said since the last call.")
        .def("decline", &GroupOfRanks::decline, nb::arg("stream"), "Takes part in a call without tokens.")
        .def("moe", &GroupOfRanks::moe, nb::arg("x"), nb::arg("up"), nb::arg("down"), nb::arg("layer"),
             nb::arg("options"), nb::arg("stream"),
             "A layer with the tokens and the experts of this rank. By all ranks together.");
}

}  // namespace tilewright::python
