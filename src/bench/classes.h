// Which classes of shapes a time in a record belongs to: what `tilewright classes` groups by.
#pragma once

#include <string>
#include <vector>

#include "bench/peers_table.h"

namespace tilewright::bench {

/// A line of a record that classes are made of: 1x128 : 128x128, bf16, promoted, as the planner chose.
struct RecordedTime {
    enum class Kind { ours, ours_sustained, reference };
    Kind kind = Kind::ours;
    BenchShape shape{};
    double seconds = 0;
    double picojoules = 0;   // Energy per floating-point operation under continuous load.
    bool drop_in = false;    // Called through tilewright.deep_gemm.
    bool along_m = false;    // Scales of neighbouring rows are neighbours.
    bool tuned_rows = true;  // Whether tuned rows were used.
    std::string run{};       // Command, commit and begin of the run. The GPU has one clock during a run.
};

/// The lines of one record or several that are such. Throws std::runtime_error naming the line that cannot be read.
std::vector<RecordedTime> recorded_times(const std::string& lines);

struct ClassName {
    int place = 0;  // in the table
    std::string name{};
};

/// Empty for shapes that no class has.
std::vector<ClassName> classes_of(const RecordedTime& time);
ClassName sustained_class();

/// Number of its shapes in the baselines' tables.
std::size_t shapes_in_class(int place);

/// The project's target, relative to DeepGEMM's speed; 0: none.
double target_of_class(int place);

}  // namespace tilewright::bench
