// What `tilewright bench` prints and records while it times one shape after another.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/result.h"
#include "output/table.h"

namespace tilewright::cli {

void print_cpu_head(const bench::Run& run);

/// `power_source`: for continuous load.
void print_gpu_head(const bench::Run& run, const std::string& power_source);

/// Receives each JSON record as soon as it exists.
using Records = std::function<void(const std::string&)>;

/// Times shapes and prints one line per shape, or only JSON records.
class Session {
public:
    using Bench = std::function<bench::Result(const bench::BenchShape&, const bench::Settings&)>;

    Session(std::vector<bench::BenchShape> shapes, Bench run_one, Records records, bool tables)
        : shapes_(std::move(shapes)), run_one_(std::move(run_one)), records_(std::move(records)), tables_(tables) {}

    /// Every shape with every one of these runs, in one table.
    std::vector<bench::Result> run(const std::vector<bench::Run>& runs);

    bool wrong() const { return wrong_; }

private:
    void show(const output::Table& table, const bench::Result& result, const bench::Run& run);

    std::vector<bench::BenchShape> shapes_;
    Bench run_one_;
    Records records_;
    bool tables_;
    bool wrong_ = false;
};

}  // namespace tilewright::cli
