// The kernels of a layer of experts on a GPU and their predicted times. The products' are the planner's. The other
// kernels stream their operands once, so that their time is a launch and their bytes.
#include <tilewright/error.h>
#include <tilewright/moe.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/moe_steps.h"
#include "launch/moe.h"

namespace tilewright {
namespace {

// The time of a kernel's launch in a chain, and a copy's rate over that of reading: measured on an H200.
constexpr double launch_seconds = 2.4e-6;
constexpr double copy_rate = 0.94;

std::int64_t bytes_of(const Tensor& tensor) {
    return tensor.given() ? row_major_bytes(tensor.format, tensor.shape) : 0;
}

std::int64_t bytes_of(const Operand& operand) {
    return bytes_of(operand.values) + bytes_of(operand.scales) + bytes_of(operand.tensor_scale);
}

std::string recipe_text(const Operand& operand) {
    if (operand.granularity == Granularity::none) return std::string(name(operand.values.format));
    return name(OperandRecipe{operand.values.format, operand.granularity, operand.scales.format});
}

std::string count_text(std::int64_t count, const std::string& what) { return std::to_string(count) + " " + what; }

class Explained {
public:
    Explained(const Moe& layer, const DeviceDescription& device)
        : layer_(layer), device_(device), sizes_(sizes_of(layer)) {}

    std::vector<MoeStep> list() {
        Arena counting(nullptr, layer_.out.device);
        const MoeSteps made = steps(layer_, counting);
        add_rows(made);
        if (made.staged_rows) add_quantizer(made.staged_rows->numbers, made.staged_rows->out);
        add_product("up", made.up);
        add_glue("activate", std::string(name(layer_.unit.kind)) + " to " + recipe_text(made.activate.out),
                 bytes_of(made.activate.gate_up) + bytes_of(made.activate.factors) + bytes_of(made.activate.out));
        if (made.staged_h) add_quantizer(made.staged_h->numbers, made.staged_h->out);
        add_product("down", made.down);
        if (made.combine) add_sum(*made.combine);
        return std::move(list_);
    }

private:
    void add_glue(const std::string& name, const std::string& what, std::int64_t bytes) {
        const double seconds =
            launch_seconds + static_cast<double>(bytes) / (copy_rate * device_.memory_bytes_per_second);
        list_.push_back({.name = name, .what = what, .seconds = seconds, .bytes = bytes});
    }

    void add_product(const std::string& name, const Product& product) {
        const Plan made = plan(product.problem, device_);
        list_.push_back({.name = name,
                         .what = made.tile.empty() ? "nothing to compute" : made.tile,
                         .seconds = made.cost.seconds,
                         .bytes = made.cost.memory_bytes + made.cost.preparation_bytes});
    }

    void add_quantizer(const Tensor& numbers, const Operand& out) {
        add_glue("quantize", std::string(name(numbers.format)) + " to " + recipe_text(out),
                 bytes_of(numbers) + bytes_of(out));
    }

    void add_rows(const MoeSteps& made) {
        if (made.route && !launch::fits_in_permute(*made.route)) {
            add_glue(
                "route", count_text(sizes_.rows(), "choices by expert"),
                bytes_of(layer_.routing.experts) + bytes_of(made.route->out.rows) + bytes_of(made.route->out.ends));
        }
        if (made.token_codes) add_quantizer(layer_.x, *made.token_codes);
        if (!made.permute) return;
        const moe::PermuteStep& step = *made.permute;
        const bool routes = made.route && launch::fits_in_permute(*made.route);
        add_glue("permute",
                 count_text(sizes_.rows(), "rows of ") + recipe_text(step.out) + (routes ? ", with the route" : ""),
                 bytes_of(step.x) + bytes_of(step.quantized) + bytes_of(step.factors) + bytes_of(step.places) +
                     bytes_of(step.out));
    }

    void add_sum(const moe::CombineStep& sum) {
        add_glue(
            "combine", count_text(std::max<std::int64_t>(sizes_.choices, 1), "rows per token"),
            bytes_of(sum.y) + bytes_of(sum.places) + bytes_of(sum.weights) + bytes_of(sum.addend) + bytes_of(sum.out));
    }

    const Moe& layer_;
    const DeviceDescription& device_;
    MoeSizes sizes_;
    std::vector<MoeStep> list_;
};

}  // namespace

std::vector<MoeStep> explain(const Moe& layer, const DeviceDescription& device) {
    require_none(validate(layer, Backend::hopper, Check::shapes));
    const MoeSizes sizes = sizes_of(layer);
    if (!sizes.has_routing()) return Explained(layer, device).list();
    return Explained(tokens_of(layer, 0, std::min(layer.chunk, sizes.tokens)), device).list();
}

}  // namespace tilewright
