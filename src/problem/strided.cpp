#include "problem/strided.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

// Lengths are in half bytes, the unit of e2m1. A pair of elements is a choice of indices; the distance between the two
// is a sum of stride * index difference. Whether that sum can fall into an interval is asked dimension by dimension.

namespace tilewright::validation {
namespace {

/// Contributes stride * x with lowest <= x <= highest.
struct Step {
    std::int64_t stride;
    std::int64_t lowest;
    std::int64_t highest;
};

struct Interval {
    std::int64_t low;
    std::int64_t high;
};

constexpr std::int64_t floor_divide(std::int64_t value, std::int64_t divisor) {
    return value / divisor - (value % divisor < 0 ? 1 : 0);
}

class Search {
public:
    explicit Search(std::vector<Step> steps) : steps_(std::move(steps)) {
        std::sort(steps_.begin(), steps_.end(), [](const Step& x, const Step& y) { return x.stride > y.stride; });
        rest_.resize(steps_.size() + 1);
        for (std::size_t i = steps_.size(); i-- > 0;) {
            rest_[i] = {rest_[i + 1].low + steps_[i].stride * steps_[i].lowest,
                        rest_[i + 1].high + steps_[i].stride * steps_[i].highest};
        }
    }

    /// Whether some sum of all steps is in the interval; true also where the search takes too long.
    bool reaches(Interval target) { return reaches(0, target); }

private:
    bool reaches(std::size_t depth, Interval target) {
        if (--budget_ < 0) return true;
        const Interval whole = rest_[depth];
        if (target.high < whole.low || target.low > whole.high) return false;
        if (depth == steps_.size() || (target.low <= whole.low && whole.high <= target.high)) return true;
        const Step& step = steps_[depth];
        const Interval inner = rest_[depth + 1];
        const std::int64_t first = std::max(step.lowest, -floor_divide(inner.high - target.low, step.stride));
        const std::int64_t last = std::min(step.highest, floor_divide(target.high - inner.low, step.stride));
        for (std::int64_t x = first; x <= last; ++x) {
            if (reaches(depth + 1, {target.low - step.stride * x, target.high - step.stride * x})) return true;
        }
        return false;
    }

    std::vector<Step> steps_;
    std::vector<Interval> rest_{{0, 0}};  // the possible sums of the steps from here on
    int budget_ = 1'000'000;
};

std::int64_t element_length(const Tensor& tensor) { return std::max(bits(tensor.format) / 4, 1); }

/// A gapless run of half bytes, and the steps at which it repeats.
struct Footprint {
    std::int64_t run = 0;
    std::vector<Step> steps;
};

Footprint footprint(const Tensor& tensor) {
    Footprint result{.run = element_length(tensor), .steps = {}};
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 1 || tensor.strides[i] == 0) continue;
        result.steps.push_back({tensor.strides[i] * element_length(tensor), 0, tensor.shape[i] - 1});
    }
    std::sort(result.steps.begin(), result.steps.end(), [](auto& x, auto& y) { return x.stride < y.stride; });
    while (!result.steps.empty() && result.steps.front().stride <= result.run) {
        result.run += result.steps.front().stride * result.steps.front().highest;
        result.steps.erase(result.steps.begin());
    }
    return result;
}

/// The steps of x minus the steps of y. Equal strides become one step, which keeps the search short for views of a
/// buffer.
std::vector<Step> difference(std::vector<Step> x, const std::vector<Step>& y) {
    for (const Step& step : y) {
        const auto same = std::find_if(x.begin(), x.end(), [&](const Step& s) { return s.stride == step.stride; });
        if (same == x.end()) {
            x.push_back({step.stride, -step.highest, -step.lowest});
        } else {
            same->lowest -= step.highest;
            same->highest -= step.lowest;
        }
    }
    return x;
}

}  // namespace

bool overlaps_itself(const Tensor& tensor) {
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return false;
    std::vector<Step> steps;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 1) continue;
        if (tensor.strides[i] == 0) return true;
        // Two elements whose first difference is in this dimension: earlier indices are equal, later ones free.
        std::vector<Step> pair{{tensor.strides[i], 1, tensor.shape[i] - 1}};
        for (int j = i + 1; j < tensor.shape.rank(); ++j) {
            if (tensor.shape[j] > 1 && tensor.strides[j] > 0) {
                pair.push_back({tensor.strides[j], 1 - tensor.shape[j], tensor.shape[j] - 1});
            }
        }
        if (Search(std::move(pair)).reaches({0, 0})) return true;
    }
    return false;
}

namespace {

/// Half bytes from the first element's beginning to the last one's end.
std::int64_t length(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    return (last + 1) * (bits(tensor.format) / 4);
}

}  // namespace

bool overlap(const Tensor& x, const Tensor& y) {
    const auto x_address = std::bit_cast<std::uintptr_t>(x.data);
    const auto y_address = std::bit_cast<std::uintptr_t>(y.data);
    const std::uintptr_t apart = x_address < y_address ? y_address - x_address : x_address - y_address;
    if (apart >= std::uintptr_t{1} << 60) return false;  // further apart than a sound tensor is long
    const auto distance = static_cast<std::int64_t>(apart) * 2;
    if (distance >= length(x_address < y_address ? x : y)) return false;
    const Footprint fx = footprint(x);
    const Footprint fy = footprint(y);
    const std::int64_t from_x = x_address < y_address ? distance : -distance;
    // With run_x and run_y as lengths, a run of x at p and one of y at q + from_x share a half byte if -run_y < (q +
    // from_x) - p < run_x
    return Search(difference(fx.steps, fy.steps)).reaches({from_x - fx.run + 1, from_x + fy.run - 1});
}

}  // namespace tilewright::validation
