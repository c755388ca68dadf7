// Writes copies of the learning kernel, each with one bug and in its own namespace:  plant_bugs KERNEL OUTPUT
//
// A bug is a change of the kernel's text. The kernel must have the old text once, so that no bug gets lost when the
// kernel changes.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Change {
    std::string from;
    std::string to;
};

struct Bug {
    std::string name;
    std::vector<Change> changes;
};

const std::vector<Bug>& bugs() {
    static const std::vector<Bug> list{
        {"early_release",
         {{"        if (lane_index() == 0) barrier_arrive(shared.empty[stage]);", ""},
          {"wgmma_commit();", "wgmma_commit();\n        if (lane_index() == 0) barrier_arrive(shared.empty[stage]);"}}},
        {"no_wait_for_products", {{"wgmma_wait<0>();", ""}}},
        {"no_wait_for_stores",
         {{"barrier_wait(shared.stored[warpgroup], stored_phase",
           "if (false) barrier_wait(shared.stored[warpgroup], stored_phase"}}},
        {"no_wait_for_d",
         {{"barrier_wait(shared.staged[warpgroup], phase", "if (false) barrier_wait(shared.staged[warpgroup], phase"}}},
        {"no_wait_for_copies", {{"barrier_arrive_after_copies(full);", ""}}},
        {"no_proxy_fence", {{"fence_async_proxy();", ""}}},
        {"too_few_bytes", {{" + tile_rows * int(sizeof(float));", ";"}}},
        {"too_many_arrivals", {{"barrier_init(empty, warpgroups * 4);", "barrier_init(empty, warpgroups * 4 + 1);"}}},
        {"producer_in_phase_0", {{"{.stage = 0, .phase = 1}", "{.stage = 0, .phase = 0}"}}},
        {"no_swizzle", {{"(chunk ^ row % 8)", "chunk"}}},
        {"scale_of_upper_row", {{"shared.a_scales[stage][row + 8]", "shared.a_scales[stage][row]"}}},
        {"scale_of_first_columns", {{"work.column / tile_columns * arguments", "0 * arguments"}}},
        {"sums_of_last_tile", {{"for (float& sum : sums) sum = 0;", ""}}},
        {"last_k_block_skipped", {{"left > 0; --left", "left > 1; --left"}}},
        {"raster_of_full_width", {{"min(arguments.row_tiles - first, raster_width)", "raster_width"}}},
    };
    return list;
}

/// The text with `from` replaced, which is in it once.
std::string changed(std::string text, const Change& change, const std::string& bug) {
    const std::size_t at = text.find(change.from);
    if (at == text.npos || text.find(change.from, at + 1) != text.npos) {
        throw std::runtime_error(bug + ": \"" + change.from + "\" must be in the kernel once; change plant_bugs.cpp");
    }
    return text.replace(at, change.from.size(), change.to);
}

std::string planted(const std::string& kernel) {
    std::string all = "#pragma once\n";
    std::string names = "#define TILEWRIGHT_PLANTED_BUGS(each)";
    for (const Bug& bug : bugs()) {
        std::string copy = kernel;
        for (const Change& change : bug.changes) copy = changed(copy, change, bug.name);
        copy = changed(copy, {"#pragma once\n", ""}, bug.name);
        all += changed(copy, {"namespace tilewright::learn {\n", "namespace tilewright::learn::" + bug.name + " {\n"},
                       bug.name);
        names += " each(" + bug.name + ")";
    }
    return all + names + "\n";
}

}  // namespace

int main(int count, char** arguments) {
    try {
        if (count != 3) throw std::runtime_error("plant_bugs KERNEL OUTPUT");
        std::ifstream from(arguments[1]);
        const std::string kernel{std::istreambuf_iterator<char>(from), {}};
        if (kernel.empty()) throw std::runtime_error(std::string(arguments[1]) + ": cannot be read");
        std::ofstream to(arguments[2]);
        to << planted(kernel);
        if (!to.flush()) throw std::runtime_error(std::string(arguments[2]) + ": cannot be written");
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "plant_bugs: %s\n", error.what());
        return 1;
    }
}
