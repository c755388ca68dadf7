// Measured candidates (`tilewright tune --json`) with what the model says of them: for the test and for fitting.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/devices.h"
#include "plan/model.h"
#include "plan/workload.h"

namespace tilewright::planner {

struct MeasuredTile {
    hopper::Kernel tile;
    double seconds = 0;
};

struct RecordedShape {
    Workload work;
    DeviceDescription device = h200();  // that was measured
    std::vector<MeasuredTile> measured;
    std::vector<hopper::Kernel> unmeasured;  // the other legal candidates
    int illegal = 0;                         // measurements of tiles that are no longer legal
    std::string command;                     // that made the record
    bool as_users_have_them = false;         // drawn by src/check/user_sizes.h, and not by what was before it

    double best() const;  // seconds of the fastest
};

/// One entry per problem of the file. Rows whose tile is no longer legal are only counted. The last measurement of a
/// tile is kept. Throws std::runtime_error for a line that is not a measurement.
std::vector<RecordedShape> read_record(const std::string& path);

struct Verdict {
    hopper::Kernel chosen;
    double slower = 0;     // than the best that was measured; 0: the choice was not measured
    double predicted = 0;  // seconds
};

/// The candidate that the model thinks fastest, as `explain` does without tuned rows and hints.
Verdict judge(const RecordedShape& shape, const DeviceDescription& device, const Model& model);

/// The tile that runs without tuned rows.
Verdict judge_planner(const RecordedShape& shape);

}  // namespace tilewright::planner
