#include "api/explained_steps.h"

#include <algorithm>
#include <cmath>

#include "api/link_rates.h"
#include "formats/recipe_of.h"
#include "launch/moe.h"
#include "launch/preparation.h"
#include "launch/quantize.h"
#include "problem/gpu_call.h"

namespace tilewright {
namespace {

constexpr double copy_rate = 0.94;  // of a copy, over that of reading: measured on an H200

std::int64_t share_of(std::int64_t bytes, double share) { return std::llround(static_cast<double>(bytes) * share); }

/// The kernels of a product: those that write its workspace, and the product's own.
int launches_of(const Problem& product) {
    return static_cast<int>(launch::lower_workspace(gpu_call(product, nowhere()).before, nowhere()).size()) + 1;
}

/// With ends, one more kernel clears the rows that do not exist.
int launches_of(const StagedOperand& staged, bool round_up) {
    return static_cast<int>(launch::lower(staged.numbers, staged.out, round_up).size()) + (staged.ends.given() ? 1 : 0);
}

}  // namespace

std::int64_t bytes_of(const Tensor& tensor) {
    return tensor.given() ? row_major_bytes(tensor.format, tensor.shape) : 0;
}

std::int64_t bytes_of(const Operand& operand) {
    return bytes_of(operand.values) + bytes_of(operand.scales) + bytes_of(operand.tensor_scale);
}

double ExplainedSteps::copy_seconds(std::int64_t bytes, std::int64_t link_bytes) const {
    return std::max(static_cast<double>(bytes) / (copy_rate * device_.memory_bytes_per_second),
                    static_cast<double>(link_bytes) / pulled_bytes_per_second);
}

void ExplainedSteps::add_copy(MoeStep step, double start, double exposed) {
    const double copied = copy_seconds(step.bytes, step.link_bytes);
    step.seconds = start + copied;
    step.exposed_seconds = exposed + copied - copy_seconds(step.bytes, 0);
    add(std::move(step));
}

void ExplainedSteps::add_up_to_combine(const Moe& layer, const MoeSteps& made, const ExpectedShares& expected) {
    add_rows(layer, made, expected);
    if (made.staged_rows) add_quantizer(*made.staged_rows, layer.round_up);
    add_product("up", made.up);
    const moe::ActivateStep& step = made.activate;
    add_copy({.name = "activate",
              .what = std::string(name(layer.unit.kind)) + " to " + name(recipe_of(step.out)),
              .bytes = share_of(bytes_of(step.gate_up) + bytes_of(step.factors), expected.rows) +
                       share_of(bytes_of(step.out), step.clears ? 1 : expected.rows)});
    if (made.staged_h) add_quantizer(*made.staged_h, layer.round_up);
    add_product("down", made.down);
}

void ExplainedSteps::add_product(const std::string& name, const Product& product) {
    const Plan made = plan(product.problem, device_);
    add({.name = name,
         .what = made.tile.empty() ? "nothing to compute" : made.tile,
         .seconds = made.cost.seconds,
         .bytes = made.cost.memory_bytes + made.cost.preparation_bytes,
         .launches = made.tile.empty() ? 0 : launches_of(product.problem)});
}

void ExplainedSteps::add_quantizer(const StagedOperand& staged, bool round_up) {
    add_copy({.name = "quantize",
              .what = std::string(name(staged.numbers.format)) + " to " + name(recipe_of(staged.out)),
              .bytes = bytes_of(staged.numbers) + bytes_of(staged.out),
              .launches = launches_of(staged, round_up)});
}

void ExplainedSteps::add_rows(const Moe& layer, const MoeSteps& made, const ExpectedShares& expected) {
    const std::int64_t rows = sizes_of(layer).rows();
    const bool routes_first = made.route && !launch::fits_in_permute(*made.route);
    if (routes_first) {
        add_copy({.name = "route",
                  .what = std::to_string(rows) + " choices by expert",
                  .bytes = bytes_of(made.route->routing.experts) + bytes_of(made.route->out.rows) +
                           bytes_of(made.route->out.ends)});
    }
    if (made.token_codes) add_quantizer({.numbers = layer.x, .out = *made.token_codes}, layer.round_up);
    if (!made.permute) return;
    const moe::PermuteStep& step = *made.permute;
    const std::string with_route = made.route && !routes_first ? ", with the route" : "";
    add_copy(
        {.name = "permute",
         .what = std::to_string(share_of(rows, expected.rows)) + " rows of " + name(recipe_of(step.out)) + with_route,
         .bytes = share_of(bytes_of(step.x) + bytes_of(step.quantized), expected.tokens) + bytes_of(step.factors) +
                  bytes_of(step.places) + share_of(bytes_of(step.out), expected.rows),
         .link_bytes = expected.link_bytes});
}

}  // namespace tilewright
