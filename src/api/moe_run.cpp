#include "api/moe_run.h"

#include <tilewright/error.h>

#include <algorithm>

#include "formats/quantize_cpu.h"
#include "formats/recipe_of.h"
#include "launch/quantize.h"

namespace tilewright {

const OperandNames names_of_up{{"a", "x"}, {"b", "up"}, {"bias", "up_bias"}, {"d", "gate_up"}};
const OperandNames names_of_down{{"a", "h"}, {"b", "down"}, {"bias", "down_bias"}, {"d", "out"}};

namespace {

/// The rows of the products, as far as the host knows.
std::int64_t usual_rows(const Moe& layer) {
    const MoeSizes sizes = sizes_of(layer);
    if (!sizes.masked) return sizes.rows();
    return sizes.experts * (layer.expected_m > 0 ? std::min(layer.expected_m, sizes.tokens) : sizes.tokens);
}

/// Quantizes numbers that a step has left in f32.
void quantize_staged(const StagedOperand& staged, bool round_up, const ConversionOptions& how) {
    const Tensor& numbers = staged.numbers;
    if (staged.ends.given() && is_on_gpu(numbers)) {
        cuda::run(launch::lower_groups(staged.ends, numbers.shape[0], {}, numbers), numbers.device.index, how.stream);
    }  // on the CPU the other rows are zeros already
    quantize(numbers, {.recipe = recipe_of(staged.out), .round_up = round_up}, staged.out, how);
}

}  // namespace

void make_rows(const Moe& layer, const MoeSteps& made, const RunOptions& how) {
    if (made.token_codes) {
        const QuantizeOptions options{.recipe = layer.activations, .round_up = layer.round_up};
        quantize(layer.x, options, *made.token_codes, conversion(how));
    }
    if (is_on_gpu(layer.out)) {
        if (made.route) return run_on_gpu(layer.out.device.index, how, *made.route, *made.permute);
        if (made.permute) run_on_gpu(layer.out.device.index, how, *made.permute);
        return;
    }
    if (made.route) moe::run_on_cpu(*made.route);
    if (made.permute) moe::run_on_cpu(*made.permute, conversion(how));
}

RunOptions after_first(const Moe& layer, const RunOptions& how) {
    // Up to these rows a layer gains 0 to 7 %, with twice as many it loses 8 %
    // (docs/experiments/032-overlap-in-a-layer.md).
    constexpr std::int64_t most_rows = 4096;
    RunOptions options = how;
    options.overlap = how.overlap || usual_rows(layer) <= most_rows;
    options.weights_ready = false;  // the kernels of this layer write sizes
    return options;
}

void run_products(const Moe& layer, const MoeSteps& made, const RunOptions& how) {
    if (made.staged_rows) quantize_staged(*made.staged_rows, layer.round_up, conversion(how));
    const RunOptions after = after_first(layer, how);
    multiply(made.up, names_of_up, made.permute ? after : how);
    run_step(made.activate, layer.out.device, after);
    if (made.staged_h) quantize_staged(*made.staged_h, layer.round_up, conversion(how));
    RunOptions down = after;
    down.weights_ready = true;  // the first product had the same sizes
    multiply(made.down, names_of_down, down);
}

}  // namespace tilewright
