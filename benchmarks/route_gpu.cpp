// Times `route`, the sort of tokens' choices by expert, for the clusters that it can run in.
//
//   route_gpu [tokens choices experts]          without numbers: ten sizes
//
// - Each cluster's result is compared with the CPU's, bit for bit.
// - Then the clusters run in turns. Each turn replays a CUDA graph of 50 calls, one after another, after work that
//   keeps the GPU busy until the graph is enqueued. The time of a call is the median over the turns, launch included.
// - `all` writes rows, sources, ends and weights, as `tw.route` does. `rows` writes rows and ends, as a layer does.
#include <fmt/format.h>
#include <tilewright/error.h>
#include <tilewright/moe.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cuda/runtime.h"
#include "launch/moe.h"
#include "measure/device.h"

namespace tilewright::benchmark {
namespace {

using hopper::RouteKeeps;
using launch::RouteCluster;
using measure::Buffer;

constexpr int calls_of_graph = 50;
constexpr int turns = 15;
constexpr std::size_t busy_bytes = std::size_t{256} << 20;

struct Sizes {
    std::int64_t tokens = 0;
    std::int64_t choices = 0;
    std::int64_t experts = 0;
};

constexpr std::array all_sizes{Sizes{128, 8, 128},  Sizes{128, 8, 256},  Sizes{1024, 8, 256}, Sizes{2048, 8, 128},
                               Sizes{8192, 8, 128}, Sizes{8192, 8, 256}, Sizes{8192, 8, 512}, Sizes{16384, 4, 64},
                               Sizes{65536, 1, 8},  Sizes{8192, 6, 64}};

/// The experts that tokens choose.
enum class Load { even, hot, half };
constexpr std::array all_loads{Load::even, Load::hot, Load::half};

const char* name(Load load) {
    switch (load) {
        case Load::even: break;
        case Load::hot: return "one expert 30x";
        case Load::half: return "half are empty";
    }
    return "even";
}

/// The clusters that compete. Without one, `lower` chooses.
struct Variant {
    const char* name;
    std::optional<RouteCluster> cluster{};
};
constexpr std::array variants{
    Variant{"chosen", {}},
    Variant{"8x512", RouteCluster{8, RouteKeeps::order}},
    Variant{"8x512p", RouteCluster{8, RouteKeeps::places}},
    Variant{"16x512", RouteCluster{16, RouteKeeps::order}},
    Variant{"16x512p", RouteCluster{16, RouteKeeps::places}},
};

const cuda::DriverCalls& calls() { return cuda::driver().call; }
void require(int result, const char* what) { cuda::driver().require(result, what, 0); }

/// Tokens choose different experts.
std::vector<std::int32_t> drawn_choices(const Sizes& sizes, Load load) {
    constexpr std::int64_t hot_share = 30;
    std::mt19937_64 random(1);
    const std::int64_t experts = load == Load::half ? sizes.experts / 2 : sizes.experts;
    const std::int64_t extra = load == Load::hot ? hot_share - 1 : 0;  // of the first expert
    std::uniform_int_distribution<std::int64_t> draw(-extra, experts - 1);
    std::vector<std::int32_t> ids;
    ids.reserve(static_cast<std::size_t>(sizes.tokens * sizes.choices));
    for (std::int64_t token = 0; token < sizes.tokens; ++token) {
        const auto first = std::ssize(ids);
        while (std::ssize(ids) < first + std::min(sizes.choices, experts)) {
            const auto expert =
                static_cast<std::int32_t>(std::max<std::int64_t>(draw(random), 0)) * (load == Load::half ? 2 : 1);
            if (std::find(ids.begin() + first, ids.end(), expert) == ids.end()) ids.push_back(expert);
        }
    }
    return ids;
}

std::vector<float> drawn_weights(std::size_t count) {
    std::mt19937 random(2);
    std::uniform_real_distribution<float> draw;
    std::vector<float> weights(count);
    for (float& weight : weights) weight = draw(random);
    return weights;
}

Tensor on_gpu(const Buffer& memory, Format format, const Dims& shape) {
    Tensor tensor = row_major(static_cast<void*>(memory.data()), format, shape);
    tensor.device = {.kind = DeviceId::Kind::cuda};
    return tensor;
}

using Words = std::vector<std::uint32_t>;

/// Rows, sources, ends and weights, one after another.
struct Outputs {
    explicit Outputs(const Sizes& sizes)
        : choices(static_cast<std::size_t>(sizes.tokens * sizes.choices)),
          words(3 * choices + static_cast<std::size_t>(sizes.experts)) {}

    std::size_t choices;
    std::size_t words;

    /// In this memory, of which only rows and ends are written unless `all`.
    Routed in(std::uint32_t* memory, const Sizes& sizes, bool all) const {
        std::uint32_t* const sources = memory + choices;
        std::uint32_t* const weights = sources + choices;
        const auto count = static_cast<std::int64_t>(choices);
        Routed out{.rows = row_major(static_cast<void*>(memory), Format::i32, {sizes.tokens, sizes.choices}),
                   .ends = row_major(static_cast<void*>(weights + choices), Format::i32, {sizes.experts})};
        if (!all) return out;
        out.sources = row_major(static_cast<void*>(sources), Format::i32, {count});
        out.weights = row_major(static_cast<void*>(weights), Format::f32, {count});
        return out;
    }
};

Words expected_words(const Sizes& sizes, const Routing& routing, bool all) {
    const Outputs outputs(sizes);
    Words words(outputs.words, ~0U);
    route(routing, sizes.experts, outputs.in(words.data(), sizes, all));
    return words;
}

/// A graph of calls of a launch.
class Graph {
public:
    Graph(const launch::OtherLaunch& launch, cuda::StreamHandle stream) {
        cuda::GraphHandle graph = nullptr;
        require(calls().stream_begin_capture(stream, 0), "cuStreamBeginCapture");
        for (int call = 0; call < calls_of_graph; ++call) cuda::runtime().device(0).launch(launch, stream);
        require(calls().stream_end_capture(stream, &graph), "cuStreamEndCapture");
        require(calls().graph_instantiate(&execution_, graph, 0), "cuGraphInstantiate");
        require(calls().graph_destroy(graph), "cuGraphDestroy");
        require(calls().event_create(&begin_, 0), "cuEventCreate");
        require(calls().event_create(&end_, 0), "cuEventCreate");
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() {
        calls().event_destroy(begin_);
        calls().event_destroy(end_);
        calls().graph_execution_destroy(execution_);
    }

    /// Microseconds of one call.
    double replay(const measure::Device& device, const Buffer& busy) const {
        float milliseconds = 0;
        const cuda::StreamHandle stream = device.stream();
        device.enqueue_fill(busy, 0, stream);
        require(calls().event_record(begin_, stream), "cuEventRecord");
        require(calls().graph_launch(execution_, stream), "cuGraphLaunch");
        require(calls().event_record(end_, stream), "cuEventRecord");
        require(calls().event_synchronize(end_), "cuEventSynchronize");
        require(calls().event_milliseconds(&milliseconds, begin_, end_), "cuEventElapsedTime");
        return static_cast<double>(milliseconds) * 1e3 / calls_of_graph;
    }

private:
    cuda::GraphExecutionHandle execution_ = nullptr;
    cuda::EventHandle begin_ = nullptr;
    cuda::EventHandle end_ = nullptr;
};

/// A variant that fits, with the times of its turns.
struct Racer {
    const Variant* variant;
    launch::OtherLaunch launch;
    std::vector<double> times{};
};

std::vector<Racer> racers(const moe::RouteStep& step) {
    const launch::OtherLaunch chosen = launch::lower(step).front();
    std::vector<Racer> list;
    for (const Variant& variant : variants) {
        const launch::OtherLaunch racer = variant.cluster ? launch::in_cluster(chosen, *variant.cluster) : chosen;
        if (racer.shared_bytes <= hopper::most_route_shared) list.push_back({&variant, racer});
    }
    return list;
}

class Race {
public:
    Race() { fmt::print("{}, us of a call in a graph of {}\n", device_.name(), calls_of_graph); }

    void run(const Sizes& sizes, Load load, bool all) {
        const std::vector<std::int32_t> ids = drawn_choices(sizes, load);
        const std::vector<float> weights = drawn_weights(ids.size());
        const Dims shape{sizes.tokens, sizes.choices};
        const Words expected = expected_words(sizes,
                                              {.experts = row_major(ids.data(), Format::i32, shape),
                                               .weights = row_major(weights.data(), Format::f32, shape)},
                                              all);
        const Buffer gpu_ids(ids.size() * 4), gpu_weights(ids.size() * 4), out(expected.size() * 4);
        gpu_ids.upload(ids.data(), gpu_ids.size());
        gpu_weights.upload(weights.data(), gpu_weights.size());
        const moe::RouteStep step{.routing = {.experts = on_gpu(gpu_ids, Format::i32, shape),
                                              .weights = on_gpu(gpu_weights, Format::f32, shape)},
                                  .experts = sizes.experts,
                                  .out = Outputs(sizes).in(reinterpret_cast<std::uint32_t*>(out.data()), sizes, all)};
        std::vector<Racer> list = racers(step);
        for (const Racer& racer : list) check(racer, out, expected);
        std::vector<std::unique_ptr<Graph>> graphs;
        graphs.reserve(list.size());
        for (const Racer& racer : list) graphs.push_back(std::make_unique<Graph>(racer.launch, device_.stream()));
        for (int turn = -1; turn < turns; ++turn) {  // the first warms up
            for (std::size_t i = 0; i < list.size(); ++i) {
                const double time = graphs[i]->replay(device_, busy_);
                if (turn >= 0) list[i].times.push_back(time);
            }
        }
        print(sizes, load, all, list);
    }

    void print_header() const {
        const bool large = cuda::runtime().device(0).runs_large_clusters(launch::Route{});
        if (!large) fmt::print("This GPU runs no clusters of 16 blocks: columns of 16 show clusters of 8.\n");
        fmt::print("{:<18} {:<15} {:<5}", "tokens x k, experts", "load", "out");
        for (const Variant& variant : variants) fmt::print(" {:>8}", variant.name);
        fmt::print("\n");
    }

private:
    void check(const Racer& racer, const Buffer& out, const Words& expected) const {
        out.fill(0xFF);
        cuda::runtime().device(0).launch(racer.launch, device_.stream());
        device_.synchronize();
        Words found(expected.size());
        out.download(found.data(), out.size());
        const auto [wrong, right] = std::mismatch(found.begin(), found.end(), expected.begin());
        if (wrong == found.end()) return;
        throw Error(fmt::format("{}: word {} is {}; expected {}. Rows, sources, weights and ends follow each other.",
                                racer.variant->name, wrong - found.begin(), *wrong, *right));
    }

    static void print(const Sizes& sizes, Load load, bool all, std::vector<Racer>& list) {
        fmt::print("{:<18} {:<15} {:<5}", fmt::format("{} x {}, {}", sizes.tokens, sizes.choices, sizes.experts),
                   name(load), all ? "all" : "rows");
        for (const Variant& variant : variants) {
            const auto racer =
                std::find_if(list.begin(), list.end(), [&](const Racer& each) { return each.variant == &variant; });
            if (racer == list.end()) {
                fmt::print(" {:>8}", "-");
                continue;
            }
            const auto middle = racer->times.begin() + std::ssize(racer->times) / 2;
            std::nth_element(racer->times.begin(), middle, racer->times.end());
            fmt::print(" {:>8.2f}", *middle);
        }
        fmt::print("\n");
    }

    measure::Device device_;
    Buffer busy_{busy_bytes};
};

void race(const std::vector<Sizes>& list) {
    Race race;
    race.print_header();
    for (const Sizes& sizes : list) {
        for (const Load load : all_loads) race.run(sizes, load, true);
        race.run(sizes, Load::even, false);
    }
    fmt::print("p: choices are stored one by one, not in the order of rows.\n");
}

}  // namespace
}  // namespace tilewright::benchmark

int main(int count, char** arguments) {
    using namespace tilewright::benchmark;
    std::vector<Sizes> list(all_sizes.begin(), all_sizes.end());
    if (count == 4) {
        list = {{std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3])}};
    }
    const auto is_wrong = [](const Sizes& sizes) {
        return sizes.tokens <= 0 || sizes.choices <= 0 || sizes.experts < 2 * sizes.choices;
    };
    if ((count != 1 && count != 4) || std::any_of(list.begin(), list.end(), is_wrong)) {
        fmt::print(stderr, "route_gpu [tokens choices experts]; at least two experts per choice\n");
        return 2;
    }
    try {
        race(list);
    } catch (const std::exception& error) {
        fmt::print(stderr, "route_gpu: {}\n", error.what());
        return 1;
    }
    return 0;
}
