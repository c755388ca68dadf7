// Draws of each random distribution, from which the data of a case pick.
#include "check/data.h"
#include "check/random.h"

#include <cmath>
#include <map>
#include <numbers>

namespace tilewright::check {
namespace {

float draw_one(Distribution distribution, float normal, Random& random) {
    switch (distribution) {
        case Distribution::normal: return normal;
        case Distribution::abs_normal: return std::fabs(normal);
        case Distribution::uniform: return static_cast<float>(random.unit());
        case Distribution::normal_cubed: return normal * normal * normal;
        case Distribution::log_normal: return std::exp(normal);
        case Distribution::outliers: return random.up_to(99) == 0 ? normal * 100 : normal;
        case Distribution::sparse: return random.up_to(3) == 0 ? normal : 0;
        default: return 1;
    }
}

std::vector<float> make_draws(Distribution distribution) {
    std::vector<float> list;
    Random random(0xD1);
    while (list.size() < std::size_t{1} << draw_bits) {
        const double radius = std::sqrt(-2 * std::log(1 - random.unit()));  // Box and Muller 1958
        const double angle = 2 * std::numbers::pi * random.unit();
        list.push_back(draw_one(distribution, static_cast<float>(radius * std::cos(angle)), random));
    }
    return list;
}

}  // namespace

const std::vector<float>& draws(Distribution distribution) {
    static const std::map<Distribution, std::vector<float>> tables = [] {
        std::map<Distribution, std::vector<float>> all;
        for (Distribution each : random_distributions()) all.emplace(each, make_draws(each));
        return all;
    }();
    return tables.at(distribution);
}

}  // namespace tilewright::check
