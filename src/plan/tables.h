// The tables of src/plan/devices and src/plan/tuned, embedded at build time.
#pragma once

#include <array>
#include <string_view>

namespace tilewright::planner {

inline constexpr int device_count = 8;
inline constexpr int tuned_count = 2;

extern const std::array<std::string_view, device_count> device_tables;  // the H200's first
extern const std::array<std::string_view, tuned_count> tuned_tables;

}  // namespace tilewright::planner
