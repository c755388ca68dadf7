// How fast a record of `tilewright bench --json` is, class by class of shapes, in the speed of other libraries.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tilewright::bench {

/// Speeds of a class by shape, each the median of the record's runs.
struct Speeds {
    std::map<std::string, double> by_shape{};

    double mean() const;  // geometric
    double worst() const;
    std::string slowest() const;  // the shape
    std::int64_t slower() const;  // how many shapes are below 0.98
};

struct ShapeClass {
    std::string name{};
    bool tuned_rows = true;
    std::size_t shapes = 0;  // shapes of the class in the baselines' tables
    std::size_t runs = 0;    // at most, of a shape
    double target = 0;       // of the mean in DeepGEMM's speed; 0: none
    Speeds deep_gemm{};
    Speeds blas{};  // cuBLASLt per tensor
};

struct ClassTable {
    std::vector<ShapeClass> classes{};
    std::vector<std::string> left_out{};  // runs that cannot be compared, and why
};

/// A run's times are scaled by one factor: cuBLASLt's time per tensor on `reference_product` in the run, over its time
/// in the baselines' run. Runs with a factor beyond these bounds are left out: they must be repeated.
inline constexpr double least_factor = 0.97;
inline constexpr double most_factor = 1.03;

/// The classes of lines of JSON, one record or several. Throws std::runtime_error naming the line that cannot be read.
ClassTable class_table(const std::string& lines);

std::string class_table_text(const ClassTable& table);

/// One JSON object per class, each on its own line.
std::string class_records(const ClassTable& table);

}  // namespace tilewright::bench
