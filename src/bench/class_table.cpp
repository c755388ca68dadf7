#include "bench/class_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "bench/classes.h"
#include "measure/statistics.h"
#include "output/table.h"

namespace tilewright::bench {
namespace {

/// "None slower" tolerates noise.
constexpr double not_slower = 0.98;

struct Samples {
    std::vector<double> deep_gemm{};
    std::vector<double> blas{};
};

/// By place in the table, name and whether tuned rows were on; then by shape.
using Classes = std::map<std::tuple<int, std::string, bool>, std::map<std::string, Samples>>;

class Collector {
public:
    explicit Collector(const std::vector<RecordedTime>& times) {
        for (const RecordedTime& time : times) {
            if (time.kind == RecordedTime::Kind::reference) references_[time.run].push_back(time.seconds);
        }
        for (const RecordedTime& time : times) {
            if (time.kind == RecordedTime::Kind::ours) add(time);
            if (time.kind == RecordedTime::Kind::ours_sustained) add_energy(time);
        }
    }

    Classes classes{};
    std::set<std::string> left_out{};

private:
    void add(const RecordedTime& time) {
        const PeerTime* deep_gemm = find_peer(peers_table(), "DeepGEMM", time.shape);
        if (deep_gemm == nullptr) return;
        const auto found = references_.find(time.run);
        if (found == references_.end()) {
            left_out.insert("no time of cuBLASLt on the reference product; repeat it with --peers: " + time.run);
            return;
        }
        const double reference = measure::median(found->second);
        const double factor = reference / deep_gemm->reference_seconds;
        if (factor < least_factor || factor > most_factor) {
            left_out.insert(fmt::format("{:.3f} is its factor, beyond {} .. {}; repeat it: {}", factor, least_factor,
                                        most_factor, time.run));
            return;
        }
        const std::optional<double> speed = speed_against(deep_gemm, time.seconds, reference);
        const PeerTime* peer = find_peer(peers_table(), blas_peer, time.shape);
        const std::optional<double> blas = speed_against(peer, time.seconds, reference);
        for (const ClassName& each : classes_of(time)) {
            Samples& samples = classes[{each.place, each.name, time.tuned_rows}][shape_text(time.shape)];
            if (speed) samples.deep_gemm.push_back(*speed);
            if (blas) samples.blas.push_back(*blas);
        }
    }

    void add_energy(const RecordedTime& time) {
        const std::optional<double> deep_gemm = peer_picojoules(time.shape);
        if (!deep_gemm || time.picojoules <= 0) return;
        const ClassName name = sustained_class();
        classes[{name.place, name.name, time.tuned_rows}][shape_text(time.shape)].deep_gemm.push_back(*deep_gemm /
                                                                                                      time.picojoules);
    }

    std::map<std::string, std::vector<double>> references_;  // by run
};

void add_median(Speeds& speeds, const std::string& shape, const std::vector<double>& samples) {
    if (!samples.empty()) speeds.by_shape[shape] = measure::median(samples);
}

std::vector<std::string> speed_cells(const Speeds& speeds) {
    if (speeds.by_shape.empty()) return {"", "", ""};
    return {fmt::format("{:.3f}", speeds.mean()), fmt::format("{:.3f}", speeds.worst()), speeds.slowest()};
}

void add_speeds(nlohmann::ordered_json& line, const std::string& who, const Speeds& speeds) {
    if (speeds.by_shape.empty()) return;
    line[who] = speeds.mean();
    line[who + "_worst"] = speeds.worst();
    line[who + "_worst_shape"] = speeds.slowest();
    line[who + "_slower"] = speeds.slower();
}

}  // namespace

double Speeds::mean() const {
    std::vector<double> all;
    for (const auto& [shape, speed] : by_shape) all.push_back(speed);
    return measure::geometric_mean(all);
}

std::string Speeds::slowest() const {
    const auto slower = [](const auto& x, const auto& y) { return x.second < y.second; };
    const auto found = std::min_element(by_shape.begin(), by_shape.end(), slower);
    return found == by_shape.end() ? "" : found->first;
}

double Speeds::worst() const { return by_shape.empty() ? 0 : by_shape.at(slowest()); }

std::int64_t Speeds::slower() const {
    return std::ranges::count_if(by_shape, [](const auto& speed) { return speed.second < not_slower; });
}

ClassTable class_table(const std::string& lines) {
    Collector collector(recorded_times(lines));
    ClassTable table;
    table.left_out.assign(collector.left_out.begin(), collector.left_out.end());
    for (const auto& [key, shapes] : collector.classes) {
        const auto& [place, name, tuned_rows] = key;
        ShapeClass each{
            .name = name, .tuned_rows = tuned_rows, .shapes = shapes_in_class(place), .target = target_of_class(place)};
        for (const auto& [shape, samples] : shapes) {
            each.runs = std::max(each.runs, samples.deep_gemm.size());
            add_median(each.deep_gemm, shape, samples.deep_gemm);
            add_median(each.blas, shape, samples.blas);
        }
        table.classes.push_back(std::move(each));
    }
    return table;
}

std::string class_table_text(const ClassTable& table) {
    output::Table text({{.title = "class"},
                        {.title = "tuned rows"},
                        {.title = "shapes", .right = true},
                        {.title = "runs", .right = true},
                        {.title = "x DeepGEMM", .right = true},
                        {.title = "worst", .right = true},
                        {.title = "at"},
                        {.title = "slower", .right = true},
                        {.title = "target", .right = true},
                        {.title = "x cuBLASLt", .right = true},
                        {.title = "worst", .right = true},
                        {.title = "at"}});
    for (const ShapeClass& each : table.classes) {
        std::vector<std::string> cells{each.name, each.tuned_rows ? "on" : "off",
                                       fmt::format("{} of {}", each.deep_gemm.by_shape.size(), each.shapes),
                                       std::to_string(each.runs)};
        for (std::string& cell : speed_cells(each.deep_gemm)) cells.push_back(std::move(cell));
        cells.push_back(std::to_string(each.deep_gemm.slower()));
        cells.push_back(each.target > 0 ? fmt::format("{:.2f}", each.target) : "");
        for (std::string& cell : speed_cells(each.blas)) cells.push_back(std::move(cell));
        text.add(std::move(cells));
    }
    return text.text();
}

std::string class_records(const ClassTable& table) {
    std::string lines;
    for (const ShapeClass& each : table.classes) {
        nlohmann::ordered_json line{{"class", each.name},
                                    {"tuned_rows", each.tuned_rows},
                                    {"shapes", each.deep_gemm.by_shape.size()},
                                    {"of", each.shapes},
                                    {"runs", each.runs}};
        add_speeds(line, "deep_gemm", each.deep_gemm);
        add_speeds(line, "blas_lt", each.blas);
        if (each.target > 0) line["target"] = each.target;
        lines += line.dump() + "\n";
    }
    return lines;
}

}  // namespace tilewright::bench
