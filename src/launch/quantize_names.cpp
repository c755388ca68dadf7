// The kernels of quantizers and of packing: their names, and the kernels that ship.
#include "launch/initializers.h"
#include "launch/preparation.h"
#include "launch/quantize.h"
#include "launch/weight_packing.h"

namespace tilewright::launch {

using namespace hopper;

namespace {

CopySpec rows(ScaledBy scaled) { return {.scaled = scaled}; }

CopySpec rows_of_powers(ScaledBy scaled, bool ue8m0 = false) {
    return {.scaled = scaled, .powers = true, .ue8m0 = ue8m0};
}

CopySpec columns(ScaledBy scaled) { return {.scaled = scaled, .transposed = true}; }

/// Adds the kernel that writes the operands, and the kernel that measures their scales first, if they need one.
void add(std::vector<QuantizeKernel>& list, const Quantizer& quantizer) {
    if (is_measured(quantizer.rows) || is_measured(quantizer.columns)) {
        list.push_back({.step = QuantizeStep::measure, .quantizer = quantizer});
    }
    list.push_back({.step = QuantizeStep::quantize, .quantizer = quantizer});
}

}  // namespace

std::vector<QuantizeKernel> shipped_quantizers() {
    // With the names that `lower` gives. All kernels of clear_scales are alike; for finish_scales the value format
    // matters.
    std::vector<QuantizeKernel> list{{.step = QuantizeStep::clear_scales},
                                     {.step = QuantizeStep::finish_scales, .copy = rows(ScaledBy::all)}};
    // Activations and weights, one matrix at a time.
    for (const CopySpec& copy : {rows(ScaledBy::token_block), rows_of_powers(ScaledBy::token_block),
                                 rows_of_powers(ScaledBy::token_block, true), rows(ScaledBy::square),
                                 rows_of_powers(ScaledBy::square), rows(ScaledBy::token), rows(ScaledBy::all)}) {
        add(list, {.rows = copy});
    }
    // Both operands of a training step, of one matrix and of groups; SwiGLU precedes the second product, its gradient
    // follows.
    for (const bool grouped : {false, true}) {
        add(list,
            {.grouped = grouped, .rows = rows(ScaledBy::token_block), .columns = columns(ScaledBy::feature_block)});
        add(list, {.grouped = grouped, .rows = rows(ScaledBy::token), .columns = columns(ScaledBy::feature)});
        add(list, {.formula = Formula::swiglu, .grouped = grouped, .rows = rows(ScaledBy::token_block)});
    }
    list.push_back({.step = QuantizeStep::transpose_codes, .transposition = copy_spec});
    list.push_back({.step = QuantizeStep::expand_weights});
    list.push_back({.step = QuantizeStep::finish_groups});
    return list;
}

std::string kernel_expression(const QuantizeKernel& kernel) {
    const std::string room = "tilewright::hopper::";
    Initializers all;
    if (reads_tiles(kernel)) {
        visit_fields(kernel.quantizer, all);
        const char* function = kernel.step == QuantizeStep::measure ? "measure" : "quantize";
        return room + function + "<" + room + "Quantizer{" + all.text() + "}>";
    }
    if (kernel.step == QuantizeStep::transpose_codes) {
        visit_fields(kernel.transposition, all);
        return room + "transpose_codes<" + room + "TransposeSpec{" + all.text() + "}>";
    }
    if (kernel.step == QuantizeStep::decode_codes) {
        visit_fields(kernel.decoding, all);
        return room + "decode_codes<" + room + "DecodeSpec{" + all.text() + "}>";
    }
    if (kernel.step == QuantizeStep::expand_weights) {
        const std::string weights = room + "Expansion(" + std::to_string(static_cast<int>(kernel.weights)) + ")";
        return room + "expand_weights<" + weights + ", " + std::to_string(expand_run_tiles) + ">";
    }
    if (kernel.step == QuantizeStep::finish_groups) {
        return room + "finish_groups<" + std::to_string(quantize_threads) + ">";
    }
    if (kernel.step == QuantizeStep::quantize_blocks || kernel.step == QuantizeStep::finish_tensor_scales) {
        visit_fields(kernel.blocks, all);
        const bool finishes = kernel.step == QuantizeStep::finish_tensor_scales;
        return room + (finishes ? "finish_tensor_scales" : "quantize_blocks") + "<" + room + "BlockSpec{" + all.text() +
               "}>";
    }
    all.field("scaled", kernel.copy.scaled);
    all.field("storage", kernel.copy.storage);
    all.field("powers", kernel.copy.powers);
    const char* function = kernel.step == QuantizeStep::clear_scales ? "clear_scales" : "finish_scales";
    return room + function + "<" + room + "CopySpec{" + all.text() + "}>";
}

int shared_bytes(const QuantizeKernel& kernel) {
    if (kernel.step == QuantizeStep::expand_weights) return expand_shared_bytes(kernel.weights);
    if (!reads_tiles(kernel) && kernel.step != QuantizeStep::transpose_codes) return 0;
    return quantize_shared_bytes + (reads_tiles(kernel) && kernel.quantizer.paired ? ups_bytes : 0);
}

std::vector<PackKernel> shipped_packers() {
    return {{PackStep::pack_tiles, {}}, {PackStep::pack_heads, {}}, {PackStep::pack_rest, {}}};
}

std::string kernel_expression(const PackKernel& kernel) {
    constexpr const char* functions[] = {"pack_tiles", "pack_heads", "pack_rest", "pack_scales"};
    const std::string room = "tilewright::hopper::";
    Initializers all;
    visit_fields(kernel.spec, all);
    return room + functions[static_cast<std::size_t>(kernel.step)] + "<" + room + "PackSpec{" + all.text() + "}>";
}

int most_shared_bytes(const PackKernel& kernel) {
    const bool has_rows = kernel.step == PackStep::pack_tiles || kernel.step == PackStep::pack_scales;
    return has_rows ? most_pack_shared : 0;
}

}  // namespace tilewright::launch
